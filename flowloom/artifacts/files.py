"""`FileArtifactService`: artifacts in a folder, which outlive the process (spec §20.1).

    apps/<app>/users/<user>/files/<file>/<version>/...                     files of the user
    apps/<app>/users/<user>/sessions/<session>/files/<file>/<version>/...  files of a session
    unfinished/...                                                         what is being written, or being deleted

A version is written beside the others and then renamed to the next free number. A rename happens wholly or not at
all, and not to a folder that holds anything: so nobody sees half a version, and no number is given twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

from google.genai import types

from flowloom.artifacts.file_names import folder_name, plain_name
from flowloom.artifacts.service import BaseArtifactService, owning_session, private_part
from flowloom.artifacts.version import ArtifactVersion
from flowloom.artifacts.version_folder import NewVersion, VersionFolder, sync_folder
from flowloom.errors import StorageError
from flowloom.events.clock import now
from flowloom.objects.two_names import one_of

_T = TypeVar("_T")
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
"""What POSIX says to a rename to a folder that holds something; Windows says what it likes."""
_ABANDONED = 24 * 3600.0
"""Seconds after which something unfinished counts as left by a process that died."""


class FileArtifactService(BaseArtifactService):
    """Keeps artifacts in a folder, which any number of processes may use at once.

    Each version is a folder with a file `data` (the bytes, or the text in UTF-8) and a file `about.json` (the rest of
    the part, the metadata). Both are on the disk when `save_artifact` returns. A name may be any that the protocol
    allows: whatever a file system could not take, or would mix up, is kept under a folder name made from it.

    `directory` (or `root_dir`, google-adk's name of it) is made when something is saved. Metadata has to be of values
    that JSON can hold, or else `InputValidationError` is raised; `StorageError` is raised, with the path, for a file
    that is damaged and for a folder that cannot be read or written.
    """

    def __init__(
        self, directory: str | os.PathLike[str] | None = None, *, root_dir: str | os.PathLike[str] | None = None
    ) -> None:
        self._root = Path(one_of(("directory", "root_dir"), directory, root_dir)).absolute()
        self._cleaned = False

    @property
    def directory(self) -> Path:
        """The folder that all artifacts are in."""
        return self._root

    @classmethod
    def beside(cls, database: str | os.PathLike[str]) -> Self:
        """The artifacts of those who keep sessions in the file `database`: in a folder beside it."""
        path = Path(database)
        return cls(path.with_name(f"{path.name}-artifacts"))

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        file = self._file(app_name, user_id, session_id, filename)
        new = NewVersion.of(filename, private_part(artifact), custom_metadata or {}, now())
        return await self._in_thread(lambda: self._save(file, new))

    async def load_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> types.Part | None:
        file = self._file(app_name, user_id, session_id, filename)
        return await self._in_thread(lambda: _first(each.load() for each in _asked_for(file, version)))

    async def list_artifact_keys(self, *, app_name: str, user_id: str, session_id: str | None = None) -> list[str]:
        scopes = [self._scope(app_name, user_id, None)]
        if session_id:
            scopes.append(self._scope(app_name, user_id, session_id))
        return await self._in_thread(lambda: sorted(name for scope in scopes for name in _names_in(scope)))

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> None:
        file = self._file(app_name, user_id, session_id, filename)
        await self._in_thread(lambda: self._delete(file, version))

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        file = self._file(app_name, user_id, session_id, filename)
        return await self._in_thread(lambda: [info for each in _versions(file) if (info := each.info()) is not None])

    async def get_artifact_version(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None, version: int | None = None
    ) -> ArtifactVersion | None:
        file = self._file(app_name, user_id, session_id, filename)
        return await self._in_thread(lambda: _first(each.info() for each in _asked_for(file, version)))

    def _scope(self, app_name: str, user_id: str, session_id: str | None) -> Path:
        """The folder of a user's or of a session's files."""
        owner = self._root / "apps" / folder_name(app_name) / "users" / folder_name(user_id)
        return (owner if session_id is None else owner / "sessions" / folder_name(session_id)) / "files"

    def _file(self, app_name: str, user_id: str, session_id: str | None, filename: str) -> Path:
        """The folder of a file's versions."""
        owner = owning_session(app_name=app_name, user_id=user_id, session_id=session_id, filename=filename)
        return self._scope(app_name, user_id, owner) / folder_name(filename)

    def _save(self, file: Path, new: NewVersion) -> int:
        with self._unfinished() as folder:
            folder.mkdir()
            new.write(folder)
            number = 1 + max((each.number for each in _versions(file)), default=-1)
            while not _take_number(folder, file / str(number)):
                number += 1
            return number

    def _delete(self, file: Path, version: int | None) -> None:
        if version is not None:
            for each in _asked_for(file, version):
                each.delete()
        elif file.exists():
            with self._unfinished() as folder, contextlib.suppress(FileNotFoundError):
                file.rename(folder)
                sync_folder(file.parent)

    @contextlib.contextmanager
    def _unfinished(self) -> Generator[Path]:
        """The path for a folder that nobody knows of, and of which nothing is left afterwards."""
        place = self._root / "unfinished"
        _make_folder(place)
        if not self._cleaned:
            self._cleaned = True
            _clean(place)
        folder = place / uuid.uuid4().hex
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        """What blocking work gives. A thread cannot be stopped, so that a caller who is cancelled waits for its end."""
        working = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            while not working.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([working])
            if not working.cancelled():
                working.exception()  # seen, so that it is not reported as lost
            raise
        except OSError as error:
            raise StorageError(f"The artifacts in {self._root} cannot be read or written: {error}") from error


def _take_number(folder: Path, version: Path) -> bool:
    """Make a finished folder the version, unless there is one of that number already."""
    while True:
        _make_folder(version.parent)
        try:
            folder.rename(version)
        except FileNotFoundError:  # the whole file has been deleted meanwhile
            if not folder.exists():
                raise
        except OSError as error:
            if error.errno not in _TAKEN and not version.exists():
                raise
            return False
        else:
            with contextlib.suppress(FileNotFoundError):
                sync_folder(version.parent)
            return True


def _versions(file: Path) -> list[VersionFolder]:
    """All versions of a file, lowest first, those included of which only a mark is left."""
    try:
        names = os.listdir(file)
    except (FileNotFoundError, NotADirectoryError):  # what else lies about in the folder is no file of ours
        return []
    return [VersionFolder(file / str(number)) for number in sorted(int(name) for name in names if _is_number(name))]


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and (name == "0" or name[0] != "0")


def _asked_for(file: Path, version: int | None) -> Iterator[VersionFolder]:
    """The version of that number, or all, the latest first."""
    if version is None:
        yield from reversed(_versions(file))
    elif version >= 0 and (file / str(version)).exists():
        yield VersionFolder(file / str(version))


def _first(found: Iterator[_T | None]) -> _T | None:
    return next((each for each in found if each is not None), None)


def _names_in(scope: Path) -> Iterator[str]:
    """The names of the files in a folder that have a version which is not deleted."""
    try:
        folders = os.listdir(scope)
    except FileNotFoundError:
        return
    for folder in folders:
        kept = (each for each in reversed(_versions(scope / folder)) if not each.deleted)
        name = plain_name(folder)
        found = _first(each.name() for each in kept) if name is None else next((name for _ in kept), None)
        if found is not None:
            yield found


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, so that they are there after a crash too."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    try:
        folder.mkdir()
        sync_folder(folder.parent)
    except FileExistsError:
        with contextlib.suppress(FileNotFoundError):  # made and deleted by others meanwhile
            if not stat.S_ISDIR(folder.stat().st_mode):
                raise NotADirectoryError(f"{folder} is not a folder") from None


def _clean(place: Path) -> None:
    """Delete what processes left that died long ago."""
    before = time.time() - _ABANDONED
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(place):
            if entry.stat(follow_symlinks=False).st_mtime < before:
                shutil.rmtree(entry.path, ignore_errors=True)

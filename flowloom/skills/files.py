"""The files of a skill, read when they are asked for, and never outside of its folder or archive."""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from pathlib import Path, PurePosixPath

from flowloom.errors import ConfigurationError, FlowloomError

MOST_FILES = 2000
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of all files of an archive, unpacked, and of one file of a folder."""


class SkillError(ConfigurationError):
    """A folder, or an archive, is no skill. The message names the file, and all that is wrong with it."""


class SkillFileError(FlowloomError, LookupError):
    """A file of a skill is not there, or cannot be read. The message is for the model."""


class SkillFiles(ABC):
    """The files below one folder, by their paths from there, with `/` between."""

    @abstractmethod
    def names(self) -> list[str]:
        """The paths of the files that can be read, sorted; hidden ones and compiled code are left out."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """The bytes of the file at `path`.

        Raises `SkillFileError` if it leads out, to nothing, to what is hidden, or to no plain file.
        """

    @abstractmethod
    def shown(self, path: str) -> str:
        """The file at `path`, as errors for people name it."""

    def read_text(self, path: str) -> str:
        """The text of the file at `path`. Raises `SkillError` if it is not there, or is no UTF-8."""
        try:
            return self.read(path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise SkillError(f"{self.shown(path)}: The file is no UTF-8 text (byte {error.start}).") from error
        except SkillFileError as error:
            raise SkillError(f"{self.shown(path)}: {error}") from error


def _parts_of(path: str) -> tuple[str, ...]:
    """The parts of a path that stays below its beginning. Raises `SkillFileError` for any other."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path or "\0" in path or ":" in parts[0]:
        raise SkillFileError(f"`{path[:100]}` is no path of a file in the skill.")
    return parts


def _shown_parts(path: str) -> tuple[str, ...]:
    """The same of a path to what is not hidden."""
    parts = _parts_of(path)
    if not _is_shown(parts):
        raise _not_there(path)
    return parts


def _not_there(path: str) -> SkillFileError:
    return SkillFileError(f"There is no file `{path[:100]}` in the skill.")


def _is_shown(parts: tuple[str, ...]) -> bool:
    return not any(part.startswith(".") or part == "__pycache__" for part in parts)


class FolderFiles(SkillFiles):
    """The files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        found: list[str] = []
        home = self._folder.resolve()
        for above, folders, files in os.walk(home):  # links to folders are not followed
            folders[:] = sorted(each for each in folders if _is_shown((each,)))
            shown = [Path(above, file) for file in files if _is_shown((file,))]
            found += [each.relative_to(home).as_posix() for each in shown if self._is_plain(each, home)]
            if len(found) > MOST_FILES:
                break
        return sorted(found)[:MOST_FILES]

    def read(self, path: str) -> bytes:
        parts = _shown_parts(path)
        home = self._folder.resolve()
        try:
            file = home.joinpath(*parts).resolve(strict=True)
            if home not in file.parents:
                raise SkillFileError(f"`{path[:100]}` leads out of the skill's folder.")
            descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except (OSError, RuntimeError, ValueError) as error:
            raise _not_there(path) from error
        try:  # before it is opened as a file, which a folder cannot be
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                raise SkillFileError(f"`{path[:100]}` is no plain file.")
            if state.st_size > MOST_BYTES:
                raise SkillFileError(f"`{path[:100]}` has {state.st_size:,} bytes; {MOST_BYTES:,} are the most.")
            with os.fdopen(descriptor, "rb", closefd=False) as opened:
                return opened.read(MOST_BYTES)
        finally:
            os.close(descriptor)

    @staticmethod
    def _is_plain(file: Path, home: Path) -> bool:
        """Whether it is a plain file, or a link to one in the folder."""
        return file.is_file() and (not file.is_symlink() or home in file.resolve().parents)

    def shown(self, path: str) -> str:
        return str(self._folder / path)


class ZipFiles(SkillFiles):
    """The files of a zip archive, below its only folder if they all lie in one."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        try:
            with zipfile.ZipFile(archive) as opened:
                entries = opened.infolist()
        except (OSError, zipfile.BadZipFile) as error:
            raise SkillError(f"{archive}: This is no zip archive that can be read: {error}") from error
        if len(entries) > MOST_FILES or sum(entry.file_size for entry in entries) > MOST_BYTES:
            raise SkillError(f"{archive}: An archive may have {MOST_FILES:,} files and {MOST_BYTES:,} bytes.")
        for entry in entries:
            self._check(entry)
        files = [entry.filename for entry in entries if not entry.is_dir()]
        tops = {PurePosixPath(name).parts[0] for name in files if "/" in name}
        only = tops.pop() if len(tops) == 1 and all("/" in name for name in files) else None
        self.folder: str | None = only
        """The folder that all files lie in; None if they lie at the top."""
        self._before = "" if only is None else f"{only}/"
        self._names = sorted(name.removeprefix(self._before) for name in files)

    def _check(self, entry: zipfile.ZipInfo) -> None:
        mode = entry.external_attr >> 16
        if stat.S_ISLNK(mode) or (stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR)):
            raise SkillError(f"{self._archive}: The entry `{entry.filename}` is a link, or no plain file.")
        try:
            _parts_of(entry.filename)
        except SkillFileError as error:
            raise SkillError(f"{self._archive}: The entry `{entry.filename}` leads out of it.") from error

    def names(self) -> list[str]:
        return [name for name in self._names if _is_shown(PurePosixPath(name).parts)]

    def read(self, path: str) -> bytes:
        name = "/".join(_shown_parts(path))
        if name not in self._names:
            raise _not_there(path)
        try:
            with zipfile.ZipFile(self._archive) as opened, opened.open(self._before + name) as file:
                data = file.read(MOST_BYTES + 1)
        except (OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise SkillFileError(f"`{path[:100]}` cannot be read out of the archive.") from error
        if len(data) > MOST_BYTES:
            raise SkillFileError(f"`{path[:100]}` is larger than the archive says.")
        return data

    def shown(self, path: str) -> str:
        return f"{self._archive}/{path}"

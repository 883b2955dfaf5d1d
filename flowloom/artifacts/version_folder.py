"""One stored version: a folder with its data, what is known about it, and a mark once it is deleted."""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from google.genai import types
from pydantic import ValidationError

from flowloom.artifacts.version import ArtifactVersion
from flowloom.errors import InputValidationError, StorageError

_DATA = "data"
_ABOUT = "about.json"
_DELETED = "deleted"
_ATTEMPTS = 4

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class NewVersion:
    """What is to be stored, before it has a number."""

    about: dict[str, Any]
    data: bytes | str | None

    @staticmethod
    def of(name: str, part: types.Part, custom_metadata: dict[str, Any], create_time: float) -> NewVersion:
        """What to store of a part: bytes or text go into a file of their own. Raises `InputValidationError`."""
        blob = part.inline_data
        rest = part.model_copy(
            update={"text": None} if blob is None else {"inline_data": blob.model_copy(update={"data": None})}
        )
        try:
            about = {
                "name": name,
                "createTime": create_time,
                "customMetadata": json.loads(json.dumps(custom_metadata)),
                "part": rest.model_dump(mode="json", by_alias=True, exclude_none=True),
            }
        except (TypeError, ValueError) as error:
            raise InputValidationError(
                f"The metadata of artifact `{name}` cannot be stored: {error}. Use values that JSON can hold."
            ) from error
        return NewVersion(about, part.text if blob is None else blob.data)

    def write(self, folder: Path) -> None:
        """Write the files into a folder that nobody else knows of. They are on the disk when it returns."""
        data = self.data.encode("utf-8", "surrogatepass") if isinstance(self.data, str) else self.data
        checks = None
        if data is not None:
            checks = {"size": len(data), "crc32": zlib.crc32(data)}
            _write(folder / _DATA, data)
        _write(folder / _ABOUT, json.dumps(self.about | {"data": checks}).encode())
        sync_folder(folder)


@dataclass(frozen=True, slots=True)
class VersionFolder:
    """A version that is stored. Reading gives None once it is deleted, also if that happens meanwhile.

    A version that is not deleted and cannot be read is a `StorageError` that names the file.
    """

    path: Path

    @property
    def number(self) -> int:
        return int(self.path.name)

    @property
    def deleted(self) -> bool:
        return (self.path / _DELETED).exists()

    def delete(self) -> None:
        """Take the version away, and leave a mark, so that its number is not given again."""
        with contextlib.suppress(FileNotFoundError), _inside(self.path) as (folder, path):
            os.close(os.open(path / _DELETED, os.O_CREAT | os.O_WRONLY, 0o666, dir_fd=folder))
            sync_folder(self.path if folder is None else folder)
            for name in (_DATA, _ABOUT):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path / name, dir_fd=folder)
            sync_folder(self.path if folder is None else folder)

    def name(self) -> str | None:
        """The name of the file that this is a version of."""
        return _steadily(self._name)

    def info(self) -> ArtifactVersion | None:
        """What is known about the version."""
        return _steadily(self._info)

    def load(self) -> types.Part | None:
        """The part, as it was given."""
        return _steadily(self._load)

    def _name(self) -> str | None:
        content = self._read(_ABOUT)
        return None if content is None else str(self._parsed(content)["name"])

    def _info(self) -> ArtifactVersion | None:
        content = self._read(_ABOUT)
        if content is None:
            return None
        about = self._parsed(content)
        try:
            part = types.Part.model_validate(about["part"])
            data = part.inline_data or part.file_data
            return ArtifactVersion(
                version=self.number,
                canonical_uri=(part.file_data and part.file_data.file_uri) or (self.path / _DATA).as_uri(),
                custom_metadata=about["customMetadata"],
                create_time=about["createTime"],
                mime_type="text/plain" if data is None else data.mime_type,
            )
        except ValidationError as error:
            raise _corrupt(self.path / _ABOUT, str(error)) from error

    def _load(self) -> types.Part | None:
        content = self._read(_ABOUT)
        if content is None:
            return None
        about = self._parsed(content)
        checks = about["data"]
        data = None if checks is None else self._read(_DATA)
        if checks is not None:
            if data is None:
                return None
            if (len(data), zlib.crc32(data)) != (checks["size"], checks["crc32"]):
                raise _corrupt(self.path / _DATA, "it is not what was written")
        try:
            part = types.Part.model_validate(about["part"])
            if data is not None and part.inline_data is not None:
                part.inline_data.data = data
            elif data is not None:
                part.text = data.decode("utf-8", "surrogatepass")
        except ValueError as error:
            raise _corrupt(self.path / _ABOUT, str(error)) from error
        return part

    def _parsed(self, content: bytes) -> dict[str, Any]:
        try:
            about = cast(dict[str, Any], json.loads(content))
            checks = about["name"], about["customMetadata"], about["createTime"], about["part"], about["data"]
            if checks[-1] is not None:
                checks += (checks[-1]["size"], checks[-1]["crc32"])
        except (ValueError, TypeError, LookupError) as error:
            raise _corrupt(self.path / _ABOUT, f"{type(error).__name__}: {error}") from error
        return about

    def _read(self, name: str) -> bytes | None:
        path = self.path / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            if self.deleted or not self.path.exists():
                return None
            raise _corrupt(path, "it is missing") from None


def _steadily(read: Callable[[], _T]) -> _T:
    """What `read` gives. Damage is there to stay; what looks like it may be a whole file that is deleted and saved
    again meanwhile, of which one part was read before and another after."""
    for attempt in range(_ATTEMPTS):
        try:
            return read()
        except StorageError:
            time.sleep(0.001 * attempt)
    return read()


@contextlib.contextmanager
def _inside(path: Path) -> Generator[tuple[int | None, Path]]:
    """A folder to work in, although its path may come to mean another: its descriptor, and the path from there."""
    if os.name != "posix":  # there, a folder in use cannot be renamed
        yield None, path
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        yield folder, Path()
    finally:
        os.close(folder)


def sync_folder(folder: Path | int) -> None:
    """Have the disk know the entries of a folder; Windows has no such call, and no need of it."""
    if isinstance(folder, int):
        os.fsync(folder)
    elif os.name == "posix":
        with _inside(folder) as (descriptor, _):
            assert descriptor is not None
            os.fsync(descriptor)


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _corrupt(path: Path, problem: str) -> StorageError:
    return StorageError(
        f"The artifact file {path} cannot be used: {problem}. Put back a copy of it, or delete this version."
    )

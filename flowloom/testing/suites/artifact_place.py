"""Where the rules of artifact services are tried: a store, an app of the test's own, and a session in it."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest
from google.genai import types

from flowloom.artifacts import ArtifactVersion, BaseArtifactService
from flowloom.errors import InputValidationError
from flowloom.testing.suites.loop import Suite


@dataclass(slots=True)
class Shelf:
    """A store, seen from one session. Apps are named anew for each test, so that a shared store serves as well."""

    service: BaseArtifactService
    app: str = field(default_factory=lambda: f"suite-{uuid4().hex}")
    user: str = "ann"
    session: str | None = "s1"

    def other(self, **names: str | None) -> Shelf:
        """The same store, seen from elsewhere: another `app`, `user` or `session`."""
        return replace(self, **names)  # pyright: ignore[reportArgumentType] - the names are those of the fields

    @property
    def where(self) -> dict[str, Any]:
        """How the methods of a service name the place."""
        return {"app_name": self.app, "user_id": self.user, "session_id": self.session}

    async def save(self, name: str, *parts: types.Part | str, metadata: dict[str, Any] | None = None) -> list[int]:
        """Save each part, or text, as a version; their numbers are returned."""
        return [
            await self.service.save_artifact(
                filename=name,
                artifact=text_part(part) if isinstance(part, str) else part,
                custom_metadata=metadata,
                **self.where,
            )
            for part in parts
        ]

    async def load(self, name: str, version: int | None = None) -> types.Part | None:
        return await self.service.load_artifact(filename=name, version=version, **self.where)

    async def text(self, name: str, version: int | None = None) -> str | None:
        """The text of a version; None if it is not there."""
        part = await self.load(name, version)
        return None if part is None else part.text

    async def delete(self, name: str, version: int | None = None) -> None:
        await self.service.delete_artifact(filename=name, version=version, **self.where)

    async def names(self) -> list[str]:
        return await self.service.list_artifact_keys(**self.where)

    async def versions(self, name: str) -> list[int]:
        return await self.service.list_versions(filename=name, **self.where)

    async def infos(self, name: str) -> list[ArtifactVersion]:
        return await self.service.list_artifact_versions(filename=name, **self.where)

    async def info(self, name: str, version: int | None = None) -> ArtifactVersion | None:
        return await self.service.get_artifact_version(filename=name, version=version, **self.where)

    def calls(self, name: str) -> dict[str, Awaitable[object]]:
        """A call of each method that names a file."""
        return {
            "save_artifact": self.save(name, "x"),
            "load_artifact": self.load(name),
            "delete_artifact": self.delete(name),
            "list_versions": self.versions(name),
            "list_artifact_versions": self.infos(name),
            "get_artifact_version": self.info(name),
        }


def text_part(text: str) -> types.Part:
    return types.Part(text=text)


def bytes_part(data: bytes, mime_type: str | None = None) -> types.Part:
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type))


async def expect_refused(calls: dict[str, Awaitable[object]], what: str) -> None:
    """Fail unless each call raises `InputValidationError`."""
    taken: list[str] = []
    for method, call in calls.items():
        try:
            await call
        except InputValidationError:
            continue
        taken.append(method)
    assert not taken, f"{what} was taken by {', '.join(taken)}; `InputValidationError` was expected."


class ArtifactRules(Suite):
    """What the rules of artifact services are tried on."""

    def make_service(self) -> BaseArtifactService | Awaitable[BaseArtifactService]:
        """The service to be checked, made anew for each test. It may hold files of other apps."""
        raise NotImplementedError(f"{type(self).__name__} has to define `make_service(self)`.")

    def reopen(self, service: BaseArtifactService) -> BaseArtifactService | Awaitable[BaseArtifactService] | None:
        """A second service on the same data, as another process would open it; None if the store has no such thing."""
        return None

    async def shelf(self) -> Shelf:
        """A store with an app of the test's own."""
        return Shelf(await self.opened(self.make_service()))

    async def reopened(self, shelf: Shelf) -> Shelf:
        """The same place through a second service; the test is skipped if there is no such thing."""
        again = self.reopen(shelf.service)
        if again is None:
            pytest.skip("`reopen` is not defined: the store does not outlive its service")
        return replace(shelf, service=await self.opened(again))

"""What only the service in memory does."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from flowloom.artifacts import InMemoryArtifactService

HERE: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s1"}


async def test_bytes_are_shared_rather_than_copied() -> None:
    service = InMemoryArtifactService()
    data = b"x" * 10_000
    await service.save_artifact(filename="big", artifact=types.Part(inline_data=types.Blob(data=data)), **HERE)
    loaded = await service.load_artifact(filename="big", **HERE)
    assert loaded is not None
    assert loaded.inline_data is not None
    assert loaded.inline_data.data is data


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("a b.txt", "memory://apps/app/users/ada/sessions/s1/artifacts/a%20b.txt/versions/0"),
        ("user:a", "memory://apps/app/users/ada/artifacts/user:a/versions/0"),
    ],
)
async def test_a_version_has_an_address(name: str, address: str) -> None:
    service = InMemoryArtifactService()
    await service.save_artifact(filename=name, artifact=types.Part(text="x"), **HERE)
    info = await service.get_artifact_version(filename=name, **HERE)
    assert info is not None
    assert info.canonical_uri == address

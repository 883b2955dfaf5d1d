from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import examples

from flowloom.artifacts import ArtifactVersion, BaseArtifactService, InMemoryArtifactService
from flowloom.artifacts.files import FileArtifactService
from flowloom.errors import InputValidationError

HERE: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s1"}


@pytest.fixture(params=["memory", "files"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> BaseArtifactService:
    return InMemoryArtifactService() if request.param == "memory" else FileArtifactService(tmp_path)


def text(content: str) -> types.Part:
    return types.Part(text=content)


async def saved(service: BaseArtifactService, filename: str, *contents: str, **where: Any) -> list[int]:
    return [
        await service.save_artifact(filename=filename, artifact=text(content), **(where or HERE))
        for content in contents
    ]


# -- versions ----------------------------------------------------------------------------------


async def test_decision_14_versions_start_at_zero(service: BaseArtifactService) -> None:
    assert await saved(service, "a.txt", "first", "second", "third") == [0, 1, 2]


async def test_without_a_version_the_latest_is_loaded(service: BaseArtifactService) -> None:
    await saved(service, "a.txt", "first", "second")
    assert await service.load_artifact(filename="a.txt", **HERE) == text("second")


async def test_version_zero_is_the_first_not_the_latest(service: BaseArtifactService) -> None:
    await saved(service, "a.txt", "first", "second")
    assert await service.load_artifact(filename="a.txt", version=0, **HERE) == text("first")


@pytest.mark.parametrize("version", [1, 99, -1])
async def test_a_version_that_is_not_there_loads_as_none(service: BaseArtifactService, version: int) -> None:
    await saved(service, "a.txt", "first")
    assert await service.load_artifact(filename="a.txt", version=version, **HERE) is None


async def test_a_missing_file_loads_as_none(service: BaseArtifactService) -> None:
    assert await service.load_artifact(filename="a.txt", **HERE) is None


async def test_versions_are_listed_lowest_first(service: BaseArtifactService) -> None:
    await saved(service, "a.txt", "first", "second")
    assert await service.list_versions(filename="a.txt", **HERE) == [0, 1]


async def test_a_missing_file_has_no_versions(service: BaseArtifactService) -> None:
    assert await service.list_versions(filename="a.txt", **HERE) == []
    assert await service.list_artifact_versions(filename="a.txt", **HERE) == []
    assert await service.get_artifact_version(filename="a.txt", **HERE) is None


# -- deleting ----------------------------------------------------------------------------------


async def test_deleting_a_file_deletes_all_its_versions(service: BaseArtifactService) -> None:
    await saved(service, "a.txt", "first", "second")
    await service.delete_artifact(filename="a.txt", **HERE)
    assert await service.load_artifact(filename="a.txt", **HERE) is None
    assert await service.list_artifact_keys(**HERE) == []


async def test_deleting_a_version_keeps_the_others(service: BaseArtifactService) -> None:
    await saved(service, "a.txt", "first", "second", "third")
    await service.delete_artifact(filename="a.txt", version=1, **HERE)
    assert await service.list_versions(filename="a.txt", **HERE) == [0, 2]


async def test_the_number_of_a_deleted_version_is_not_given_again(service: BaseArtifactService) -> None:
    await saved(service, "a.txt", "first", "second")
    await service.delete_artifact(filename="a.txt", version=1, **HERE)
    assert await saved(service, "a.txt", "third") == [2]


async def test_deleting_the_only_version_does_not_restart_the_numbers(service: BaseArtifactService) -> None:
    await saved(service, "a.txt", "first")
    await service.delete_artifact(filename="a.txt", version=0, **HERE)
    assert await service.list_artifact_keys(**HERE) == []
    assert await saved(service, "a.txt", "second") == [1]


async def test_a_file_deleted_as_a_whole_starts_again_at_zero(service: BaseArtifactService) -> None:
    await saved(service, "a.txt", "first", "second")
    await service.delete_artifact(filename="a.txt", **HERE)
    assert await saved(service, "a.txt", "again") == [0]


@pytest.mark.parametrize("version", [None, 0])
async def test_deleting_what_is_not_there_is_fine(service: BaseArtifactService, version: int | None) -> None:
    await service.delete_artifact(filename="a.txt", version=version, **HERE)
    assert await service.list_artifact_keys(**HERE) == []


# -- scopes ------------------------------------------------------------------------------------


async def test_files_are_listed_sorted_with_the_users_own(service: BaseArtifactService) -> None:
    for name in ("z.txt", "user:profile", "a.txt"):
        await saved(service, name, "x")
    assert await service.list_artifact_keys(**HERE) == ["a.txt", "user:profile", "z.txt"]


async def test_a_user_file_is_shared_by_the_users_sessions(service: BaseArtifactService) -> None:
    await saved(service, "user:profile", "x")
    other = HERE | {"session_id": "s2"}
    assert await service.load_artifact(filename="user:profile", **other) == text("x")
    assert await saved(service, "user:profile", "y", **other) == [1]
    assert await service.list_artifact_keys(**other) == ["user:profile"]


async def test_a_user_file_needs_no_session(service: BaseArtifactService) -> None:
    await saved(service, "user:profile", "x", app_name="app", user_id="ada")
    assert await service.load_artifact(filename="user:profile", **HERE) == text("x")


async def test_without_a_session_only_the_users_files_are_listed(service: BaseArtifactService) -> None:
    await saved(service, "user:profile", "x")
    await saved(service, "a.txt", "x")
    assert await service.list_artifact_keys(app_name="app", user_id="ada") == ["user:profile"]


@pytest.mark.parametrize("other", [{"session_id": "s2"}, {"user_id": "bob"}, {"app_name": "other"}])
async def test_a_session_file_is_seen_by_no_other_scope(service: BaseArtifactService, other: dict[str, str]) -> None:
    await saved(service, "a.txt", "x")
    assert await service.load_artifact(filename="a.txt", **(HERE | other)) is None
    assert await service.list_artifact_keys(**(HERE | other)) == []


@pytest.mark.parametrize("other", [{"user_id": "bob"}, {"app_name": "other"}])
async def test_a_user_file_is_seen_by_no_other_user_or_app(service: BaseArtifactService, other: dict[str, str]) -> None:
    await saved(service, "user:profile", "x")
    assert await service.list_artifact_keys(**(HERE | other)) == []


# -- what is refused ---------------------------------------------------------------------------

CALLS = {
    "save": lambda service, where: service.save_artifact(artifact=text("x"), **where),
    "load": lambda service, where: service.load_artifact(**where),
    "delete": lambda service, where: service.delete_artifact(**where),
    "delete version": lambda service, where: service.delete_artifact(version=0, **where),
    "versions": lambda service, where: service.list_versions(**where),
    "infos": lambda service, where: service.list_artifact_versions(**where),
    "info": lambda service, where: service.get_artifact_version(**where),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("filename", ["", " ", "user:", "a/b.txt", "../secret", "a\\b.txt", "user:a/b"])
async def test_every_call_refuses_a_bad_file_name(service: BaseArtifactService, call: str, filename: str) -> None:
    with pytest.raises(InputValidationError):
        await CALLS[call](service, HERE | {"filename": filename})


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("missing", ["app_name", "user_id", "session_id"])
async def test_every_call_refuses_an_empty_owner(service: BaseArtifactService, call: str, missing: str) -> None:
    with pytest.raises(InputValidationError):
        await CALLS[call](service, HERE | {"filename": "a.txt", missing: ""})


async def test_a_file_without_a_session_is_told_how_to_be_the_users(service: BaseArtifactService) -> None:
    with pytest.raises(InputValidationError, match=r"`user:a\.txt`"):
        await service.save_artifact(app_name="app", user_id="ada", filename="a.txt", artifact=text("x"))


@pytest.mark.parametrize(
    "part", [types.Part(), types.Part(function_call=types.FunctionCall(name="f")), {"thought": True}]
)
async def test_a_part_with_nothing_to_store_is_refused(service: BaseArtifactService, part: Any) -> None:
    with pytest.raises(InputValidationError, match="nothing to store"):
        await service.save_artifact(filename="a.txt", artifact=part, **HERE)
    assert await service.list_artifact_keys(**HERE) == []


async def test_a_dict_that_is_no_part_is_refused(service: BaseArtifactService) -> None:
    with pytest.raises(InputValidationError, match="cannot be read as a part"):
        await service.save_artifact(filename="a.txt", artifact={"text": ["no", "text"]}, **HERE)


# -- what is kept ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        types.Part(text=""),
        types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="image/png", display_name="cat.png")),
        types.Part(file_data=types.FileData(file_uri="gs://bucket/cat.png", mime_type="image/png")),
    ],
)
async def test_a_part_comes_back_as_it_was(service: BaseArtifactService, part: types.Part) -> None:
    await service.save_artifact(filename="cat", artifact=part, **HERE)
    assert await service.load_artifact(filename="cat", **HERE) == part


async def test_decision_25_a_dict_in_json_form_is_a_part(service: BaseArtifactService) -> None:
    await service.save_artifact(filename="a", artifact={"inlineData": {"data": "AP8=", "mimeType": "x/y"}}, **HERE)
    loaded = await service.load_artifact(filename="a", **HERE)
    assert loaded == types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="x/y"))


async def test_changing_a_part_after_saving_does_not_change_the_file(service: BaseArtifactService) -> None:
    part = types.Part(inline_data=types.Blob(data=b"1", mime_type="image/png"))
    await service.save_artifact(filename="cat", artifact=part, **HERE)
    assert part.inline_data is not None
    part.inline_data.mime_type = "text/plain"
    loaded = await service.load_artifact(filename="cat", **HERE)
    assert loaded is not None
    assert loaded.inline_data == types.Blob(data=b"1", mime_type="image/png")


async def test_changing_a_loaded_part_does_not_change_the_file(service: BaseArtifactService) -> None:
    await saved(service, "a.txt", "first")
    loaded = await service.load_artifact(filename="a.txt", **HERE)
    assert loaded is not None
    loaded.text = "scribble"
    assert await service.load_artifact(filename="a.txt", **HERE) == text("first")


# -- what is known about versions --------------------------------------------------------------


async def test_metadata_is_kept_with_its_version(service: BaseArtifactService) -> None:
    metadata = {"source": {"page": 3}}
    await service.save_artifact(filename="a.txt", artifact=text("x"), custom_metadata=metadata, **HERE)
    await saved(service, "a.txt", "y")
    metadata["source"]["page"] = 4
    infos = await service.list_artifact_versions(filename="a.txt", **HERE)
    assert [info.custom_metadata for info in infos] == [{"source": {"page": 3}}, {}]


@pytest.mark.parametrize(
    ("part", "mime_type"),
    [
        (types.Part(text="x"), "text/plain"),
        (types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png")), "image/png"),
        (types.Part(file_data=types.FileData(file_uri="gs://b/f", mime_type="audio/pcm")), "audio/pcm"),
    ],
)
async def test_a_version_knows_its_mime_type(service: BaseArtifactService, part: types.Part, mime_type: str) -> None:
    await service.save_artifact(filename="f", artifact=part, **HERE)
    info = await service.get_artifact_version(filename="f", **HERE)
    assert info is not None
    assert info.mime_type == mime_type


async def test_a_version_has_a_time(service: BaseArtifactService) -> None:
    before = time.time()
    await saved(service, "a.txt", "x")
    info = await service.get_artifact_version(filename="a.txt", **HERE)
    assert info is not None
    assert before <= info.create_time <= time.time()


async def test_each_version_has_an_address_of_its_own(service: BaseArtifactService) -> None:
    await saved(service, "a.txt", "x", "y")
    await saved(service, "user:a.txt", "x")
    infos = [
        *await service.list_artifact_versions(filename="a.txt", **HERE),
        *await service.list_artifact_versions(filename="user:a.txt", **HERE),
    ]
    assert len({info.canonical_uri for info in infos}) == 3


async def test_the_address_of_file_data_is_its_own(service: BaseArtifactService) -> None:
    part = types.Part(file_data=types.FileData(file_uri="gs://b/f"))
    await service.save_artifact(filename="f", artifact=part, **HERE)
    info = await service.get_artifact_version(filename="f", **HERE)
    assert info is not None
    assert info.canonical_uri == "gs://b/f"


def test_a_version_travels_in_camel_case() -> None:
    info = ArtifactVersion(version=0, canonical_uri="memory://x", create_time=1.5)
    assert info.to_wire() == {"version": 0, "canonicalUri": "memory://x", "customMetadata": {}, "createTime": 1.5}


# -- laws --------------------------------------------------------------------------------------


@given(steps=st.lists(st.one_of(st.just(None), st.integers(0, 6)), max_size=20))
@settings(max_examples=examples(40))
@pytest.mark.parametrize("kind", ["memory", "files"])
def test_versions_only_ever_grow(kind: str, steps: list[int | None]) -> None:
    """Whatever is saved (None) and deleted (a version): numbers are never reused, contents never mixed up."""

    async def story(directory: str) -> None:
        service = InMemoryArtifactService() if kind == "memory" else FileArtifactService(directory)
        kept: dict[int, str] = {}
        count = 0
        for step in steps:
            if step is None:
                assert await saved(service, "f", f"content {count}") == [count]
                kept[count] = f"content {count}"
                count += 1
            else:
                await service.delete_artifact(filename="f", version=step, **HERE)
                kept.pop(step, None)
            assert await service.list_versions(filename="f", **HERE) == list(kept)
            latest = await service.load_artifact(filename="f", **HERE)
            assert (latest and latest.text) == (kept[max(kept)] if kept else None)

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(story(directory))

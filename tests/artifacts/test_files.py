"""What only the service on disk does: it outlives its process, is shared by processes, and takes any name."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kit import examples

from flowloom.artifacts.files import FileArtifactService
from flowloom.errors import InputValidationError, StorageError

HERE: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s1"}
MEGABYTE = 1 << 20


@pytest.fixture
def service(tmp_path: Path) -> FileArtifactService:
    return FileArtifactService(tmp_path / "artifacts")


def text(content: str) -> types.Part:
    return types.Part(text=content)


async def save(service: FileArtifactService, filename: str, content: str, **where: str) -> int:
    return await service.save_artifact(filename=filename, artifact=text(content), **(HERE | where))


async def texts_of(service: FileArtifactService, filename: str) -> list[str | None]:
    found = [
        await service.load_artifact(filename=filename, version=version, **HERE)
        for version in await service.list_versions(filename=filename, **HERE)
    ]
    return [part.text for part in found if part is not None]


def files_of(service: FileArtifactService) -> list[Path]:
    return [path for path in service.directory.rglob("*") if path.is_file()]


def the_file(service: FileArtifactService, name: str) -> Path:
    (found,) = [path for path in files_of(service) if path.name == name]
    return found


# -- what lasts --------------------------------------------------------------------------------


async def test_files_outlive_the_service(service: FileArtifactService) -> None:
    await service.save_artifact(filename="A.txt", artifact=text("x"), custom_metadata={"a": [1]}, **HERE)
    await save(service, "A.txt", "y")
    again = FileArtifactService(str(service.directory))
    assert await again.list_artifact_keys(**HERE) == ["A.txt"]
    assert await texts_of(again, "A.txt") == ["x", "y"]
    assert [info.custom_metadata for info in await again.list_artifact_versions(filename="A.txt", **HERE)] == [
        {"a": [1]},
        {},
    ]


async def test_numbers_go_on_where_another_service_stopped(service: FileArtifactService) -> None:
    await save(service, "a.txt", "x")
    await service.delete_artifact(filename="a.txt", version=0, **HERE)
    assert await save(FileArtifactService(service.directory), "a.txt", "y") == 1


async def test_a_service_works_on_when_the_process_changes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    service = FileArtifactService("artifacts")
    await save(service, "a.txt", "x")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert await texts_of(service, "a.txt") == ["x"]


async def test_nothing_is_made_before_something_is_saved(service: FileArtifactService) -> None:
    assert await service.list_artifact_keys(**HERE) == []
    assert await service.load_artifact(filename="a.txt", **HERE) is None
    await service.delete_artifact(filename="a.txt", **HERE)
    assert not service.directory.exists()


@pytest.mark.parametrize(
    "part",
    [
        types.Part(inline_data=types.Blob(data=b"", mime_type="image/png")),
        types.Part(inline_data=types.Blob(data=bytes(range(256)) * 40_000, mime_type="video/mp4; codecs=avc1")),
        types.Part(inline_data=types.Blob(mime_type="image/png")),
        types.Part(inline_data=types.Blob(data=b"\0"), thought_signature=b"\xff\x00"),
        types.Part(text="line\r\nline\n\0 🧵"),
        types.Part(text="mine", inline_data=types.Blob(data=b"both")),
        types.Part(file_data=types.FileData(file_uri="gs://b/f", mime_type="audio/pcm", display_name="f")),
    ],
)
async def test_every_kind_of_part_comes_back_from_the_disk(service: FileArtifactService, part: types.Part) -> None:
    await service.save_artifact(filename="part", artifact=part, **HERE)
    assert await FileArtifactService(service.directory).load_artifact(filename="part", **HERE) == part


async def test_the_address_is_that_of_the_bytes_on_the_disk(service: FileArtifactService) -> None:
    blob = types.Blob(data=b"\x00\xff", mime_type="image/png")
    await service.save_artifact(filename="a b.png", artifact=types.Part(inline_data=blob), **HERE)
    info = await service.get_artifact_version(filename="a b.png", **HERE)
    assert info is not None
    path = the_file(service, "data")
    assert info.canonical_uri == path.as_uri()
    assert path.read_bytes() == b"\x00\xff"


@pytest.mark.parametrize("metadata", [{"a": object()}, {"a": b"bytes"}, {("a",): 1}])
async def test_metadata_that_json_cannot_hold_is_refused(service: FileArtifactService, metadata: Any) -> None:
    with pytest.raises(InputValidationError, match=r"`a\.txt`.*JSON"):
        await service.save_artifact(filename="a.txt", artifact=text("x"), custom_metadata=metadata, **HERE)
    assert files_of(service) == []


async def test_deleting_leaves_no_content_on_the_disk(service: FileArtifactService) -> None:
    await save(service, "a.txt", "secret")
    await save(service, "b.txt", "secret")
    await service.delete_artifact(filename="a.txt", version=0, **HERE)
    await service.delete_artifact(filename="b.txt", **HERE)
    assert [path.name for path in files_of(service)] == ["deleted"]


# -- names -------------------------------------------------------------------------------------

ODD = st.sampled_from(
    [
        *("..", ".", "a.", ".a", "a ", "CON", "con.txt", "nul", "LPT1.tar.gz", "A", "a", "ä", "a\u0308", "x" * 300),
        *("a%b", "~", "$HOME", "a:b", "a*?", "a\0b", "\n", "user:user:a", "\ud800", "名前", "0", "data", "about.json"),
    ]
)
NAMES = st.one_of(ODD, st.text(st.characters(exclude_characters="/\\"), min_size=1, max_size=20))


def acceptable(name: str) -> bool:
    return bool(name.removeprefix("user:").strip())


@settings(max_examples=examples(25))
@given(st.lists(NAMES.filter(acceptable), min_size=1, max_size=6, unique=True))
@example(["A", "a", "user:a", "user:A", "a%b", "a_b"])
@example(["con", "CON", "con.txt", "x" * 300, "x" * 301])
def test_any_names_are_told_apart_and_stay_in_the_directory(names: list[str]) -> None:
    async def story(directory: Path) -> None:
        service = FileArtifactService(directory)
        for name in names:
            assert await save(service, name, f"of {name!r}") == 0
        assert await service.list_artifact_keys(**HERE) == sorted(names)
        for name in names:
            assert await texts_of(service, name) == [f"of {name!r}"]

    with tempfile.TemporaryDirectory() as around:
        asyncio.run(story(Path(around, "artifacts")))
        assert os.listdir(around) == ["artifacts"]
        assert_portable(Path(around, "artifacts"))


@given(
    st.lists(
        st.one_of(ODD, st.sampled_from(["/", "../..", "a/b", "a\\b"]), st.text(min_size=1)), max_size=4, unique=True
    )
)
@settings(max_examples=examples(12))
def test_any_owners_are_told_apart_and_stay_in_the_directory(owners: list[str]) -> None:
    async def story(directory: Path) -> None:
        service = FileArtifactService(directory)
        places = [HERE | {key: owner} for owner in owners for key in HERE]
        for number, place in enumerate(places):
            await service.save_artifact(filename="f", artifact=text(str(number)), **place)
        for number, place in enumerate(places):
            kept = await service.load_artifact(filename="f", version=0, **place)
            assert kept is not None
            assert kept.text == str(number)

    with tempfile.TemporaryDirectory() as around:
        asyncio.run(story(Path(around, "artifacts")))
        assert set(os.listdir(around)) <= {"artifacts"}
        assert_portable(Path(around, "artifacts"))


def assert_portable(directory: Path) -> None:
    """That any file system takes the names, also one to which `A` and `a` are the same."""
    reserved = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
    for path in directory.rglob("*"):
        name = path.name
        assert name == name.lower()
        assert name.isascii()
        assert name.isprintable()
        assert not set(name) & set('<>:"/\\|?* ')
        assert name[-1] != "."
        assert len(name) <= 100
        assert name.partition(".")[0] not in reserved


@pytest.mark.parametrize("name", ["report.pdf", "photo_2.png", "my-notes"])
async def test_a_plain_name_is_a_folder_of_that_name(service: FileArtifactService, name: str) -> None:
    await save(service, name, "x")
    assert the_file(service, "data").relative_to(service.directory).parts[-3:] == (name, "0", "data")


async def test_what_else_lies_in_the_folders_is_left_alone(service: FileArtifactService) -> None:
    await save(service, "a.txt", "x")
    file = the_file(service, "data").parents[1]
    for stray in (file / ".ds_store", file / "01", file / "notes.txt", file.parent / "thumbs.db"):
        stray.write_text("stray")
    assert await save(service, "a.txt", "y") == 1
    assert await service.list_artifact_keys(**HERE) == ["a.txt"]
    assert await texts_of(service, "a.txt") == ["x", "y"]


# -- at once -----------------------------------------------------------------------------------

PROGRAM = """
import asyncio, sys
from google.genai import types
from flowloom.artifacts.files import FileArtifactService

async def main(directory, who, count, size):
    service = FileArtifactService(directory)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        data = f"{who} {number} ".encode() + who.encode() * int(size)
        part = types.Part(inline_data=types.Blob(data=data, mime_type="a/b"))
        version = await service.save_artifact(
            app_name="app", user_id="ada", session_id="s1", filename="f", artifact=part
        )
        print(version, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def saving(directory: Path, who: str, count: int, size: int = 1) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(directory), who, str(count), str(size)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def go(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Let them all save, once all are ready."""
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()


async def test_processes_that_save_one_name_at_once_get_different_versions(service: FileArtifactService) -> None:
    processes = [saving(service.directory, who, 40) for who in "abc"]
    go(processes)
    given_versions = {each.args[4]: each.communicate()[0].split() for each in processes}  # type: ignore[index]
    assert sorted(int(number) for numbers in given_versions.values() for number in numbers) == list(range(120))
    for who, numbers in given_versions.items():
        for count, number in enumerate(numbers):
            part = await service.load_artifact(filename="f", version=int(number), **HERE)
            assert part is not None
            assert part.inline_data is not None
            assert part.inline_data.data == f"{who} {count} {who}".encode()


@pytest.mark.soak
def test_a_process_killed_while_it_saves_leaves_whole_versions_only(service: FileArtifactService) -> None:
    chance, confirmed, unfinished = random.Random(5), 0, service.directory / "unfinished"
    for _ in range(6):
        with saving(service.directory, "x", 1000, 4 * MEGABYTE) as process:
            go([process])
            assert process.stdout
            process.stdout.readline()
            time.sleep(chance.uniform(0, 0.01))
            process.kill()
            confirmed += 1 + len(process.stdout.read().split())
        versions = asyncio.run(service.list_versions(filename="f", **HERE))
        assert versions == list(range(len(versions)))
        assert confirmed <= len(versions)
        part = asyncio.run(service.load_artifact(filename="f", **HERE))
        assert part is not None
        assert part.inline_data is not None
        assert part.inline_data.data is not None
        assert len(part.inline_data.data) > 4 * MEGABYTE
    assert list(unfinished.iterdir()), "no process was killed while it saved: this machine is too fast for the test"


async def test_what_a_dead_process_left_unfinished_is_cleared_away_after_a_day(service: FileArtifactService) -> None:
    unfinished = service.directory / "unfinished"
    for name, hours in (("old", 25), ("new", 23)):
        (unfinished / name).mkdir(parents=True)
        (unfinished / name / "data").write_text("half")
        os.utime(unfinished / name, (time.time() - hours * 3600,) * 2)
    await save(service, "a.txt", "x")
    assert [path.name for path in unfinished.iterdir()] == ["new"]


async def test_many_saves_of_one_service_at_once_lose_nothing(service: FileArtifactService) -> None:
    versions = await asyncio.gather(*(save(service, "f", str(number)) for number in range(30)))
    assert sorted(versions) == list(range(30))
    assert sorted(map(str, await texts_of(service, "f"))) == sorted(map(str, range(30)))


async def test_saving_and_deleting_a_whole_file_at_once_breaks_nothing(service: FileArtifactService) -> None:
    async def reading() -> None:
        for _ in range(40):
            part = await service.load_artifact(filename="f", **HERE)
            assert part is None or part.text == "x" * 100
            await service.list_artifact_versions(filename="f", **HERE)

    async def writing() -> None:
        for _ in range(20):
            await save(service, "f", "x" * 100)

    async def deleting() -> None:
        for _ in range(20):
            await service.delete_artifact(filename="f", **HERE)

    await asyncio.gather(reading(), writing(), deleting(), writing(), reading())


async def test_the_loop_goes_on_while_a_slow_disk_is_read(service: FileArtifactService) -> None:
    await save(service, "f", "slow")
    path = the_file(service, "data")
    path.unlink()
    os.mkfifo(path)  # to be read when the other end gives something
    loading = asyncio.create_task(service.load_artifact(filename="f", **HERE))
    while True:
        try:
            other_end = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError:  # nobody reads yet
            await asyncio.sleep(0)
    os.write(other_end, b"slow")
    os.close(other_end)
    assert await loading == text("slow")


async def test_a_save_that_is_cancelled_has_ended_when_the_caller_goes_on(service: FileArtifactService) -> None:
    blob = types.Blob(data=b"x" * (16 * MEGABYTE))
    saving = asyncio.create_task(
        service.save_artifact(filename="f", artifact=types.Part(inline_data=blob), **HERE), name="saving"
    )
    while not service.directory.exists():  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(0)
    for _ in range(3):
        saving.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert list((service.directory / "unfinished").iterdir()) == []
    assert await service.list_versions(filename="f", **HERE) == [0]


# -- damage ------------------------------------------------------------------------------------


def changed(about: dict[str, Any], **fields: Any) -> str:
    return json.dumps(about | fields)


DAMAGES = {
    "cut short": ("data", lambda path: path.write_bytes(path.read_bytes()[:-1])),
    "another byte": ("data", lambda path: path.write_bytes(b"y" + path.read_bytes()[1:])),
    "no data": ("data", Path.unlink),
    "no metadata": ("about.json", Path.unlink),
    "empty metadata": ("about.json", lambda path: path.write_text("")),
    "half metadata": ("about.json", lambda path: path.write_bytes(path.read_bytes()[:30])),
    "no json": ("about.json", lambda path: path.write_bytes(b"\xff\xfe")),
    "a list": ("about.json", lambda path: path.write_text("[]")),
    "a field is missing": ("about.json", lambda path: path.write_text('{"name": "A"}')),
    "no checks": ("about.json", lambda path: path.write_text(changed(json.loads(path.read_text()), data={}))),
    "no part": ("about.json", lambda path: path.write_text(changed(json.loads(path.read_text()), part=[1]))),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_file_is_an_error_that_names_it(service: FileArtifactService, damage: str) -> None:
    await save(service, "A", "xx")
    name, harm = DAMAGES[damage]
    path = the_file(service, name)
    harm(path)
    with pytest.raises(StorageError, match=str(path)):
        await service.load_artifact(filename="A", **HERE)


@pytest.mark.parametrize("fields", [{"createTime": "never"}, {"customMetadata": 3}, {"part": {"no": 1}}])
async def test_damaged_metadata_is_an_error_that_names_it(service: FileArtifactService, fields: Any) -> None:
    await save(service, "A", "xx")
    path = the_file(service, "about.json")
    path.write_text(changed(json.loads(path.read_text()), **fields))
    with pytest.raises(StorageError, match=str(path)):
        await service.get_artifact_version(filename="A", **HERE)


async def test_a_damaged_version_can_be_deleted_and_the_others_are_there(service: FileArtifactService) -> None:
    await save(service, "A", "first")
    the_file(service, "about.json").write_text("")
    await save(service, "A", "second")
    assert await service.list_artifact_keys(**HERE) == ["A"]
    assert (await service.load_artifact(filename="A", **HERE)) == text("second")
    await service.delete_artifact(filename="A", version=0, **HERE)
    assert await texts_of(service, "A") == ["second"]


async def test_a_place_that_is_no_folder_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    service = FileArtifactService(tmp_path / "file")
    with pytest.raises(StorageError, match=str(tmp_path / "file")):
        await save(service, "a.txt", "x")


async def test_a_failed_save_leaves_nothing(service: FileArtifactService) -> None:
    await save(service, "a.txt", "x")
    scope = the_file(service, "data").parents[2]
    (scope / "b.txt").write_text("in the way")
    with pytest.raises(StorageError, match=r"b\.txt"):
        await save(service, "b.txt", "x")
    assert list((service.directory / "unfinished").iterdir()) == []

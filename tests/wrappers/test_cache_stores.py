"""`CachedModel`: where answers are kept, how long, how many, and for whom."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from wrapper_kit import ask, responses, scripted, told

from flowloom import CachedModel, ConfigurationError, FallbackModel
from flowloom.errors import ModelUnavailableError
from flowloom.testing import FunctionModel, ScriptedModel, frozen


def files_in(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


async def test_an_answer_that_is_too_old_is_asked_for_again() -> None:
    model = CachedModel(scripted("Old.", "New."), ttl=60)
    with frozen() as clock:
        assert await told(model) == "Old."
        clock.advance(60)
        assert await told(model) == "Old."
        clock.advance(1)
        assert await told(model) == "New."
        clock.advance(60)
        assert await told(model) == "New."


async def test_those_that_were_asked_for_last_are_kept() -> None:
    model = CachedModel(FunctionModel(lambda request: "Hello."), max_entries=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        await told(model, ask(name))
    assert (model.hits, model.misses) == (2, 4)


async def test_a_directory_is_shared_by_models(tmp_path: Path) -> None:
    inner = scripted("Hello.")
    assert await told(CachedModel(inner, tmp_path / "deep" / "cache")) == "Hello."
    other = CachedModel(inner, str(tmp_path / "deep" / "cache"))
    assert await told(other) == "Hello."
    assert (other.hits, other.misses) == (1, 0)


async def test_models_that_share_a_store_are_told_apart() -> None:
    """By their names, where they are, and the namespace."""
    store: dict[str, str] = {}

    class Elsewhere(ScriptedModel):
        base_url: str = "http://one"

    models = [
        CachedModel(scripted("a"), store),
        CachedModel(scripted("b", model="b"), store),
        CachedModel(scripted("c"), store, namespace="ann"),
        CachedModel(Elsewhere(["d"]), store),
        CachedModel(Elsewhere(["e"], base_url="http://two"), store),
    ]
    for _ in range(2):
        assert [await told(model) for model in models] == list("abcde")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[]", b'{"version": 1}', b'{"version": 0, "saved_at": 0, "response": {}}']
)
async def test_a_file_that_cannot_be_read_is_asked_for_again(tmp_path: Path, content: bytes) -> None:
    inner = scripted("Old.", "New.")
    assert await told(CachedModel(inner, tmp_path)) == "Old."
    [file] = files_in(tmp_path)
    file.write_bytes(content)
    model = CachedModel(inner, tmp_path)
    assert await told(model) == "New."
    assert await told(model) == "New."


async def test_a_file_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    """Nothing else is left beside it, and it says what it is."""
    await told(CachedModel(scripted("Hello."), tmp_path))
    [file] = files_in(tmp_path)
    entry = json.loads(file.read_text(encoding="utf-8"))
    assert (entry["version"], entry["model"]) == (1, "scripted")
    assert "Hello?" not in file.read_text(encoding="utf-8")


@pytest.mark.soak
def test_processes_may_write_the_same_at_the_same_time(tmp_path: Path) -> None:
    code = f"""
import asyncio
from flowloom import CachedModel, LlmRequest
from flowloom.testing import FunctionModel
from google.genai import types

async def main():
    for number in range(20):
        model = CachedModel(FunctionModel(lambda request: "Hello. " * 1000), {str(tmp_path)!r})
        request = LlmRequest(contents=[types.UserContent(str(number))])
        async for response in model.generate_content_async(request):
            assert response.text == "Hello. " * 1000
asyncio.run(main())
"""
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [each.wait(60) for each in running] == [0, 0, 0]
    files = files_in(tmp_path)
    assert len(files) == 20
    assert {file.suffix for file in files} == {".json"}


async def test_a_store_that_fails_does_not_fail_the_call(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def get(self, key: str, /) -> str | None:
            raise OSError("no disk")

        def __setitem__(self, key: str, value: str, /) -> None:
            raise OSError("no disk")

    assert await told(CachedModel(scripted("Hello."), Broken())) == "Hello."
    assert "no disk" in caplog.text


async def test_an_answer_that_came_into_the_store_meanwhile_is_found() -> None:
    """Another thread or process may have asked the same between the look and the question."""

    class Late(dict[str, str]):
        hidden = False

        def get(self, key: str, /) -> str | None:  # type: ignore[override]
            hidden, self.hidden = self.hidden, False
            return None if hidden else super().get(key)

    store = Late()
    model = CachedModel(scripted("Hello."), store)
    assert await told(model) == "Hello."
    store.hidden = True
    assert await told(model) == "Hello."
    assert (model.hits, model.misses) == (1, 1)


async def test_a_request_that_has_no_name_is_asked_for_each_time() -> None:
    """What holds an object with a behaviour cannot be told from another that holds one."""

    def tool() -> None: ...

    model = CachedModel(scripted("One.", "Two."))
    request = ask(tools=[tool])
    assert [await told(model, request), await told(model, request)] == ["One.", "Two."]


async def test_a_copy_has_the_same_answers() -> None:
    model = CachedModel(scripted("Hello."))
    await told(model)
    copied = copy.deepcopy(model)
    assert await told(copied) == "Hello."
    assert (copied.hits, model.hits) == (1, 0)


async def test_an_answer_says_which_model_of_several_gave_it() -> None:
    down = scripted(ModelUnavailableError("Down."), model="a")
    model = CachedModel(FallbackModel([down, scripted("Hello.", model="b")]))
    for _ in range(2):
        [response] = await responses(model)
        assert response.custom_metadata is not None
        assert response.custom_metadata["fallback"]["answered_by"] == "b"


@pytest.mark.parametrize("options", [{"ttl": 0}, {"ttl": -1}, {"max_entries": 0}, {"store": 3}], ids=repr)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        CachedModel("offline", **options)

"""The file of a cassette: one call a line, nothing lost, nothing half read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowloom import LlmRequest, LlmResponse, ModelError
from flowloom.inspection import RequestView
from flowloom.testing import FunctionModel, call
from flowloom.testing.cassettes import CassetteError, Mode, RecordingModel

from .cassette_kit import ask, lines, recording, replaying, responses, texts, write, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.jsonl"


async def test_a_line_has_its_fields_in_one_order(path: Path) -> None:
    await texts(recording(path, "ä", ModelError("no")), "é\u2028")
    with pytest.raises(ModelError):
        await texts(recording(path, ModelError("no")), "2")
    first, second = lines(path)
    assert list(first) == ["digest", "model", "stream", "request", "responses"]
    assert list(second) == [*first, "error"]
    assert first["request"] == RequestView(ask("é\u2028")).data
    assert '"text": "ä"' in written(path)
    assert len(written(path).splitlines()) == 2


async def test_the_same_calls_make_the_same_file(path: Path) -> None:
    answers = [call("add", a=1, b=2), "three"]
    await texts(recording(path, *answers), "1", "2")
    before = written(path)
    await texts(recording(path, *answers, mode="rewrite"), "1", "2")
    assert written(path) == before


@pytest.mark.parametrize(
    "damage",
    [
        "<<<<<<< HEAD",
        "[]",
        '{"digest": "x"}',
        '{"model": "m", "stream": "no", "request": {"config": {}, "contents": []}, "responses": []}',
        '{"model": "m", "stream": true, "request": {"config": {}}, "responses": []}',
        '{"model": "m", "stream": true, "request": {"config": {}, "contents": []}, "responses": [{"content": 1}]}',
        '{"model": "m", "stream": true, "request": {"config": {}, "contents": []}, "responses": [], '
        '"error": {"type": "OSError", "message": "", "fields": {}}}',
    ],
)
@pytest.mark.parametrize("mode", ["replay", "record"])
async def test_a_damaged_line_is_named(path: Path, mode: Mode, damage: str) -> None:
    await texts(recording(path, "one"), "1")
    write(path, f"{written(path)}\n{damage}\n")
    with pytest.raises(CassetteError, match=r"Line 3 of the cassette .*c\.jsonl is damaged") as caught:
        await texts(recording(path, "two", mode=mode), "1")
    assert caught.value.line == 3


async def test_a_path_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match="cannot be read"):
        await texts(replaying(tmp_path), "1")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
ARGS = st.none() | st.dictionaries(st.text(max_size=6), JSON, max_size=3)
SIGNATURE = st.none() | st.binary(max_size=20)
PARTS = st.one_of(
    st.builds(types.Part, text=st.text(max_size=30), thought=st.none() | st.booleans(), thought_signature=SIGNATURE),
    st.builds(
        types.Part,
        function_call=st.builds(types.FunctionCall, id=st.none() | st.text(max_size=8), name=st.text(), args=ARGS),
        thought_signature=SIGNATURE,
    ),
    st.builds(types.Part, inline_data=st.builds(types.Blob, data=st.binary(max_size=40), mime_type=st.just("a/b"))),
    st.builds(types.Part, executable_code=st.builds(types.ExecutableCode, code=st.text())),
)
RESPONSES = st.builds(
    LlmResponse,
    content=st.none() | st.builds(types.Content, role=st.just("model"), parts=st.none() | st.lists(PARTS, max_size=3)),
    partial=st.none() | st.booleans(),
    turn_complete=st.none() | st.booleans(),
    finish_reason=st.none() | st.sampled_from(types.FinishReason),
    error_code=st.none() | st.text(max_size=8),
    error_message=st.none() | st.text(max_size=8),
    custom_metadata=ARGS,
    model_version=st.none() | st.text(max_size=8),
    avg_logprobs=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    usage_metadata=st.none()
    | st.builds(types.GenerateContentResponseUsageMetadata, total_token_count=st.integers(0, 10**6)),
    grounding_metadata=st.none()
    | st.builds(types.GroundingMetadata, web_search_queries=st.lists(st.text(max_size=8), max_size=2)),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answers=st.lists(RESPONSES, max_size=4), stream=st.booleans())
def test_what_is_replayed_is_what_was_recorded(path: Path, answers: list[LlmResponse], stream: bool) -> None:
    async def gives(_: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        for each in answers:
            yield each

    model = RecordingModel(FunctionModel(gives), path, "rewrite")
    assert asyncio.run(responses(model, stream=stream)) == answers
    assert asyncio.run(responses(replaying(path), stream=stream)) == answers


async def test_half_a_character_is_recorded(path: Path) -> None:
    """A stream may cut an emoji; UTF-8 cannot hold the halves."""
    await texts(recording(path, "half \ud83d"), "go \ud83d")
    assert await texts(replaying(path), "go \ud83d") == ["half \ud83d"]

"""Cassettes: recorded model calls, played instead of the model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kit import STREAMED, Chat, named_call, said, story
from models.gemini_wire import answer, streamed, whole
from models.wire_server import WireServer

from flowloom import BaseLlm, Event, Gemini, LlmAgent, LlmRequest, LlmResponse, ModelError, RunConfig
from flowloom.errors import ConfigurationError, ModelNotFoundError, ModelRateLimitError, ModelUnavailableError
from flowloom.inspection import EventsView, RequestView
from flowloom.testing import FunctionModel, ScriptedModel, call
from flowloom.testing.cassettes import CassetteMissError, Mode, RecordingModel

from .cassette_kit import ask, lines, recording, replaying, responses, texts, write, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "c.jsonl"


# -- whole runs ------------------------------------------------------------------------------------


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def adder(model: BaseLlm | str, instruction: str = "Do sums. Answer in one sentence.") -> LlmAgent:
    return LlmAgent(name="adder", model=model, instruction=instruction, tools=[add])


async def converse(model: BaseLlm, config: RunConfig | None = None, **fields: Any) -> list[Event]:
    chat = Chat(adder(model, **fields), config=config)
    return [*await chat.say("1 and 2?"), *await chat.say("and 3 more?"), *await chat.say("thanks")]


ANSWERS = [call("add", a=1, b=2), "It is three.", named_call("c7", "add", a=3, b=3), "Then six.", "At your service."]


@pytest.mark.parametrize("config", [None, STREAMED], ids=["unary", "streamed"])
async def test_a_replayed_conversation_has_the_same_events(path: Path, config: RunConfig | None) -> None:
    recorded = await converse(recording(path, *ANSWERS, stream_chunks=True), config)
    replayed = await converse(replaying(path), config)
    assert EventsView(replayed) == EventsView(recorded)
    assert "adder: Then six." in story(replayed)
    assert len(lines(path)) == 5


async def test_a_changed_instruction_is_reported_as_a_prompt_diff(path: Path) -> None:
    await converse(recording(path, *ANSWERS))
    with pytest.raises(CassetteMissError) as caught:
        await converse(replaying(path), instruction="Do sums. Answer in one word.")
    message = str(caught.value)
    assert "changed config.system_instruction" in message
    assert "- Do sums. Answer in one sentence." in message
    assert "+ Do sums. Answer in one word." in message
    assert str(path) in message
    assert 'mode="record"' in message
    assert caught.value.line == 1
    assert caught.value.diff is not None
    assert [each.path for each in caught.value.diff.differences] == ["config.system_instruction"]


async def test_the_difference_is_to_the_closest_request_that_was_not_played(path: Path) -> None:
    """After two turns as recorded, another message is compared with the third turn, not with the first."""
    await converse(recording(path, *ANSWERS))
    chat = Chat(adder(replaying(path)))
    await chat.say("1 and 2?")
    with pytest.raises(CassetteMissError, match=r"line 3, which has not been played yet") as caught:
        await chat.say("and 4 more?")
    assert caught.value.diff is not None
    (difference,) = caught.value.diff.differences
    assert difference.path == "contents[4]"
    assert difference.before["parts"] == [{"text": "and 3 more?"}]


async def test_what_was_played_is_not_compared_with_while_something_is_left(path: Path) -> None:
    kind, rude = ask("1", system_instruction="Be kind."), ask("2", system_instruction="Be rude.")
    for each in (kind, rude):
        await responses(recording(path, "ok"), each)
    model = replaying(path)
    await responses(model, kind)
    with pytest.raises(CassetteMissError, match="line 2, which has not been played yet"):
        await responses(model, ask("3", system_instruction="Be kind."))


async def test_gemini_is_recorded_over_a_connection_and_replayed_without_a_server(path: Path) -> None:
    chunks = [answer({"text": "It is "}), answer({"text": "three."}, finish="STOP")]
    made = {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}, "thoughtSignature": "_-4="}
    with WireServer(whole(made), streamed(*chunks), whole({"text": "Bye."}, usageMetadata={"totalTokenCount": 9})) as s:
        inner = Gemini(model="gemini-2.5-flash", base_url=s.url, api_key="a-secret-key-of-ours")
        recorded = [await responses(RecordingModel(inner, path, "record"), ask(), stream=False)]
        recorded.append(await responses(RecordingModel(inner, path, "record"), ask("2"), stream=True))
        recorded.append(await responses(RecordingModel(inner, path, "record"), ask("3"), stream=False))
        await inner.aclose()
    model = RecordingModel("gemini-2.5-flash", path)
    replayed = [await responses(model, ask(message), stream=message == "2") for message in ("go", "2", "3")]
    assert replayed == recorded
    assert [each.text for each in replayed[1]] == ["It is ", "three.", "It is three."]
    assert "127.0.0.1" not in written(path)


async def test_an_agent_with_a_gemini_replays_without_a_key(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}}
    with WireServer(whole(made), whole({"text": "three"})) as server:
        inner = Gemini(model="gemini-2.5-flash", base_url=server.url, api_key="key")
        recorded = await Chat(adder(RecordingModel(inner, path, "record"))).say("1 and 2?")
        await inner.aclose()
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    replayed = await Chat(adder(RecordingModel("gemini-2.5-flash", path))).say("1 and 2?")
    assert EventsView(replayed) == EventsView(recorded)


# -- what agents see of the model ------------------------------------------------------------------


class Peculiar(ScriptedModel):
    keeps_call_ids = True
    provider_name: str = "peculiar"

    @property
    def backend(self) -> Any:
        return "vertex_ai"

    @property
    def output_schema_and_tools(self) -> bool:
        return True

    @property
    def hosted(self) -> bool:
        return True


def test_a_recording_model_has_the_abilities_of_the_inner_one(path: Path) -> None:
    """So that the flow assembles the same request for both."""
    for inner in (Peculiar(model="p"), ScriptedModel()):
        model = RecordingModel(inner, path)
        for name in ("model", "backend", "output_schema_and_tools", "keeps_call_ids"):
            assert getattr(model, name) == getattr(inner, name), name
    assert RecordingModel(Peculiar(), path).provider_name == "peculiar"


@pytest.mark.parametrize(("mode", "hosted"), [("replay", False), ("record", True), ("rewrite", True)])
def test_only_a_model_that_may_be_asked_is_hosted(path: Path, mode: Mode, hosted: bool) -> None:
    assert RecordingModel(Peculiar(), path, mode).hosted is hosted
    assert not RecordingModel(ScriptedModel(), path, mode).hosted


def test_a_model_by_name_comes_from_the_registry(path: Path) -> None:
    assert isinstance(RecordingModel("gemini-2.5-flash", path).inner, Gemini)
    with pytest.raises(ModelNotFoundError):
        RecordingModel("nobody-knows", path)


def test_a_mode_that_is_none_is_refused(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="`mode`"):
        RecordingModel(ScriptedModel(), path, "play")  # type: ignore[arg-type]


# -- modes -----------------------------------------------------------------------------------------


async def test_replay_without_a_file_says_how_to_record(path: Path) -> None:
    with pytest.raises(CassetteMissError, match=r'no such file(?s:.)*`mode="record"`') as caught:
        await responses(replaying(path))
    assert caught.value.line is None
    assert not written(path)


async def test_a_miss_of_a_hosted_model_says_how_a_test_may_record(path: Path) -> None:
    with pytest.raises(CassetteMissError, match="allow_model_requests"):
        await responses(RecordingModel(Peculiar(), path))


async def test_record_plays_what_is_there_and_asks_for_the_rest(path: Path) -> None:
    await texts(recording(path, "one"), "1")
    model = recording(path, "two")
    assert await texts(model, "1", "2") == ["one", "two"]
    assert await texts(replaying(path), "1", "2") == ["one", "two"]
    assert len(lines(path)) == 2


async def test_what_was_recorded_already_stays_as_it_is_byte_by_byte(path: Path) -> None:
    await texts(recording(path, "one"), "1")
    before = written(path)
    await texts(recording(path, "two"), "1", "2")
    assert written(path).startswith(before)


async def test_a_line_without_an_end_is_not_run_into(path: Path) -> None:
    await texts(recording(path, "one"), "1")
    write(path, written(path).rstrip("\n"))
    await texts(recording(path, "two"), "2")
    assert await texts(replaying(path), "1", "2") == ["one", "two"]


async def test_rewrite_replaces_everything(path: Path) -> None:
    await texts(recording(path, "one", "two"), "1", "2")
    assert await texts(recording(path, "uno", "tre", mode="rewrite"), "1", "3") == ["uno", "tre"]
    assert [each["responses"][0]["content"]["parts"][0]["text"] for each in lines(path)] == ["uno", "tre"]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("failure", [ModelRateLimitError("slow down"), RuntimeError("broken")], ids=type)
async def test_rewrite_leaves_the_old_file_until_the_first_answer(path: Path, failure: Exception) -> None:
    await texts(recording(path, "one"), "1")
    before = written(path)
    model = recording(path, failure, "uno", mode="rewrite")
    with pytest.raises(type(failure)):
        await texts(model, "1")
    assert written(path) == before
    await texts(model, "1")
    assert [bool(each.get("error")) for each in lines(path)] == [True, False][isinstance(failure, RuntimeError) :]


async def test_rewrite_does_not_need_to_read_the_old_file(path: Path) -> None:
    write(path, "what is this?\n")
    await texts(recording(path, "uno", mode="rewrite"), "1")
    assert await texts(replaying(path), "1") == ["uno"]


# -- which call is played --------------------------------------------------------------------------


async def test_the_same_request_plays_its_calls_in_order(path: Path) -> None:
    model = recording(path, "first", "other", "second", mode="rewrite")
    await texts(model, "a", "b", "a")
    assert await texts(replaying(path), "a", "a", "b") == ["first", "second", "other"]


async def test_asking_the_same_more_often_than_recorded_is_a_miss(path: Path) -> None:
    await texts(recording(path, "one", "two"), "1", "2")
    model = replaying(path)
    await texts(model, "1")
    with pytest.raises(CassetteMissError, match=r"asked the same more often(?s:.)*is on line 1, and was played"):
        await texts(model, "1")


async def test_record_asks_again_for_what_is_asked_more_often(path: Path) -> None:
    await texts(recording(path, "first"), "a")
    assert await texts(recording(path, "second"), "a", "a") == ["first", "second"]
    assert await texts(replaying(path), "a", "a") == ["first", "second"]


async def test_a_request_beyond_the_last_one_is_compared_with_one_that_was_played(path: Path) -> None:
    await texts(recording(path, "one"), "1")
    model = replaying(path)
    await texts(model, "1")
    with pytest.raises(CassetteMissError, match="line 1, which has been played already"):
        await texts(model, "2")


async def test_the_digest_is_that_of_the_requests_view(path: Path) -> None:
    await texts(recording(path, "one"), "ünïcode")
    assert lines(path)[0]["digest"] == RequestView(ask("ünïcode")).digest


async def test_a_request_may_be_edited_in_the_file(path: Path) -> None:
    """What is compared is the request, not its digest."""
    await texts(recording(path, "one"), "colour")
    write(path, written(path).replace("colour", "color"))
    assert await texts(replaying(path), "color") == ["one"]


async def test_calls_at_the_same_time_are_each_recorded_and_played(path: Path) -> None:
    async def slow(request: LlmRequest) -> str:
        await asyncio.sleep(0)
        return f"to {(request.contents[0].parts or [])[0].text}"

    messages = [f"m{index}" for index in range(20)]
    model = RecordingModel(FunctionModel(slow), path, "record")
    await asyncio.gather(*(texts(model, message) for message in messages))
    player = replaying(path)
    played = await asyncio.gather(*(texts(player, message) for message in messages))
    assert played == [[f"to {message}"] for message in messages]


async def test_models_on_one_path_record_into_one_file_and_play_from_places_of_their_own(path: Path) -> None:
    """In `rewrite`, neither takes away what the other has recorded since, and nothing older is left."""
    earlier = recording(path, "old")
    await texts(earlier, "x")
    one, two = recording(path, "1", "3", mode="rewrite"), recording(path, "2", mode="rewrite")
    assert [*await texts(one, "a", "c"), *await texts(two, "b")] == ["1", "3", "2"]
    assert len(lines(path)) == 3
    for _ in range(2):
        assert await texts(replaying(path), "a", "b", "c") == ["1", "2", "3"]


async def test_an_error_is_written_at_once_when_nothing_older_is_left(path: Path) -> None:
    one, two = recording(path, "1", mode="rewrite"), recording(path, ModelError("no"), mode="rewrite")
    await texts(one, "a")
    with pytest.raises(ModelError):
        await texts(two, "b")
    assert len(lines(path)) == 2


async def test_a_later_rewrite_replaces_an_earlier_one_of_the_same_process(path: Path) -> None:
    earlier = recording(path, "1", mode="rewrite")
    await texts(earlier, "a")
    await texts(recording(path, "2", mode="rewrite"), "b")
    assert len(lines(path)) == 1


# -- streams ---------------------------------------------------------------------------------------


async def test_a_stream_is_replayed_chunk_by_chunk(path: Path) -> None:
    recorded = await responses(recording(path, "a long answer", stream_chunks=True, chunk_size=3), stream=True)
    replayed = await responses(replaying(path), stream=True)
    assert replayed == recorded
    assert [bool(each.partial) for each in replayed] == [True] * 5 + [False]


async def test_a_recorded_stream_is_one_response_to_whoever_does_not_stream(path: Path) -> None:
    await responses(recording(path, "a long answer", stream_chunks=True), stream=True)
    assert await texts(replaying(path), "go") == ["a long answer"]


async def test_a_recorded_response_is_the_whole_stream(path: Path) -> None:
    await responses(recording(path, "a long answer", stream_chunks=True))
    assert await texts(replaying(path), "go", stream=True) == ["a long answer"]


async def test_a_call_that_is_broken_off_is_not_recorded(path: Path) -> None:
    model = recording(path, "a long answer", "another", stream_chunks=True)
    async with aclosing(model.generate_content_async(ask(), True)) as stream:
        async for _ in stream:
            break
    assert not written(path)
    assert await texts(model, "go") == ["another"]


async def test_a_call_is_recorded_before_its_complete_response_is_handed_on(path: Path) -> None:
    async with aclosing(recording(path, "whole").generate_content_async(ask())) as stream:
        async for _ in stream:
            break
    assert await texts(replaying(path), "go") == ["whole"]


async def test_what_a_consumer_does_to_a_response_is_not_recorded(path: Path) -> None:
    async for response in recording(path, "whole").generate_content_async(ask()):
        response.content = said("changed")
    assert await texts(replaying(path), "go") == ["whole"]


# -- errors ----------------------------------------------------------------------------------------


class BusyError(ModelUnavailableError):
    """An error of somebody's own, with a field and another signature."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"busy for {retry_after} s", model="b", status=503, code="BUSY", retryable=True)
        self.retry_after = retry_after


@pytest.mark.parametrize(
    "error",
    [
        ModelRateLimitError("slow down", model="m", status=429, code="RESOURCE_EXHAUSTED", retryable=True),
        ModelError("no"),
        BusyError(2.5),
    ],
    ids=type,
)
async def test_an_error_of_the_model_is_recorded_and_raised_again(path: Path, error: ModelError) -> None:
    with pytest.raises(type(error)):
        await responses(recording(path, error))
    with pytest.raises(type(error)) as caught:
        await responses(replaying(path))
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert vars(caught.value) == vars(error)


async def test_a_stream_that_breaks_is_replayed_up_to_the_error(path: Path) -> None:
    async def breaks(_: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=said("half"), partial=True)
        raise ModelUnavailableError("gone", status=503)

    for model in (RecordingModel(FunctionModel(breaks), path, "record"), replaying(path)):
        stream = model.generate_content_async(ask(), True)
        assert (await anext(stream)).text == "half"
        with pytest.raises(ModelUnavailableError, match="gone"):
            await anext(stream)


async def test_another_error_is_raised_and_not_recorded(path: Path) -> None:
    with pytest.raises(RuntimeError, match="a bug"):
        await responses(recording(path, RuntimeError("a bug")))
    assert not written(path)

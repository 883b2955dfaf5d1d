"""Models that answer from a script or a function: what may go wrong with an answer, and how it is streamed."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from kit import STREAMED, Chat, agent, call, collect, said, story, text

from flowloom import LlmAgent, LlmRequest, LlmResponse
from flowloom.errors import ConfigurationError, IncompleteStreamError, ModelStreamError
from flowloom.testing import FunctionModel, ScriptedModel, chunks_of, frozen
from flowloom.testing.scripted import delayed, dropped, response_of, truncated


def response(*parts: types.Part | str) -> LlmResponse:
    return LlmResponse(content=said(*parts))


def texts(chunks: list[LlmResponse]) -> list[str | None]:
    return [chunk.content.parts[0].text for chunk in chunks if chunk.content and chunk.content.parts]


async def answers(model: Any, stream: bool = True) -> list[LlmResponse]:
    return await collect(model.generate_content_async(LlmRequest(), stream))


# -- chunks ------------------------------------------------------------------------------------------


def test_an_answer_is_a_list_of_texts_and_parts() -> None:
    assert response_of(["I look.", call("look")]) == response("I look.", call("look"))


@pytest.mark.parametrize("wrong", [3, None, {"text"}, ["text", 3], ["text", LlmResponse()]])
def test_what_is_no_answer_is_said_to_be_none(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no answer of a model"):
        response_of(wrong)


@pytest.mark.parametrize(
    "wrong", [None, 5, "Hi", b"Hi", {"text": "Hi"}, LlmResponse()], ids=lambda it: type(it).__name__
)
def test_a_script_is_a_list_of_answers(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="takes a list of answers, as "):
        ScriptedModel(wrong)


async def test_what_is_no_response_among_several_is_named() -> None:
    with pytest.raises(ConfigurationError, match="A list of responses holds 'Hi'"):
        await answers(ScriptedModel([[LlmResponse(partial=True), "Hi"]]))  # type: ignore[list-item]


def test_text_is_cut_into_pieces_of_a_size() -> None:
    """In code points; the last piece may be shorter, and each part ends a piece."""
    assert texts(chunks_of(response("abcdefg", "xy"), 3)) == ["abc", "def", "g", "xy"]
    assert texts(chunks_of(response("🙂🙂é"), 1)) == ["🙂", "🙂", "é"]
    assert all(chunk.partial for chunk in chunks_of(response("abcdefg"), 3))


def test_text_is_cut_where_it_is_told_to_be() -> None:
    """At positions in all the text of the response, in any order; places outside are no cuts."""
    assert texts(chunks_of(response("abcdefg"), cuts=[5, 2, 2])) == ["ab", "cde", "fg"]
    assert texts(chunks_of(response("abc", call("f"), "defg"), cuts=[1, 5])) == ["a", "bc", None, "de", "fg"]
    assert texts(chunks_of(response("abc"), cuts=[-1, 0, 3, 99])) == ["abc"]
    assert texts(chunks_of(response("abcdefghijkl"), cuts=[])) == ["abcdefghijkl"]


def test_a_thought_stays_a_thought_and_what_is_no_plain_text_stays_whole() -> None:
    signed = types.Part(text="signed text", thought_signature=b"s")
    chunks = chunks_of(response(text("think", thought=True), signed, call("f", city="Rome")), 3)
    parts = [chunk.content.parts[0] for chunk in chunks if chunk.content and chunk.content.parts]
    assert [part.text for part in parts] == ["thi", "nk", "signed text", None]
    assert [part.thought for part in parts] == [True, True, None, None]
    assert parts[2:] == [signed, call("f", city="Rome")]


def test_a_chunk_has_at_least_one_character() -> None:
    with pytest.raises(ConfigurationError, match="0 characters"):
        chunks_of(response("abc"), 0)


@given(
    told=st.lists(st.tuples(st.text(), st.booleans()), max_size=4),
    size=st.integers(1, 9),
    cuts=st.one_of(st.none(), st.lists(st.integers(-2, 30))),
)
def test_the_chunks_joined_are_the_answer_and_always_the_same(
    told: list[tuple[str, bool]], size: int, cuts: list[int] | None
) -> None:
    """For any texts, sizes and cuts, thoughts and words apart."""
    answer = response(*(text(words, thought=thought or None) for words, thought in told))
    chunks = chunks_of(answer, size, cuts=cuts)
    for thought in (True, None):
        pieces = [part.text for chunk in chunks for part in chunk.content.parts if part.thought is thought]
        assert "".join(pieces) == "".join(words for words, is_thought in told if (is_thought or None) is thought)
    assert chunks_of(answer, size, cuts=cuts) == chunks


async def test_cuts_can_be_the_script() -> None:
    """A list of responses is yielded one by one."""
    whole = response("one two")
    chat = Chat(agent("root", [*chunks_of(whole, cuts=[4]), whole]), config=STREAMED)
    assert story(await chat.say("go")) == ["root~: one ", "root~: two", "root: one two"]


# -- delays ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [None, STREAMED])
async def test_a_delayed_answer_waits_by_the_engines_clock(config: Any) -> None:
    """Before anything is said, as long as it is told to; a frozen clock takes no time for it."""
    with frozen() as clock:
        chat = Chat(agent("root", delayed("late", 30), "at once"), config=config)
        assert story(await chat.say("go")) == ["root: late"]
        assert clock.slept == [30.0]
        assert story(await chat.say("go")) == ["root: at once"]
        assert clock.slept == [30.0]


async def test_a_model_can_wait_in_its_own_way() -> None:
    """`wait` is the one place where models for tests wait."""
    waited: list[float] = []

    class Patient(ScriptedModel):
        async def wait(self, seconds: float) -> None:
            waited.append(seconds)

    assert len(await answers(Patient([delayed(delayed("x", 1), 2)]))) == 1
    assert waited == [2.0, 1.0]


async def test_a_delayed_error_is_raised_after_the_wait() -> None:
    with frozen() as clock:
        with pytest.raises(ValueError, match="no"):
            await Chat(agent("root", delayed(ValueError("no"), 3))).say("go")
        assert clock.slept == [3.0]


# -- streams that break off ------------------------------------------------------------------------------


async def heard_until(chat: Chat, error: type[Exception]) -> list[str]:
    """The story up to the error that ends the turn."""
    seen: list[Any] = []

    async def listen() -> None:
        stream = chat.runner.run_async(user_id="ann", session_id="s1", new_message="go", run_config=chat.config)
        async for event in stream:
            seen.append(event)  # noqa: PERF401 - what came before the error is to be kept

    with pytest.raises(error):
        await listen()
    return [line for line in story(seen) if "!" not in line]


async def test_a_dropped_answer_streams_some_chunks_and_then_breaks() -> None:
    """Whether the model streams its other answers or not, in its chunk size; what was streamed is kept."""
    root = LlmAgent(name="root", model=ScriptedModel([dropped("one two three", after=2)], chunk_size=4))
    assert await heard_until(Chat(root, config=STREAMED), ModelStreamError) == [
        "root~: one ",
        "root~: two ",
        "root: one two ",
    ]


async def test_a_dropped_answer_breaks_at_once_when_the_run_does_not_stream() -> None:
    chat = Chat(agent("root", dropped("one two three", after=2)))
    assert await heard_until(chat, ModelStreamError) == []


async def test_a_dropped_answer_raises_the_error_it_is_given() -> None:
    assert await heard_until(Chat(agent("root", dropped("x", error=KeyError("gone")))), KeyError) == []


async def test_the_complete_response_of_a_dropped_answer_never_comes() -> None:
    """However many chunks are allowed."""
    chat = Chat(agent("root", dropped("one", after=99)), config=STREAMED)
    assert await heard_until(chat, ModelStreamError) == ["root~: one", "root: one"]


async def test_a_dropped_list_of_responses_breaks_among_its_partial_ones() -> None:
    whole = response("abcdef")
    script = dropped([*chunks_of(whole, 2), whole], after=2)
    expected = ["root~: ab", "root~: cd", "root: abcd"]
    assert await heard_until(Chat(agent("root", script), config=STREAMED), ModelStreamError) == expected
    assert await heard_until(Chat(agent("root", script)), ModelStreamError) == []


async def test_a_truncated_answer_ends_without_a_complete_response() -> None:
    """The engine says so: the stream ended on a partial response."""
    chat = Chat(agent("root", truncated("one two three", after=1)), config=STREAMED)
    assert await heard_until(chat, IncompleteStreamError) == ["root~: one two ", "root: one two "]


@pytest.mark.parametrize(("config", "after"), [(None, 2), (STREAMED, 0)])
async def test_a_truncated_answer_of_no_chunks_is_no_answer(config: Any, after: int) -> None:
    """So it is when the run does not stream."""
    chat = Chat(agent("root", truncated("one two three", after=after)), config=config)
    assert story(await chat.say("go")) == ["root: !MODEL_RETURNED_NO_CONTENT"]


async def test_faults_can_be_put_together() -> None:
    """Late, and then broken; or broken, of an answer that came late."""
    with frozen() as clock:
        for script in (delayed(dropped("one two three", after=1), 5), dropped(delayed("one two three", 5), after=1)):
            chat = Chat(agent("root", script), config=STREAMED)
            assert await heard_until(chat, ModelStreamError) == ["root~: one two ", "root: one two "]
        assert clock.slept == [5.0, 5.0]


async def test_a_function_may_answer_with_a_fault() -> None:
    """Sync or async, as with any other answer."""

    async def late(request: LlmRequest) -> Any:
        return delayed("late", 7)

    with frozen() as clock:
        assert story(await Chat(LlmAgent(name="root", model=FunctionModel(late))).say("go")) == ["root: late"]
        assert clock.slept == [7.0]
    breaks = FunctionModel(lambda _: dropped("one two", after=1), chunk_size=3)
    chat = Chat(LlmAgent(name="root", model=breaks), config=STREAMED)
    assert await heard_until(chat, ModelStreamError) == ["root~: one", "root: one"]


async def test_a_function_may_answer_with_a_list_of_responses() -> None:
    """As a script may."""
    whole = response("abc")
    assert await answers(FunctionModel(lambda _: [*chunks_of(whole, 2), whole])) == [*chunks_of(whole, 2), whole]


def test_a_faulty_answer_has_a_response_that_it_would_have_been() -> None:
    assert response_of(dropped(delayed("x", 1))) == response_of("x")


@pytest.mark.parametrize("build", [lambda: delayed("x", -1), lambda: dropped("x", -1), lambda: truncated("x", -1)])
def test_a_fault_is_checked_when_it_is_built(build: Any) -> None:
    with pytest.raises(ConfigurationError, match="0 or more"):
        build()

"""How the events of a run become lines."""

from __future__ import annotations

import io

import kit
from google.genai import types

from flowloom import Event
from flowloom.cli.display import Display


def shown(*events: Event) -> str:
    out = io.StringIO()
    display = Display(out, io.StringIO())
    display.begin_turn()
    for event in events:
        display.show(event)
    display.end_turn()
    return out.getvalue()


def piece(author: str, text: str, **fields: object) -> Event:
    return kit.event(author, text, partial=True, **fields)


def test_streamed_text_is_shown_once() -> None:
    """The complete event repeats the pieces and is not shown again."""
    assert shown(piece("a", "Hel"), piece("a", "lo."), kit.event("a", "Hello.")) == "a: Hello.\n"


def test_agents_in_parallel_do_not_cut_into_each_other() -> None:
    """One writes; what the others say meanwhile follows, whole and in order."""
    events = [
        piece("a", "one "),
        piece("b", "un "),
        kit.event("c", kit.text("drei")),
        piece("a", "two"),
        kit.event("a", "one two"),
        piece("b", "deux"),
        kit.event("b", "un deux"),
    ]
    assert shown(*events) == "a: one two\nc: drei\nb: un deux\n"


def test_the_same_agent_on_two_branches_is_two_speakers() -> None:
    """Branches are told apart by more than the author's name."""
    events = [
        piece("a", "left ", branch="x"),
        piece("a", "right", branch="y"),
        kit.event("a", "right", branch="y"),
        piece("a", "side", branch="x"),
        kit.event("a", "left side", branch="x"),
    ]
    assert shown(*events) == "a: left side\na: right\n"


def test_what_was_not_finished_is_ended() -> None:
    """A turn that breaks off leaves no open line, and nothing unsaid."""
    assert shown(piece("a", "half"), kit.event("b", "whole")) == "a: half\nb: whole\n"


def test_thoughts_and_words_are_apart() -> None:
    """A thought has a line of its own."""
    events = [
        Event(author="a", partial=True, content=types.Content(parts=[types.Part(text="Hm", thought=True)])),
        piece("a", "Yes"),
        kit.event("a", kit.text("Hm", thought=True), "Yes"),
    ]
    assert shown(*events) == "a (thinks): Hm\na: Yes\n"


def test_steps_are_one_line_each() -> None:
    """Calls, results and transfers are compact; the machinery behind them is left out."""
    long = {"text": "x" * 500}
    lines = shown(
        kit.event("a", kit.named_call("1", "look", city="Rome")),
        kit.event("a", kit.result("1", "look", long)),
        kit.event("a", kit.named_call("2", "transfer_to_agent", agent_name="b")),
        kit.event("a", kit.result("2", "transfer_to_agent", {}), actions={"transfer_to_agent": "b"}),
    ).splitlines()
    assert lines[0] == '  [a] calls look(city="Rome")'
    assert lines[1].startswith("  [a] got look: ")
    assert len(lines[1]) == 160
    assert lines[2:] == ["  [a] hands over to b"]


def test_errors_are_named() -> None:
    """An error event gives its code and message."""
    assert shown(Event(author="a", error_code="SAFETY", error_message="No.")) == "a: SAFETY: No.\n"


async def test_an_answer_that_is_asked_for_again_is_a_step_and_no_failure() -> None:
    """What is wrong with it stands on one line; the agent does not say that."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    events = await kit.Chat(kit.agent("a", "", '{"m": 1}', '{"n": 1}', output_schema=schema)).say("go")
    out = io.StringIO()
    display = Display(out, io.StringIO())
    for event in events:
        display.show(event)
    assert not display.failed
    lines = out.getvalue().splitlines()
    assert [line for line in lines if line.startswith("a: {")] == ['a: {"m": 1}', 'a: {"n": 1}']
    assert sum("  [a] is to answer again: The output" in line for line in lines) == 2
    assert "required form" not in out.getvalue()

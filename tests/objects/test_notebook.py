"""What objects show of themselves where code is tried out."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from google.genai import types
from kit import agent, hand_to

from flowloom import Event, EventActions, InMemoryRunner, LlmAgent, RunResult, explain, measure
from flowloom.testing import ScriptedModel, call

LONG = "<script>alert('x')</script>\n\x1b[31m" + "a long text " * 10_000


def look(place: str = "here") -> str:
    """Look."""
    return "s3cret"


async def shown() -> list[Any]:
    """One object of each kind, with long and hostile texts in it."""
    root = LlmAgent(
        name="root", model=ScriptedModel([call("look", place="s3cret"), LONG]), tools=[look], instruction=LONG
    )
    result = await InMemoryRunner(root).run_to_result(user_id="u", session_id="s", new_message=LONG)
    failed = RunResult("e-1", "failed", error=RuntimeError(LONG))
    assembly = await explain(root, LONG)
    profile = await measure(agent("a" * 500, "x"), repeat=1, allocations=False)
    odd = Event(
        author=LONG,
        error_code=LONG,
        error_message=LONG,
        actions=EventActions(state_delta={"key": LONG}, transfer_to_agent="helper"),
        content=types.Content(
            role="model",
            parts=[types.Part(function_call=types.FunctionCall(name="n" * 300, args={"a": {1, 2}}))] * 300
            + [types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))],
        ),
    )
    return [result, failed, RunResult("", "final"), assembly, profile, root.flow, odd, Event(), *result.events]


class _Checked(HTMLParser):
    """Which elements there are; that each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


async def test_a_repr_is_one_short_line() -> None:
    """At most 120 characters, none of which a terminal obeys, and no values of arguments or results."""
    for each in await shown():
        line = repr(each)
        assert len(line) <= 120, line
        assert line.isprintable(), line
        assert line.startswith(f"<{type(each).__name__}"), line
        assert "s3cret" not in line


async def test_a_notebook_gets_well_formed_html_of_bounded_length() -> None:
    """Whatever is in the object stands there as text: there is no element but those of the table or the frame."""
    for each in await shown():
        html = each._repr_html_()
        checked = _Checked()
        checked.feed(html)
        assert checked.open == []
        assert checked.seen <= {"div", "b", "table", "tr", "th", "td", "iframe"}
        assert len(html) < 1_000_000


async def test_what_the_lines_say() -> None:
    """Who, what, how much."""
    helper = agent("helper", "It is  21\ndegrees.")
    root = agent("root", [call("look")], hand_to("helper"), tools=[look], sub_agents=[helper])
    result = await InMemoryRunner(root).run_to_result(user_id="u", session_id="s", new_message="go")
    assert repr(result) == "<RunResult final: 'It is 21 degrees.', 5 events, 3 model calls, 2 tool calls>"
    assert [repr(event) for event in result.events[:2]] == [
        "<Event of 'root' calls look>",
        "<Event of 'root' results of look>",
    ]
    assert repr(result.events[-1]) == "<Event of 'helper' 'It is 21 degrees.'>"
    assert repr(RunResult("e-1", "failed", error=RuntimeError("no"))).startswith("<RunResult failed: RuntimeError, 0 ")
    assert repr(root.flow) == "<Flow of 13 request processors and 2 response processors>"
    assert "helper" in result._repr_html_()


async def test_a_run_with_very_many_events_shows_the_last() -> None:
    """A table stays a table that one can read."""
    result = RunResult("e-1", "final", events=[Event(author=f"agent{number}") for number in range(1000)])
    html = result._repr_html_()
    assert "agent999" in html
    assert "agent100<" not in html
    assert "800 earlier events" in html

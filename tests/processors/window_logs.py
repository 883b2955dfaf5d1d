"""Logs of conversations for the tests of windows, and what a strict provider has to say about contents."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from google.genai import types
from hypothesis import strategies as st
from kit import agent, context, event, named_call, result

from flowloom import Event, Flow, LlmRequest

LETTERS = st.integers(1, 120).map(lambda n: "word " * n)


def image() -> types.Part:
    return types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))


def round_of(number: int, *sizes: int, author: str = "root", minted: bool = False) -> list[Event]:
    """Calls made at once, and their results of these sizes."""
    ids = [f"{'adk-' if minted else ''}c{number}-{n}" for n in range(len(sizes))]
    calls = [named_call(call_id, "look", text="a" * size) for call_id, size in zip(ids, sizes, strict=True)]
    answers = [result(call_id, "look", {"found": "b" * size}) for call_id, size in zip(ids, sizes, strict=True)]
    answered = event(author, *answers)
    assert answered.content is not None
    answered.content.role = "user"
    return [event(author, *calls), answered]


@st.composite
def turns(draw: st.DrawFn, number: int) -> list[Event]:
    """A message and what came of it; some events are pinned."""
    opening: list[types.Part | str] = [f"{number} " + draw(LETTERS)]
    if draw(st.booleans()):
        opening.append(image())
    made = [event("user", *opening)]
    for step in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["text", "calls", "calls", "told", "told_calls", "image"]))
        if kind == "text":
            made.append(event("root", f"{number}.{step} " + draw(LETTERS)))
        elif kind == "image":
            made.append(event("root", image()))
        elif kind == "told":
            made.append(event("helper", f"{number}.{step} " + draw(LETTERS)))
        else:
            sizes = draw(st.lists(st.integers(1, 400), min_size=1, max_size=3))
            author = "root" if kind == "calls" else "helper"
            made += round_of(number * 10 + step, *sizes, author=author, minted=draw(st.booleans()))
    for each in made:
        if draw(st.integers(0, 9)) == 0:
            each.custom_metadata = {"pinned": True}
    return made


@st.composite
def logs(draw: st.DrawFn, most: int = 8) -> list[Event]:
    """A conversation whose last turn may have just begun."""
    log: list[Event] = []
    for number in range(draw(st.integers(1, most))):
        log += draw(turns(number))
    return log


def requests_at(log: list[Event]) -> list[int]:
    """After how many events a model is asked: behind a message of the user, and behind results."""
    return [
        count
        for count in range(1, len(log) + 1)
        if (last := log[count - 1]).content is not None and (last.author == "user" or last.get_function_responses())
    ]


async def request_of(log: list[Event], *processors: Any) -> LlmRequest:
    """The request of `root` after a log, with these processors behind `contents`."""
    flow, place = Flow(), "contents"
    for processor in processors:
        flow = flow.with_processor(processor, after=place)
        place = processor.name
    return (await flow.assemble(context(agent("root", flow=flow), *log))).request


def lines(contents: Iterable[types.Content]) -> list[str]:
    """Each content as JSON."""
    return [json.dumps(each.model_dump(mode="json", exclude_none=True), sort_keys=True) for each in contents]


def complaint(contents: list[types.Content]) -> str | None:
    """Why a strict provider refuses the contents; None if it does not."""
    if not contents or contents[0].role != "user":
        return "the user does not begin"
    open_calls: list[str | None] = []
    for number, content in enumerate(contents):
        answered = [part.function_response.name for part in content.parts or () if part.function_response]
        if answered != open_calls:
            return f"contents[{number}] has results {answered} for calls {open_calls}"
        open_calls = [part.function_call.name for part in content.parts or () if part.function_call]
    return f"calls without results: {open_calls}" if open_calls else None

"""Whatever processors do to a request, it can be rebuilt from their changes, and shown in every form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from google.genai import types
from hierarchies import add, search, talk
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import examples, said, user

from flowloom import Flow, LlmAgent, LlmRequest
from flowloom.inspection import read_sections, write_sections
from flowloom.inspection.explanation import explain
from inspection.requests import asked

Write = Callable[[LlmRequest, int], None]


def declared(name: str) -> types.FunctionDeclaration:
    return types.FunctionDeclaration(name=name, description=name)


def replaces_config(request: LlmRequest, number: int) -> None:
    request.config = types.GenerateContentConfig(temperature=number, system_instruction=f"Only {number}.")


def replaces_contents(request: LlmRequest, number: int) -> None:
    request.contents = [user(f"only {number}")]


def removes_a_content(request: LlmRequest, number: int) -> None:
    if request.contents:
        del request.contents[number % len(request.contents)]


def inserts_a_content(request: LlmRequest, number: int) -> None:
    request.contents.insert(number % (len(request.contents) + 1), said(f"in between {number}"))


def mutates_a_part(request: LlmRequest, number: int) -> None:
    if request.contents:
        parts = request.contents[number % len(request.contents)].parts
        if parts:
            parts[0].text = f"changed {number}"


def reverses_contents(request: LlmRequest, number: int) -> None:
    request.contents.reverse()


def appends_an_instruction(request: LlmRequest, number: int) -> None:
    request.append_instructions([f"One {number}.", "", "Two.\n\nThree."])


def prepends_an_instruction(request: LlmRequest, number: int) -> None:
    before = request.config.system_instruction
    if before is None or isinstance(before, str):
        request.config.system_instruction = f"First {number}.\n\n{before or ''}"


def makes_the_instruction_a_content(request: LlmRequest, number: int) -> None:
    request.config.system_instruction = types.Content(role="user", parts=[types.Part(text=f"p{number}")])


def clears_the_instruction(request: LlmRequest, number: int) -> None:
    request.config.system_instruction = None


def inserts_a_tool(request: LlmRequest, number: int) -> None:
    group = types.Tool(function_declarations=[declared(f"t{number}")])
    request.config.tools = [group, *(request.config.tools or ())]


def declares_in_place(request: LlmRequest, number: int) -> None:
    for group in request.config.tools or ():
        if isinstance(group, types.Tool) and group.function_declarations is not None:
            group.function_declarations.insert(number % 2, declared(f"i{number}"))


def adds_a_built_in_tool(request: LlmRequest, number: int) -> None:
    request.config.tools = [*(request.config.tools or ()), types.Tool(google_search=types.GoogleSearch())]


def gives_a_function_as_tool(request: LlmRequest, number: int) -> None:
    request.config.tools = [*(request.config.tools or ()), add]


def clears_tools(request: LlmRequest, number: int) -> None:
    request.config.tools = [] if number % 2 else None
    request.tools_dict.clear()


def sets_odd_things(request: LlmRequest, number: int) -> None:
    request.model = None if number % 2 else "other\n← model"
    request.config.labels = {"a.b[c]": "x\ty", "": "empty", "ü": "\x00\u2028"}
    request.config.response_schema = list[int] if number % 3 else dict
    request.config.http_options = types.HttpOptions(headers={"x-key": f"hush{number}"}, timeout=number)
    request.service_tier = "flex"


WRITES: list[Write] = [
    replaces_config,
    replaces_contents,
    removes_a_content,
    inserts_a_content,
    mutates_a_part,
    reverses_contents,
    appends_an_instruction,
    prepends_an_instruction,
    makes_the_instruction_a_content,
    clears_the_instruction,
    inserts_a_tool,
    declares_in_place,
    adds_a_built_in_tool,
    gives_a_function_as_tool,
    clears_tools,
    sets_odd_things,
]
STEPS = st.lists(st.tuples(st.sampled_from(WRITES), st.integers(0, 9)), min_size=1, max_size=6)


def processor(write: Write, number: int, place: int) -> Any:
    """A processor that writes one thing; every third one takes its time."""

    def writes(ctx: Any, request: LlmRequest) -> Any:
        write(request, number)
        return asyncio.sleep(0) if place % 3 == 2 else None

    writes.__name__ = f"p{place}"
    return writes


@settings(max_examples=examples(250))
@given(steps=STEPS, early=st.booleans())
def test_whatever_processors_do_can_be_followed(steps: list[tuple[Write, int]], early: bool) -> None:
    """Rebuilt from the changes, written and read back, as data, as text and as a page."""
    flow = Flow()
    for place, (write, number) in enumerate(steps):
        made = processor(write, number, place)
        flow = flow.with_processor(made, before="tool_declarations") if early else flow.with_processor(made)
    root = LlmAgent(name="root", model=asked([]), instruction="Be kind.", tools=[add, search], flow=flow)
    assembly = asyncio.run(explain(root, "hi", history=talk()))
    last = assembly.steps[-1].name
    expected = assembly.request.model_copy(update={"contents": list(assembly.request.contents)})
    assert assembly.request_after(last) == expected
    assert read_sections(write_sections(assembly.sections)) == assembly.sections
    names = {step.name for step in assembly.steps}
    assert {section.by for section in assembly.sections} <= names
    assert json.loads(json.dumps(assembly.to_dict())) == assembly.to_dict()
    assert "hush" not in json.dumps(assembly.to_dict())
    assert "hush" not in str(assembly) + assembly.to_html()

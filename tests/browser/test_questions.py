"""Questions of tools in the chat: a field, or a form, for whatever schema the answer has to fit (server spec §12)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser.driving import Driven
from browser.office import last_words
from playwright.sync_api import expect
from server.serving import Running, serving

from flowloom import LlmAgent, LlmRequest, ToolContext
from flowloom.server import app_of
from flowloom.testing import FunctionModel, call

Open = Callable[..., Driven]


def ask(schema: str, tool_context: ToolContext) -> str:
    """Asks for what fits the schema."""
    return json.dumps(tool_context.request_input("Which one?", response_schema=json.loads(schema)))


def answer(request: LlmRequest) -> Any:
    said = last_words(request)
    return f"Done: {said}" if " said " in said else [call("ask", schema=said)]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server of an agent whose tool asks by the schema that the message is."""
    with serving(app_of(LlmAgent(name="desk", model=FunctionModel(answer), tools=[ask]))) as running:
        yield running


@pytest.mark.parametrize(
    ("schema", "typed", "told"),
    [
        ({"type": ["integer", "null"]}, "4", "'4'"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "4.5", "'4.5'"),
        ({"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}, "Bob", '{"who": "Bob"}'),
        ({"type": "string", "minLength": 2}, "ok", '"ok"'),
    ],
)
def test_a_question_has_a_field_for_what_its_schema_asks(
    opened: Open, schema: dict[str, Any], typed: str, told: str
) -> None:
    """Also for several types, for what may be null, and for objects; what is given has the type that is asked for."""
    page = opened()
    page.say(json.dumps(schema))
    page.find("input-request").get_by_role("textbox").first.fill(typed)
    page.find("reply").click()
    expect(page.messages.last).to_contain_text(told)
    page.rest()


def test_what_a_schema_does_not_allow_is_told_beside_the_field(opened: Open) -> None:
    """And is not sent: the request goes on waiting."""
    page = opened()
    page.say(json.dumps({"type": "integer", "minimum": 3}))
    card = page.find("input-request")
    card.get_by_role("textbox").fill("2")
    page.find("reply").click()
    expect(card).to_contain_text("must be 3 or more")
    card.get_by_role("textbox").fill("3")
    page.find("reply").click()
    expect(page.messages.last).to_contain_text("'3'")
    page.rest()

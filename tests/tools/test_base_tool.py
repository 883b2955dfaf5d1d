"""`BaseTool`: what a tool of one's own may look like."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, call, declarations, requests_of, story

from flowloom import AgentTool, BaseTool, Context
from flowloom.tools import LongRunningFunctionTool


class Own(BaseTool):
    """A tool with attributes of its own, some set before those of the base."""

    def __init__(self, **given: Any) -> None:
        self.declaration = {"mine": 1}
        self.timeout = "soon"
        super().__init__(name="own", description="Mine.", **given)
        self.retries, self.idempotent, self.defers_response = ["a", "b"], None, "no"  # type: ignore[assignment]
        self.close, self.agent = "17:00", None
        self.run, self.model, self.schema, self.options, self.tools, self.session = "abcdef"
        self._declaration, self._declared, self._options = "x", "y", "z"
        self.calls = 0

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=str(self.declaration))

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise OSError("not yet")
        return None if self.calls > 2 else f"{self.timeout}, {self.retries[0]}"


async def test_attributes_of_any_name_are_the_tools_own(caplog: pytest.LogCaptureFixture) -> None:
    """The engine neither minds nor reads them: it goes by what the base was given."""
    tool = Own(retries=1, timeout=5.0)
    root = agent("root", call("own"), call("own"), "done", tools=[tool])
    chat = Chat(root)
    assert story(await chat.say("go")) == [
        "root: own()",
        "root: own -> {'result': 'soon, a'}",
        "root: own()",
        "root: own -> {'result': None}",
        "root: done",
    ]
    await chat.runner.close()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
    assert [each.description for each in declarations(requests_of(root)[0])] == ["{'mine': 1}"]
    assert (tool.declaration, tool.timeout, tool.retries) == ({"mine": 1}, "soon", ["a", "b"])
    assert AgentTool(root).idempotent is AgentTool(agent("once", tools=[Own()])).idempotent is True
    assert (tool._declaration, tool._declared) == ("x", "y")


async def test_a_tool_that_keeps_nothing_of_its_own_shows_what_it_was_given() -> None:
    """By the names of the parameters, and its declaration, which is made once for each name."""
    tool = LongRunningFunctionTool(print_it, timeout=2, retries=3, idempotent=False)
    assert (tool.timeout, tool.retries, tool.idempotent) == (2, 3, False)
    first = tool.declaration
    assert first is tool.declaration
    tool.name = "renamed"
    assert (first and first.name, tool.declaration and tool.declaration.name) == ("print_it", "renamed")


def print_it(text: str) -> None:
    """Print."""


@pytest.mark.parametrize("missing", ["timeout", "retries"])
def test_what_the_base_is_given_is_checked(missing: str) -> None:
    with pytest.raises(ValueError, match=f"`{missing}`"):
        Own(**{missing: -1})

"""`CanonicalForms`: the fields of an agent in one form each, by google-adk's names (spec A2)."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from flowloom.context import ReadonlyContext
from flowloom.context.hooks import as_callbacks
from flowloom.context.protocols import RunnableTool
from flowloom.models.base_llm import BaseLlm
from flowloom.processors.template import Template
from flowloom.processors.tools import is_toolset


def callbacks_of(field: str) -> property:
    """The callbacks of a field as a list, whether it holds none, one or several."""
    return property(lambda agent: list(as_callbacks(getattr(agent, field))), doc=f"`{field}` as a list.")


class CanonicalForms:
    """What an `LlmAgent` was given, in the form that google-adk's code reads it in; the engine itself does not."""

    if TYPE_CHECKING:
        instruction: Any
        global_instruction: Any

        @property
        def canonical_model(self) -> BaseLlm: ...
        @property
        def own_tools(self) -> Sequence[Any]: ...

    canonical_before_model_callbacks = callbacks_of("before_model_callback")
    canonical_after_model_callbacks = callbacks_of("after_model_callback")
    canonical_on_model_error_callbacks = callbacks_of("on_model_error_callback")
    canonical_before_tool_callbacks = callbacks_of("before_tool_callback")
    canonical_after_tool_callbacks = callbacks_of("after_tool_callback")
    canonical_on_tool_error_callbacks = callbacks_of("on_tool_error_callback")

    async def canonical_model_async(self) -> BaseLlm:
        """`canonical_model`. Raises `ModelNotConfiguredError`."""
        return self.canonical_model

    async def canonical_instruction(self, ctx: ReadonlyContext) -> tuple[str, bool]:
        """`instruction` as written, or as its provider gives it; and whether no placeholder in it is filled in."""
        return await _text_of(self.instruction, ctx)

    async def canonical_global_instruction(self, ctx: ReadonlyContext) -> tuple[str, bool]:
        """`global_instruction`, as `canonical_instruction` gives the other."""
        return await _text_of(self.global_instruction, ctx)

    async def canonical_tools(self, ctx: ReadonlyContext | None = None) -> list[RunnableTool]:
        """`own_tools` with each toolset listed: filtered, and with its prefix."""
        tools: list[RunnableTool] = []
        for each in self.own_tools:
            tools += await each.get_tools_with_prefix(ctx) if is_toolset(each) else [each]
        return tools


async def _text_of(instruction: Any, ctx: ReadonlyContext) -> tuple[str, bool]:
    if isinstance(instruction, str | Template):
        return (instruction if isinstance(instruction, str) else instruction.source), False
    given = instruction(ctx)
    return str((await given if isawaitable(given) else given) or ""), True

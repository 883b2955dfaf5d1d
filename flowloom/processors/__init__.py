"""Processors: one file each, and the two default lists.

A processor is any callable `(ctx, request)`; a response processor `(ctx, request, response)`. Sync or async, it
returns nothing, an event, several events, or is an async generator of them.

It imports `tools`, `compaction` and the rooms below. Begin with the lists here, and `instructions.py` as one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flowloom.objects.on_use import homes_of, loaded_on_use
from flowloom.processors.agent_transfer import agent_transfer
from flowloom.processors.auth import auth
from flowloom.processors.basic import basic
from flowloom.processors.code_execution import code_execution, code_execution_response
from flowloom.processors.confirmation import confirmation
from flowloom.processors.contents import Contents
from flowloom.processors.file_uploads import file_uploads
from flowloom.processors.identity import identity
from flowloom.processors.instructions import instructions
from flowloom.processors.output_schema import output_schema
from flowloom.processors.planning import planning, planning_response
from flowloom.processors.template import Template, inject_session_state
from flowloom.processors.tool_declarations import tool_declarations
from flowloom.processors.tools import tools

if TYPE_CHECKING:
    from flowloom.processors.code_executors import (
        BaseCodeExecutor,
        BuiltInCodeExecutor,
        CodeExecutionInput,
        CodeExecutionResult,
        File,
    )
    from flowloom.processors.compaction import Compaction
    from flowloom.processors.context_cache import ContextCaching
    from flowloom.processors.local_code_executor import LocalCodeExecutor
    from flowloom.processors.planners import BasePlanner, BuiltInPlanner, PlanReActPlanner
    from flowloom.processors.window import DropToolPayloads, KeepTurns, TokenWindow

_HOMES = {
    "code_executors": "BaseCodeExecutor BuiltInCodeExecutor CodeExecutionInput CodeExecutionResult File",
    "compaction": "Compaction",
    "context_cache": "ContextCaching",
    "local_code_executor": "LocalCodeExecutor",
    "planners": "BasePlanner BuiltInPlanner PlanReActPlanner",
    "window": "DropToolPayloads KeepTurns TokenWindow",
}

REQUEST_PROCESSORS = (
    basic,  # first: it replaces the config that all others append to
    tools,  # lists toolsets, so that confirmation can dispatch by name
    auth,  # before contents: tools that it resumes append results
    confirmation,  # before contents: the tools that it resumes append results
    instructions,  # the agent's own words come first in the system instruction
    identity,
    Contents(),  # sees what auth and confirmation appended
    planning,  # after contents: it unmarks plans that the history holds as thoughts
    code_execution,  # after contents: it rewrites code and results in them
    output_schema,  # before tool_declarations: set_model_response is declared first
    agent_transfer,  # before tool_declarations: transfer_to_agent is declared next
    tool_declarations,  # the agent's tools; a tool's own hook sees the whole request
    file_uploads,  # last: it must see the final contents
)

RESPONSE_PROCESSORS = (planning_response, code_execution_response)

NEEDS: tuple[tuple[Callable[..., Any], str], ...] = (
    (planning, "planner"),
    (planning_response, "planner"),
    (code_execution, "code_executor"),
    (code_execution_response, "code_executor"),
    (output_schema, "output_schema"),
)
"""Fields of agents: for one that has None there, the processor has nothing to do, and is not called unless the run is
observed at its processors."""
FILES = code_execution_response
"""What saves the files in an answer, for all agents."""

__all__ = [
    "BaseCodeExecutor",
    "BasePlanner",
    "BuiltInCodeExecutor",
    "BuiltInPlanner",
    "CodeExecutionInput",
    "CodeExecutionResult",
    "Compaction",
    "Contents",
    "ContextCaching",
    "DropToolPayloads",
    "File",
    "KeepTurns",
    "LocalCodeExecutor",
    "PlanReActPlanner",
    "REQUEST_PROCESSORS",
    "RESPONSE_PROCESSORS",
    "Template",
    "TokenWindow",
    "agent_transfer",
    "auth",
    "basic",
    "code_execution",
    "code_execution_response",
    "confirmation",
    "file_uploads",
    "identity",
    "inject_session_state",
    "instructions",
    "output_schema",
    "planning",
    "planning_response",
    "tool_declarations",
    "tools",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))

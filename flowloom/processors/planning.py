"""The planning processors: an agent's planner on both sides of the model call (spec §11c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.genai import types

from flowloom.context import Context, InvocationContext, ReadonlyContext
from flowloom.events.event import Event
from flowloom.events.parts import parts_of
from flowloom.events.response import LlmResponse
from flowloom.events.wire import fields_of, replace
from flowloom.models.contents import copy_content, own_content, special_contents
from flowloom.models.request import LlmRequest
from flowloom.objects.on_use import ModuleOnUse

if TYPE_CHECKING:
    from flowloom.processors import planners
else:
    planners = ModuleOnUse("flowloom.processors.planners")  # few agents have one


def planning(ctx: InvocationContext, request: LlmRequest) -> None:
    """The planner's instruction and thinking config; earlier plans as the model's own words.

    Reads: planner of the agent, `contents`.
    Writes: `config.system_instruction`, `config.thinking_config`, `contents[i].parts[j].thought`.
    Must come after: basic (which replaces the config), instructions and identity, contents.
    """
    planner = _planner_of(ctx)
    if planner is None:
        return
    if isinstance(planner, planners.BuiltInPlanner):
        planner.apply_thinking_config(request)
    request.append_instructions(planner.build_planning_instruction(ReadonlyContext(ctx), request) or "")
    if not rewrites_responses(planner):
        return
    for index, content in special_contents(request.contents):
        if any(map(_is_plan, parts_of(content))):
            for part in filter(_is_plan, parts_of(own_content(request.contents, index))):
                part.thought = None


def planning_response(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> Event | None:
    """The response with its plans told apart from its answer, as the planner sees them.

    Reads: planner of the agent, `content`.
    Writes: `content`, as a new one; what the planner writes to state or actions is on the event that it returns.
    Must come after: nothing; before code_execution_response, which runs code that stands under a plan's tags.
    """
    planner, content = _planner_of(ctx), response.content
    if planner is None or content is None or not content.parts:
        return None
    context = Context(ctx)
    # the response may share its parts with what callbacks and telemetry hold, and planners write to parts
    parts = planner.process_planning_response(context, copy_content(content).parts or [])
    if parts:
        response.content = replace(content, parts=parts)
    actions = context.collect_actions()
    if any(fields_of(actions).values()):
        return ctx.new_event({"actions": actions})
    return None


def rewrites_responses(planner: planners.BasePlanner | None) -> bool:
    """Whether a planner marks plans in the text of responses, and does not leave that to the model."""
    if planner is None:
        return False
    return type(planner).process_planning_response is not planners.BuiltInPlanner.process_planning_response


def _planner_of(ctx: InvocationContext) -> planners.BasePlanner | None:
    agent = ctx.llm_agent
    return None if agent is None else agent.planner


def _is_plan(part: types.Part) -> bool:
    """Whether a part was marked by a planner. Only a model signs its thoughts, and wants those back unchanged."""
    return bool(part.thought) and part.thought_signature is None

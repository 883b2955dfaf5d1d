"""The contents processor: the part of the history that the agent is shown (spec §9)."""

from __future__ import annotations

import json

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.protocols import AnyLlmAgent
from flowloom.events.parts import answers_calls, content_of, parts_of, text_part
from flowloom.log.history import Viewer, Visible, visible
from flowloom.models.contents import SharedContents, only_read
from flowloom.models.request import LlmRequest
from flowloom.processors.model_choice import model_of

_NO_REPLIES = (
    "Nobody will answer questions about this task. Finish it with what you have been given, and state the result."
)


class Contents:
    """The history as this agent may see it, other agents' words told as context.

    Reads: the session's events, branch and isolation scope, `include_contents`, `dynamic_instructions`.
    Writes: `contents`.
    Must come after: auth and confirmation, which append events; instructions, which leave dynamic ones.

    `visible` replaces the rule of who sees which event; it must be a pure function.
    """

    name = "contents"

    def __init__(self, visible: Visible = visible) -> None:
        self._visible = visible

    def __repr__(self) -> str:
        return "Contents()" if self._visible is visible else f"Contents(visible={self._visible.__name__})"

    def __call__(self, ctx: InvocationContext, request: LlmRequest) -> None:
        agent = ctx.llm_agent
        if agent is None:
            return
        session, run_config = ctx.run.session, ctx.run.config
        viewer = Viewer(
            agent.name,
            ctx.branch,
            ctx.isolation_scope,
            agent.include_contents == "none" or agent.mode == "single_turn",
            model_of(ctx).keeps_call_ids,
            run_config.include_thoughts_from_other_agents,
        )
        shown = session.history.contents(session.events, viewer, self._visible)
        before = request.contents
        if run_config.model_input_context:
            before = [*before, *run_config.model_input_context]
        if ctx.isolation_scope:
            before = [*before, _task_input(ctx, agent)]
        if not before:
            request.show(shown.contents, shown.special)
        else:
            shift = len(before)
            request.contents = SharedContents(before + shown.contents, [index + shift for index in shown.special])
        if request.dynamic_instructions:
            _insert_before_latest_input(request, "\n\n".join(request.dynamic_instructions))


def _task_input(ctx: InvocationContext, agent: AnyLlmAgent) -> types.Content:
    """What the delegating agent asked for (spec §9.10)."""
    made = ctx.run.ledger.call(ctx.isolation_scope)
    if made is not None and made.call.args and not made.answers:
        parts = [text_part(json.dumps(made.call.args, ensure_ascii=False))]
    else:
        parts = list(parts_of(ctx.user_content))
    if agent.mode == "single_turn":
        parts.append(text_part(_NO_REPLIES))
    return content_of("user", parts)


def _insert_before_latest_input(request: LlmRequest, text: str) -> None:
    """Instructions that change with the turn stand before the latest input, so that what is older stays the same."""
    contents = request.contents
    at, plain = len(contents), only_read(contents)
    while at and (latest := plain[at - 1]).role == "user" and not answers_calls(latest):
        at -= 1
    contents.insert(at, content_of("user", [text_part(text)]))

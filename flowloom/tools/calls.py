"""Running the tool calls of one model answer (spec §14, §15).

This stands below the processors, because a confirmation that a person gave is dispatched by one of them.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from google.genai import types

from flowloom.context import Context, InvocationContext
from flowloom.context.ending import all_of
from flowloom.context.hooks import Callbacks, first_answer
from flowloom.context.origin import note_origin
from flowloom.context.protocols import RunnableTool, as_llm_agent
from flowloom.errors import (
    ConfirmationRejectedError,
    ConfirmationRequiredError,
    CredentialError,
    InputRequiredError,
    JsonDataError,
    PlaceholderError,
    RunLostError,
    ToolArgumentsError,
    ToolError,
    ToolNotFoundError,
    ToolResultError,
    ToolTimeoutError,
    closest_first,
    error_text,
    quoted_list,
)
from flowloom.events.actions import EventActions, ToolConfirmation, merge_actions
from flowloom.events.event import Event
from flowloom.events.json_data import MAX_DEPTH, UNREADABLE, as_json
from flowloom.events.parts import as_object, content_of, response_part, text_part
from flowloom.events.wire import fields_of, set_fields
from flowloom.objects.retrying import retried
from flowloom.telemetry import recorder
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.delegation import NOT_BEGUN, DelegateTool, is_task, task_result
from flowloom.tools.output import AnswerTool

if TYPE_CHECKING:
    from flowloom.telemetry import ToolSpans

_log = logging.getLogger("flowloom.tools")

FIRST_RETRY_SECONDS = 0.1
"""The wait before a tool's first retry; it doubles with every further one."""

_NOT_RETRIED = (
    ToolArgumentsError,
    ToolNotFoundError,
    ConfirmationRequiredError,
    ConfirmationRejectedError,
    InputRequiredError,
    CredentialError,
)


_PLAIN = frozenset((str, int, float, bool, type(None)))
"""Types whose values cannot be changed."""


@dataclass(slots=True, eq=False, repr=False)
class CallResults:
    """What came of the calls of one answer: the event that answers them, and the error that ends the run, if any."""

    event: Event | None
    error: Exception | None = None
    waiting: Sequence[Event] = ()
    """The events of agents that run as tools and wait, so that their calls have no answer yet."""


class Suspended(Exception):
    """Raised by a tool whose call stays open, because what it runs waits; `events` is what the log is to keep of it."""

    def __init__(self, events: list[Event]) -> None:
        super().__init__("The call waits.")
        self.events = events


@dataclass(slots=True, eq=False, repr=False)
class _Answer:
    """What came of one call."""

    part: types.Part | None
    actions: EventActions
    error: Exception | None = None
    """What ends the run."""
    failure: Exception | None = None
    """What the model is told, whether it ends the run or not."""
    display: str | None = None
    """A text put beside the result."""
    metadata: dict[str, Any] | None = None
    """What the event keeps about the result."""
    begun: str | None = None
    """The id of a call that has begun something and is answered later."""
    waiting: Sequence[Event] = ()


async def run_calls(
    ctx: InvocationContext,
    calls: Sequence[types.FunctionCall],
    tools: Mapping[str, RunnableTool],
    confirmations: Mapping[str, ToolConfirmation] | None = None,
    transfer_problem: Callable[[InvocationContext, str], str | None] | None = None,
) -> CallResults:
    """Run `calls` at once, each in its own context, and merge their answers in call order.

    A tool that raises, or returns what JSON cannot hold, answers with `{"error": text}`; the others are kept. The event
    is None when no call has an answer yet. A tool that hands over to an agent for which `transfer_problem` has an
    answer failed, with that answer for an error. Cancellation cancels all calls and returns when they have ended.
    """
    refused = ctx.run.totals.count_tool_calls([call.name or "" for call in calls], ctx)
    decided = confirmations or {}
    first = ctx.count_effects("tool", len(calls))
    telemetry = recorder()
    spans = None if telemetry is None else telemetry.start_tools(ctx, len(calls))
    try:
        begin = _answer if spans is None else partial(_recorded, spans, first)
        works = [
            begin(ctx, call, first + index, tools, decided.get(call.id or ""), refused[index])
            for index, call in enumerate(calls)
        ]
        answers = [await works[0]] if len(works) == 1 else await all_of(works)
        for at, each in enumerate(answers):
            if each.actions.transfer_to_agent is not None:
                answers[at] = _reachable(ctx, each, transfer_problem)
        _refuse_tasks(calls, answers, tools)
        results = _merged(ctx, answers)
        if spans is not None:
            spans.answered([(answer.part, answer.failure) for answer in answers], results.event)
        return results
    finally:
        if spans is not None:
            spans.end()


def _reachable(
    ctx: InvocationContext, answer: _Answer, transfer_problem: Callable[[InvocationContext, str], str | None] | None
) -> _Answer:
    problem = transfer_problem and transfer_problem(ctx, answer.actions.transfer_to_agent or "")
    if problem is None:
        return answer
    answer.actions.transfer_to_agent = None
    if answer.part is None:  # its answer is still to come
        _log.warning("A call of agent `%s` that has no answer yet hands over to no agent: %s", ctx.agent.name, problem)
        return answer
    given = answer.part.function_response if answer.failure is None else None
    return answer if given is None else _Answer(response_part(given.id, given.name, {"error": problem}), answer.actions)


def _refuse_tasks(
    calls: Sequence[types.FunctionCall], answers: list[_Answer], tools: Mapping[str, RunnableTool]
) -> None:
    """Answer the calls of `task` agents, if control goes to another agent now: they are not begun."""
    targets = [each.actions.transfer_to_agent for each in answers if each.actions.transfer_to_agent]
    if not targets or any(each.error for each in answers):
        return
    later = [at for at, each in enumerate(answers) if each.part is None and each.begun is None]
    if all(is_task(tools[calls[at].name or ""]) for at in later):
        for at in later:
            failure = ToolError(NOT_BEGUN.format(targets[-1]))
            part = response_part(calls[at].id, calls[at].name, {"error": str(failure)})
            answers[at] = _Answer(part, answers[at].actions, failure=failure)


def _merged(ctx: InvocationContext, answers: list[_Answer]) -> CallResults:
    parts: list[types.Part] = []
    error: Exception | None = None
    waiting: list[Event] = []
    actions: EventActions | None = None
    kept: dict[str | None, dict[str, Any]] = {}
    for answer in answers:
        if answer.part is not None:
            parts.append(answer.part)
            if answer.metadata is not None and answer.part.function_response is not None:
                kept[answer.part.function_response.id] = answer.metadata
        if not answer.waiting:  # what an agent has changed stands on its own events
            actions = merge_actions(actions, answer.actions)
        if answer.display is not None:
            parts.append(text_part(answer.display))
        waiting.extend(answer.waiting)
        error = error or answer.error
    if actions is None or not (parts or any(fields_of(actions).values())):
        return CallResults(None, waiting=waiting)
    if not parts:  # calls that have no answer yet have begun work that outlives the run
        begun = [answer.begun for answer in answers if answer.begun is not None]
        return CallResults(ctx.new_event({"actions": actions, "long_running_tool_ids": begun or None}), waiting=waiting)
    if 0 < len(actions.requested_tool_confirmations) < sum(answer.part is not None for answer in answers):
        # only the calls that wait have nothing to sum up
        actions.skip_summarization = (
            any(
                answer.actions.skip_summarization and not answer.actions.requested_tool_confirmations
                for answer in answers
            )
            or None
        )
    results = ctx.new_event({"content": content_of("user", parts), "actions": actions})
    if kept:
        set_fields(results, custom_metadata={"tool_metadata": as_json(kept)})
    if actions.set_model_response is not None:
        set_fields(results, output=task_result(results))
    return CallResults(results, error, waiting)


async def _recorded(
    spans: ToolSpans,
    first: int,
    ctx: InvocationContext,
    call: types.FunctionCall,
    index: int,
    tools: Mapping[str, RunnableTool],
    confirmation: ToolConfirmation | None,
    refusal: str | None,
) -> _Answer:
    with spans.start(index - first, call, tools.get(call.name or "")):
        return await _answer(ctx, call, index, tools, confirmation, refusal)


async def _answer(
    ctx: InvocationContext,
    call: types.FunctionCall,
    index: int,
    tools: Mapping[str, RunnableTool],
    confirmation: ToolConfirmation | None,
    refusal: str | None,
) -> _Answer:
    name = call.name or ""
    tool = tools.get(name)
    if tool is None:
        tool = BaseTool(name=name or "unknown", description="")
    context = Context(ctx, function_call_id=call.id, tool_confirmation=confirmation, call_index=index)
    result: Any = None
    error: Exception | None = None
    if refusal is not None:
        error = ToolError(refusal)
    else:
        args = _own_args(call.args)
        misfit = _unreadable(name, args) if name in tools else _unknown(name, tools)
        if misfit is not None:
            result, error = await _on_error(ctx, tool, args, context, misfit)
        else:
            try:
                result, error = await _call_tool(ctx, tool, args, context)
            except Suspended as suspended:
                kept = {event.id: event for event in suspended.events}
                ctx.run.undelivered_events = (ctx.run.undelivered_events or {}) | kept
                return _Answer(None, _collected(context)[0], waiting=suspended.events)
    actions, wrong = _collected(context)
    error = error or wrong
    if error is None and result is None and (tool.is_long_running or tool.defers_response is True):
        if isinstance(tool, DelegateTool):
            response = None if ctx.delegate is None else await ctx.delegate(call, index)
            return _Answer(None if response is None else response_part(call.id, call.name, response), actions)
        ctx.run.leave_open(call.id)
        return _Answer(None, actions, begun=call.id)
    if error is None:
        try:
            result = as_json(result)
        except JsonDataError as unfit:
            error = ToolResultError(
                f"Tool `{tool.name}` has run, but its result cannot be kept as JSON: {unfit}. What the call was to "
                f"change is perhaps done."
            )
            error.__cause__ = unfit
    if error is not None:
        _report(ctx, tool, call, error)
        part = response_part(call.id, call.name, {"error": as_json(error_text(error))})
        return _Answer(part, actions, error if _raises(ctx, error) else None, error)
    display = None
    if context.display and result:
        display = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    part = response_part(call.id, call.name, as_object(result, "result"))
    if context.files and part.function_response is not None:
        set_fields(part.function_response, parts=context.files)
    return _Answer(part, actions, display=display, metadata=context.metadata)


def _report(ctx: InvocationContext, tool: RunnableTool, call: types.FunctionCall, error: Exception) -> None:
    """Log a tool that failed, with its traceback; what is a model's or a person's doing is a line without its text."""
    where = (tool.name, call.id, ctx.step, ctx.agent.name)
    if isinstance(error, _NOT_RETRIED) or (type(error) is ToolError and error.__traceback__ is None):
        _log.debug("Tool `%s` (call %s, step %d of agent `%s`) gave %s.", *where, type(error).__name__)
    else:
        _log.warning("Tool `%s` (call %s, step %d of agent `%s`) failed.", *where, exc_info=error)


def _collected(context: Context) -> tuple[EventActions, Exception | None]:
    """What the call has written, and what is wrong with what it wrote; that is taken out."""
    try:
        return context.collect_actions(), None
    except Exception as error:  # of a value that cannot be kept, or of one that fails when it is compared
        return context.actions, error


def _own_args(args: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments as callbacks and the tool may change them; the history keeps what the model said."""
    args = args or {}
    for value in args.values():
        if type(value) not in _PLAIN:
            return copy.deepcopy(args)
    return args.copy()


def _unreadable(name: str, args: dict[str, Any]) -> ToolArgumentsError | None:
    """The error for arguments that were no JSON object that can be kept; None for others."""
    text = args.get(UNREADABLE) if len(args) == 1 else None
    if not isinstance(text, str):
        return None
    try:
        written = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = f"are not JSON: {error}"
    else:
        why = f"are no JSON object, but of type {type(written).__name__}"
        if isinstance(written, dict):
            why = f"are nested deeper than {MAX_DEPTH} levels, or hold what JSON cannot"
    return ToolArgumentsError(
        f"The arguments of `{name}` {why}. The call was not made: give its arguments as one JSON object, each under "
        f"the name of a parameter. They came as: {text[:200]}"
    )


def _raises(ctx: InvocationContext, error: Exception) -> bool:
    """Whether an error ends the run instead of being the model's to see (decision 8)."""
    if isinstance(error, PlaceholderError) or error is ctx.run.totals.reached:
        return True
    agent = as_llm_agent(ctx.agent)
    policy = (agent.tool_errors if agent is not None else None) or ctx.run_config.tool_errors
    return policy == "raise" and not isinstance(error, _NOT_RETRIED)


def _unknown(name: str, tools: Mapping[str, RunnableTool]) -> ToolNotFoundError:
    names = closest_first(name, tools)
    return ToolNotFoundError(
        f"There is no tool `{name}`. Available tools: {quoted_list(names)}. The name may be invented or mistyped: "
        f"call one of the available tools, or answer without a tool."
    )


async def _call_tool(
    ctx: InvocationContext, tool: RunnableTool, args: dict[str, Any], context: Context
) -> tuple[Any, Exception | None]:
    """Callbacks before, the tool, callbacks on error and after (spec §14.4)."""
    plugins, own = ctx.run.hooks, ctx.callbacks
    result: Any = None
    error: Exception | None = None
    if plugins.before_tool or own.before_tool:
        result, error = await _ask(plugins.before_tool, tool=tool, tool_args=args, tool_context=context)
        if result is None and error is None:
            result, error = await _ask(own.before_tool, tool=tool, args=args, tool_context=context)
    if result is None and error is None:
        try:
            options = tool.__options__
            if options.timeout is None and not options.retries and not own.around_tool:
                if ctx.run.session.fence is not None:
                    await ctx.run.check_lease()
                result = await ctx.effects.call_tool(ctx, tool, args, context)
            else:
                result = await _run_tool(ctx, tool, args, context)
        except Suspended:
            raise
        except Exception as raised:
            if isinstance(raised, RunLostError) and ctx.run.lost:
                raise
            note_origin(raised, ctx, f"tool `{tool.name}`", own.around_tool)
            error = raised
    if error is not None:
        result, error = await _on_error(ctx, tool, args, context, error)
    if plugins.after_tool or own.after_tool:
        seen = {"error": error_text(error)} if error is not None else result
        new, failed = await _ask(plugins.after_tool, tool=tool, tool_args=args, tool_context=context, result=seen)
        if new is None and failed is None:
            new, failed = await _ask(own.after_tool, tool=tool, args=args, tool_context=context, tool_response=seen)
        if failed is not None:
            return None, failed
        if new is not None:
            result, error = new, None
    if isinstance(tool, AnswerTool) and context.actions.set_model_response is None:
        tool.take(result, context)
    return result, error


async def _on_error(
    ctx: InvocationContext, tool: RunnableTool, args: dict[str, Any], context: Context, error: Exception
) -> tuple[Any, Exception | None]:
    plugins, own = ctx.run.hooks.on_tool_error, ctx.callbacks.on_tool_error
    result, failed = await _ask(plugins, tool=tool, tool_args=args, tool_context=context, error=error)
    if result is None and failed is None:
        result, failed = await _ask(own, tool=tool, args=args, tool_context=context, error=error)
    if failed is not None:
        return None, failed
    return (result, None) if result is not None else (None, error)


async def _ask(callbacks: Callbacks, **arguments: Any) -> tuple[Any, Exception | None]:
    """The first answer or error of some callbacks."""
    try:
        return await first_answer(callbacks, **arguments), None
    except Exception as error:
        return None, error


async def _run_tool(ctx: InvocationContext, tool: RunnableTool, args: dict[str, Any], context: Context) -> Any:
    """The tool with its wrappers, the first outermost."""

    async def call_next(given: dict[str, Any]) -> Any:
        return await _attempts(ctx, tool, given, context)

    for wrapper in reversed(ctx.callbacks.around_tool):
        call_next = _wrapped(wrapper, call_next, tool, context)
    return await call_next(args)


def _wrapped(wrapper: Any, call_next: Any, tool: RunnableTool, context: Context) -> Any:
    async def call(args: dict[str, Any]) -> Any:
        def inner(new_args: dict[str, Any] | None = None) -> Any:
            return call_next(args if new_args is None else new_args)

        return await wrapper(call_next=inner, tool=tool, args=args, tool_context=context)

    return call


async def _attempts(ctx: InvocationContext, tool: RunnableTool, args: dict[str, Any], context: Context) -> Any:
    """One call, within its time, as often as its retries allow."""
    options = tool.__options__

    async def attempt(_: int) -> Any:
        _count_attempt(ctx, context)
        await ctx.run.check_lease()
        return await _timed(ctx, tool, args, context, options.timeout)

    def pause_after(number: int, error: Exception) -> float | None:
        if isinstance(error, (Suspended, *_NOT_RETRIED)) or error is ctx.run.totals.reached or ctx.run.lost:
            return None
        if number > options.retries:
            return None
        _log.info("Tool `%s` failed (%s); attempt %d follows.", tool.name, error_text(error), number + 1)
        return FIRST_RETRY_SECONDS * 2.0 ** min(number - 1, 64)  # a larger exponent overflows to an error

    return await retried(attempt, pause_after, lambda seconds: ctx.effects.sleep(context.inside, seconds))


def _count_attempt(ctx: InvocationContext, context: Context) -> None:
    """Each try of a call has an effect key of its own, also those that a wrapper asks for."""
    place = (ctx.path, ctx.step, "tool", context.call_index)
    tried = ctx.run.attempts = ctx.run.attempts or {}
    tried[place] = tried.get(place, -1) + 1


async def _timed(
    ctx: InvocationContext, tool: RunnableTool, args: dict[str, Any], context: Context, seconds: float | None
) -> Any:
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await ctx.effects.call_tool(ctx, tool, args, context)
    except TimeoutError as error:
        if not limit.expired():
            raise  # the tool's own
        raise ToolTimeoutError(f"Tool `{tool.name}` gave no result within {seconds:g} seconds.") from error

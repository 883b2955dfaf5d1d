"""The calls of an agent that an earlier run of the invocation has left without a result (decision 28)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.protocols import RunnableTool
from flowloom.events.actions import EventActions, ToolConfirmation
from flowloom.events.event import UNFIT_OUTPUT, Event
from flowloom.events.parts import content_of, parts_of, response_part
from flowloom.events.requests import CREDENTIAL_CALL, is_request
from flowloom.events.wire import make
from flowloom.log.answers import subjects_of
from flowloom.log.ledger import CallRecord, Place
from flowloom.log.marks import REPEATED, tells_of_end
from flowloom.models.request import LlmRequest
from flowloom.processors.agent_transfer import agent_transfer, transfer_problem
from flowloom.processors.output_schema import output_schema, refusal_in, retry_event
from flowloom.tools.calls import CallResults, run_calls
from flowloom.tools.confirmation import follow_ups
from flowloom.tools.delegation import DelegateTool, task_result

_TWICE = (
    "This call was interrupted twice. Whether it took effect is not known, and it is not made again: find out, or ask."
)


@dataclass(slots=True, eq=False, repr=False)
class Unfinished:
    """What there is to do: events to yield first, and calls to run."""

    events: list[Event] = field(default_factory=list[Event])
    calls: list[types.FunctionCall] = field(default_factory=list[types.FunctionCall])


def unfinished_calls(ctx: InvocationContext) -> Unfinished:
    """What the agent has called in its turn, and has no answer; or what should have followed its results.

    Calls that wait stay as they are: long-running ones, and agents as tools whose own questions are open.
    """
    ledger = ctx.run.ledger
    here, said = ctx.place, ledger.events_of(ctx.invocation_id)
    own = [event for event in said if here.holds(Place.of(event)) and not tells_of_end(event)]
    tools = _tools_of(ctx)
    events = _missing_follow_ups(ctx, own)
    made = [each.call for each in ledger.unfinished(ctx.invocation_id, ctx.place) if not _waits(ctx, each, tools)]
    again = made_again(ctx, made)
    return Unfinished(events + again.events, again.calls)


def pending_follow_ups(own: Sequence[Event]) -> Iterator[tuple[Event, set[str | None]]]:
    """The results of an agent's tools after which something should have come that did not, the latest first; and what
    was asked about or answered since."""
    since: set[str | None] = set()
    for event in reversed(own):
        actions = event.actions
        wanted: set[str | None] = {*actions.requested_tool_confirmations, *(actions.requested_inputs or ())}
        if actions.requested_auth_configs:
            wanted.add(CREDENTIAL_CALL)
        answers = actions.set_model_response is not None and task_result(event) is None
        if not wanted <= since or (answers and event is own[-1]):
            yield event, set(since)
        since |= _asked_about(event)
        since.update(answer.id for answer in event.get_function_responses())


def _asked_about(event: Event) -> set[str | None]:
    """What an event asks people about; a credential is one for several calls."""
    asks = any(call.name == CREDENTIAL_CALL and is_request(event, call) for call in event.get_function_calls())
    return {*subjects_of(event), CREDENTIAL_CALL} if asks else subjects_of(event)


def _missing_follow_ups(ctx: InvocationContext, own: Sequence[Event]) -> list[Event]:
    """What should have followed the agent's results."""
    missing: list[Event] = []
    if own and UNFIT_OUTPUT in (own[-1].custom_metadata or ()) and refusal_in(own[-1]) is not None:
        missing.append(retry_event(ctx, own[-1]))
    made = [part for event in own for part in parts_of(event.content)]
    for results, since in pending_follow_ups(own):
        for event in follow_ups(ctx, made, results):
            asked = _asked_about(event)
            if not asked or not asked <= since:
                missing.append(event)
    return missing


def made_again(ctx: InvocationContext, calls: Sequence[types.FunctionCall]) -> Unfinished:
    """Calls of earlier runs. One whose tool is not idempotent is made twice at most; an event says so before it is."""
    tools, in_vain = _tools_of(ctx), _answered_in_vain(ctx)
    marked: list[str] = []
    given_up: list[types.FunctionCall] = []
    found = map(ctx.run.ledger.call, (call.id for call in calls))
    for made in (each for each in found if each is not None and each.name in tools):
        once_only = not tools[made.name].__options__.idempotent and made.id not in in_vain
        if once_only and made.attempts > 1:
            given_up.append(made.call)
        elif once_only or (tools[made.name].is_long_running and not made.attempts):
            marked.append(made.id)  # a long-running tool may give no result yet, so that nothing else tells
    refused = {call.id for call in given_up}
    result = Unfinished(calls=[call for call in calls if call.id not in refused])
    if marked:
        result.events.append(ctx.new_event({"actions": make(EventActions, agent_state={REPEATED: marked})}))
    if given_up:
        parts = [response_part(call.id, call.name, {"error": _TWICE}) for call in given_up]
        result.events.append(ctx.new_event({"content": content_of("user", parts)}))
    return result


async def run_again(
    ctx: InvocationContext, calls: Sequence[types.FunctionCall], decisions: Mapping[str, ToolConfirmation]
) -> CallResults:
    """Run calls of earlier steps. They count as open until their results are recorded, so that an interrupted one is
    not forgotten."""
    for call in calls:
        ctx.run.begin_again(call.id or "")
    tools = _tools_of(ctx)
    if any(call.name not in tools for call in calls):  # the tools of the flow itself are declared further down only
        request = LlmRequest.empty(None)
        output_schema(ctx, request)
        agent_transfer(ctx, request)
        tools = {**request.tools_dict, **tools}
    return await run_calls(ctx, calls, tools, decisions, transfer_problem)


def after_results(ctx: InvocationContext, calls: Sequence[types.FunctionCall], results: CallResults) -> Iterator[Event]:
    """What comes behind the results of calls that ran again: what is asked, what waits; raises what ends the run."""
    if results.event is not None:
        yield from follow_ups(ctx, [types.Part(function_call=call) for call in calls], results.event)
    yield from results.waiting
    if results.error is not None:
        raise results.error


def _answered_in_vain(ctx: InvocationContext) -> set[str]:
    """The calls of agents that the message of this run answers, of whose answers none counts: they wait on, so that
    nothing is made again in them."""
    ledger, progress, at = ctx.run.ledger, ctx.run.progress, ctx.run.answering_message()
    if progress is None or not progress.fresh or at is None:
        return set()
    message = ctx.session.events[at].id
    suspended = [made for made in map(ledger.call, progress.answered) if made is not None and made.suspended]
    return {
        made.id
        for made in suspended
        if all(answer.event.id != message for each in ledger.inside(made.id) for answer in each.answers)
    }


def _tools_of(ctx: InvocationContext) -> dict[str, RunnableTool]:
    """The agent's tools by name; none in a flow that resolves none."""
    return {tool.name: tool for tool in ctx.tools or ()}


def _waits(ctx: InvocationContext, made: CallRecord, tools: Mapping[str, RunnableTool]) -> bool:
    """Whether the answer comes from elsewhere: the user, a sub-agent that was delegated to, or an agent that waits."""
    tool = tools.get(made.name)
    if isinstance(tool, DelegateTool):
        return True
    if made.suspended:
        progress = ctx.run.progress
        return progress is None or not (progress.was_answered(made.id) or ctx.run.ledger.is_ready(made.id))
    if tool is None:  # what the client has declared is the client's to execute
        wanted = ctx.run.config.pause_on_tool_calls
        return made.is_of_stopped_run and isinstance(wanted, list) and made.name in wanted
    return tool.is_long_running and made.kind == "client" and made.attempts > 0

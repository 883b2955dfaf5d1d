"""The auth processor: running the tool calls that waited for a credential, once the user has answered."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from google.genai import types

from flowloom.auth.answers import RECEIVED, AuthAnswer
from flowloom.context import Context, InvocationContext
from flowloom.events.event import Event
from flowloom.events.requests import CREDENTIAL_CALL, is_request
from flowloom.models.request import LlmRequest
from flowloom.processors.agent_transfer import transfer_problem
from flowloom.processors.unfinished import Unfinished, after_results, made_again, reopen
from flowloom.tools.calls import run_calls
from flowloom.tools.pending import Decided, decided_calls


class _Request(NamedTuple):
    """A request for a credential: where in the log it is, what was asked, and the calls that wait for it."""

    id: str
    place: int
    first: str
    config: dict[str, Any]
    calls: list[types.FunctionCall]


def auth(ctx: InvocationContext, request: LlmRequest) -> AsyncGenerator[Event, None] | None:
    """Run the tool calls whose requests for a credential the user's message answers, in the order asked.

    What was answered goes to the run's keyring, where the tools find it; a call whose answer was lost asks again.

    Reads: the session's events back to the calls that wait; the run's keyring; `ctx.tools`.
    Writes: events: the tools' results, and what follows from them (another request, a final answer).
    Must come after: tools; before contents, which shows the results.

    Only requests that this agent made count, and only for calls of its own that have no result since.
    """
    agent = ctx.llm_agent
    if agent is None:
        return None
    at = ctx.run.answering_message()
    if at is None:
        return None
    events = ctx.session.events
    answers = _answers(events[at])
    if not answers or not ctx.once(f"credentials of {events[at].id}"):
        return None
    requests = _requests(events, at, agent.name, answers)
    return _resume(ctx, requests, answers, at) if requests else None


def _answers(event: Event) -> dict[str, types.FunctionResponse]:
    parts = (event.content.parts if event.content is not None else None) or ()
    found: dict[str, types.FunctionResponse] = {}
    for part in parts:
        answer = part.function_response
        if answer is not None and answer.name == CREDENTIAL_CALL and answer.id:
            found[answer.id] = answer
    return found


def _requests(events: Sequence[Event], at: int, agent: str, answers: Collection[str]) -> list[_Request]:
    """The answered requests of this agent whose calls wait still, in the order asked; none whose id stands for two."""
    asked: dict[str, _Request] = {}
    conflicting: set[str] = set()
    for index in range(at):
        for call in events[index].get_function_calls() if events[index].author == agent else ():
            if call.name != CREDENTIAL_CALL or not is_request(events[index], call) or call.id not in answers:
                continue
            request = _read(call, index)
            if request is None:
                continue
            before = asked.setdefault(request.id, request)
            if (before.first, before.config) != (request.first, request.config):
                conflicting.add(request.id)
    found: list[_Request] = []
    taken: set[str] = set()
    for request in asked.values():
        if request.id in conflicting:
            continue
        waiting = [call_id for call_id in _waiting(events, at, agent, request) if call_id not in taken]
        taken.update(waiting)
        calls = _calls(events[: request.place], agent, waiting)
        if calls:
            found.append(request._replace(calls=calls))
    return found


def _read(call: types.FunctionCall, index: int) -> _Request | None:
    args = call.args or {}
    first, config = args.get("functionCallId"), args.get("authConfig")
    if not isinstance(first, str) or not _key_of(config):
        return None
    return _Request(call.id or "", index, first, cast(dict[str, Any], config), [])


def _waiting(events: Sequence[Event], at: int, agent: str, request: _Request) -> list[str]:
    """Ids of the calls that wait for a request: all that asked for its credential in that step, and have no result."""
    ids = [request.first]
    for event in reversed(events[: request.place]):
        asked = event.actions.requested_auth_configs
        if event.author == agent and request.first in asked:
            ids = [call_id for call_id, config in asked.items() if _key_of(config) == _key_of(request.config)]
            break
    answered = {
        response.id
        for index in range(request.place + 1, len(events))
        if index >= at or events[index].author == agent
        for response in events[index].get_function_responses()
    }
    return [call_id for call_id in ids if call_id not in answered]


def _key_of(config: Any) -> Any:
    return cast(dict[str, Any], config).get("credentialKey") if isinstance(config, dict) else None


def _calls(events: Sequence[Event], agent: str, ids: Collection[str]) -> list[types.FunctionCall]:
    """The agent's calls of these ids, in call order; the latest, for an id used twice."""
    found: dict[str, types.FunctionCall] = {}
    for event in reversed(events):
        if len(found) == len(ids):
            break
        for call in reversed(event.get_function_calls()) if event.author == agent else ():
            if call.id and call.id in ids and call.id not in found:
                found[call.id] = call
    return list(reversed(found.values()))


def _said(events: Sequence[Event], at: int, agent: str, calls: Sequence[types.FunctionCall]) -> dict[str, Decided]:
    """What people have decided about these calls before, and need not be asked again."""
    ids = {call.id for call in calls}
    found: dict[str, Decided] = {}
    for index in range(at - 1, -1, -1):
        event = events[index]
        if len(found) == len(ids) or not ids.isdisjoint(call.id for call in event.get_function_calls()):
            break
        if event.author == "user" and event.get_function_responses():
            for item in decided_calls(events[: index + 1], index, agent):
                if item.call.id in ids:
                    found.setdefault(item.call.id or "", item)
    return found


async def _resume(
    ctx: InvocationContext, requests: list[_Request], answers: Mapping[str, types.FunctionResponse], at: int
) -> AsyncGenerator[Event, None]:
    run = ctx.run
    for request in requests:
        answer = run.keyring.take(request.id)
        stored = answers[request.id].response or {}
        if answer is None and stored != RECEIVED:  # a message that no runner has taken in
            answer = AuthAnswer(request.id, stored)
        if answer is not None:
            run.keyring.give(request.config, answer, [call.id or "" for call in request.calls])
    calls = [call for request in requests for call in request.calls]
    said = _said(ctx.session.events, at, ctx.agent.name, calls)
    run.inputs = (run.inputs or {}) | {call_id: item.inputs for call_id, item in said.items()}
    again = Unfinished(calls=[said[call.id].call if call.id in said else call for call in calls])
    if run.progress is not None and run.progress.interrupted:
        again = made_again(ctx, again.calls)
    for event in again.events:
        yield event
    if again.calls:
        async for event in _run(ctx, again.calls, said):
            yield event


async def _run(
    ctx: InvocationContext, calls: Sequence[types.FunctionCall], said: Mapping[str, Decided]
) -> AsyncGenerator[Event, None]:
    run = ctx.run
    reopen(ctx, calls)
    tools = {tool.name: tool for tool in ctx.tools or ()}
    decisions = {call_id: item.confirmation for call_id, item in said.items() if item.confirmation is not None}
    try:
        results = await run_calls(ctx, calls, tools, decisions, transfer_problem)
    finally:
        await run.keyring.save_new(Context(ctx), run.credential_service)
    if results.event is not None:
        yield results.event
    for event in after_results(ctx, calls, results):
        yield event

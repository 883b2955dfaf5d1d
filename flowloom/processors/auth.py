"""The auth processor: running the tool calls that waited for a credential, once the user has answered."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from google.genai import types

from flowloom.auth.answers import RECEIVED, AuthAnswer
from flowloom.context import Context, InvocationContext
from flowloom.events.event import Event
from flowloom.events.requests import CREDENTIAL_CALL
from flowloom.log.ledger import CallLedger, CallRecord
from flowloom.models.request import LlmRequest
from flowloom.processors.unfinished import Unfinished, after_results, made_again, run_again
from flowloom.tools.pending import Decided, decision_about, stands_for_two


class _Request(NamedTuple):
    """A request for a credential, and the calls that wait for it."""

    id: str
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
    agent, at = ctx.llm_agent, ctx.run.answering_message()
    if agent is None or at is None:
        return None
    events = ctx.session.events
    answers = _answers(events[at])
    if not answers or not ctx.once(f"credentials of {events[at].id}"):
        return None
    requests = _requests(ctx.run.ledger, agent.name, answers)
    return _resume(ctx, requests, answers) if requests else None


def _answers(event: Event) -> dict[str, types.FunctionResponse]:
    return {each.id: each for each in event.get_function_responses() if each.name == CREDENTIAL_CALL and each.id}


def _requests(ledger: CallLedger, agent: str, answers: Collection[str]) -> list[_Request]:
    """The answered requests of this agent whose calls wait still, in the order asked; none whose id stands for two."""
    asked = [made for made in map(ledger.call, answers) if made is not None and made.kind == "credential"]
    found: list[_Request] = []
    taken: set[str] = set()
    for made in sorted(asked, key=lambda made: made.since):
        read = _read(made)
        if made.author != agent or read is None or stands_for_two(made, _read):
            continue
        first, config = read
        waiting = [
            each for each in _waiting(ledger, made, first, config) if each.author == agent and each.id not in taken
        ]
        taken.update(each.id for each in waiting)
        if waiting:
            calls = [each.call for each in sorted(waiting, key=lambda each: each.since)]
            found.append(_Request(made.id, config, calls))
    return found


def _read(request: CallRecord) -> tuple[str, dict[str, Any]] | None:
    """The first call that a request is for, and what it asks for; None if it cannot be read."""
    args = request.call.args or {}
    first, config = args.get("functionCallId"), args.get("authConfig")
    if not isinstance(first, str) or not _key_of(config):
        return None
    return first, cast(dict[str, Any], config)


def _waiting(ledger: CallLedger, request: CallRecord, first: str, config: dict[str, Any]) -> list[CallRecord]:
    """The calls that wait for a request: all that asked for its credential in that step, and have no result since."""
    ids, made = [first], ledger.call(first)
    for answer in reversed(() if made is None else made.answers):
        asked = answer.event.actions.requested_auth_configs
        if answer.since < request.since and first in asked:
            ids = [call_id for call_id, each in asked.items() if _key_of(each) == _key_of(config)]
            break
    found = [made for made in map(ledger.call, ids) if made is not None]
    return [made for made in found if all(answer.since < request.since for answer in made.answers)]


def _key_of(config: Any) -> Any:
    return cast(dict[str, Any], config).get("credentialKey") if isinstance(config, dict) else None


async def _resume(
    ctx: InvocationContext, requests: list[_Request], answers: Mapping[str, types.FunctionResponse]
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
    decisions = ((call.id or "", decision_about(run.ledger, call.id, ctx.place)) for call in calls)
    said = {call_id: item for call_id, item in decisions if item is not None}
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
    decisions = {call_id: item.confirmation for call_id, item in said.items() if item.confirmation is not None}
    try:
        results = await run_again(ctx, calls, decisions)
    finally:
        await run.keyring.save_new(Context(ctx), run.credential_service)
    if results.event is not None:
        yield results.event
    for event in after_results(ctx, calls, results):
        yield event

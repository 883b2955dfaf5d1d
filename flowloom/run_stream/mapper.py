"""A run as typed events for user interfaces: a pure mapping from ADK's events.

    mapper = RunStreamMapper()
    for event in events:               # of a live run, partial ones included, or stored ones
        for typed in mapper.feed(event):
            ...
    mapper.finish()                    # what is still open

No character is given twice: partial events give deltas, and the complete event that repeats them what was not shown
yet.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.genai import types

from flowloom.events.event import Event, asks_again
from flowloom.events.parts import parts_of
from flowloom.events.requests import is_request, looks_like_request
from flowloom.events.wire import fields_of
from flowloom.models.server_parts import code_run, server_run
from flowloom.objects.given import events_given
from flowloom.run_stream.agents import AgentTurns, Out, Speaker, UniqueIds
from flowloom.run_stream.calls import HIDDEN_CALLS, Call, ToolCalls
from flowloom.run_stream.records import (
    AgentTransferred,
    ErrorReported,
    MessageCompleted,
    RunFailed,
    RunFinished,
    RunStarted,
    RunStatus,
    RunStreamEvent,
    StateChanged,
    TextDelta,
    ThoughtDelta,
    TokenUsage,
    UsageReported,
)

PARENT_CALL = "agent_tool_call_id"
"""In `custom_metadata`: the event is one of an agent that runs as a tool, for that call. What is shown of it live
counts as partial; what the log keeps, because the agent waits, does not, and is in the scope of the call."""
PARENT_PARTIAL = "agent_tool_partial"
"""Beside it: whether the event was partial in the agent's own run."""
TOOL_PROGRESS = "tool_progress"
"""In `custom_metadata` of a partial event: how far a call is."""
RUN_ENDED = "run_ended"
"""In `custom_metadata`: the event is the last of its run, which ended with that status."""

_STATUSES: dict[str, RunStatus] = {
    "final": "final",
    "paused": "paused",
    "limit": "limit",
    "cancelled": "cancelled",
    "failed": "failed",
}
_NO_TOKENS = TokenUsage()
_NO_AUTHORS = ("", "user")


def run_stream_of(events: Iterable[Event]) -> Iterator[RunStreamEvent]:
    """The typed events of stored `events`, or of a run that was collected; each invocation is a run.

    Raises `InputValidationError` for what is no list of events, a session for one.
    """
    mapper = RunStreamMapper()
    for event in events_given(events, "run_stream_of"):
        yield from mapper.feed(event)
    yield from mapper.finish()


class _Message:
    """A message that is being streamed, and the calls that were streamed with it."""

    __slots__ = ("calls", "event_id", "id", "speaker", "texts", "thoughts")

    def __init__(self, message_id: str, speaker: Speaker) -> None:
        self.id = message_id
        self.event_id = ""
        """The latest event of it, for agents that run as tools."""
        self.speaker = speaker
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[Call] = []


class RunStreamMapper:
    """Turns the events of a run, or of several after each other, into typed ones. Nothing it is fed makes it raise.

    Every run begins with `RunStarted` and ends with `RunFinished`. A change of the invocation ends a run and begins
    the next, and so does `feed` after `finish`.
    """

    __slots__ = ("_calls", "_error", "_heard", "_ids", "_invocation", "_open", "_plain", "_total", "_turns")

    def __init__(self) -> None:
        self._invocation: str | None = None
        """The invocation of the run; None between runs."""
        self._plain: str | None = None
        """The same, unless there is something to be done before the next delta."""
        self._open: dict[Speaker, _Message] = {}
        self._turns = AgentTurns(self._open.__contains__)
        self._calls = ToolCalls()
        self._ids = UniqueIds()
        self._total = _NO_TOKENS
        self._error: Event | None = None
        """An error event that ends the run, if nothing comes after it."""
        self._heard: set[str] = set()
        """Complete events of agents that run as tools: the log may keep what was shown before."""

    def start(self, invocation_id: str = "") -> list[RunStreamEvent]:
        """Begin the run `invocation_id` before its first event is there; ends the one before."""
        out: Out = []
        self._end(None, None, None, out)
        self._begin(invocation_id, out)
        return out

    def feed(self, event: Event) -> list[RunStreamEvent]:
        """What an event says. A delta costs about 1 µs, whatever came before."""
        if event.partial and not event.custom_metadata and event.invocation_id == self._plain:
            message = self._open.get((event.author, event.branch, event.isolation_scope, None))
            content = event.content
            if message is not None and content is not None:
                parts = content.parts
                if parts is not None and len(parts) == 1:
                    part = parts[0]
                    text = part.text
                    if text:
                        if part.thought:
                            message.thoughts.append(text)
                            return [ThoughtDelta(message.id, text, event.author, event.branch)]
                        message.texts.append(text)
                        return [TextDelta(message.id, text, event.author, event.branch)]
        out: Out = []
        self._take(event, out)
        return out

    def finish(self, status: RunStatus | None = None, error: BaseException | None = None) -> list[RunStreamEvent]:
        """End the run: finish what is open. Without a run nothing happens, save that a run may fail before it begins.

        Without a `status` it is told from what came: `failed` after an `error` or an error event, `paused` if
        something waits for an answer, else `final`.
        """
        out: Out = []
        if self._invocation is None and self._calls.run == 0 and (status is not None or error is not None):
            self._begin("", out)
        if error is not None:
            self._end(status or "failed", type(error).__name__, str(error), out)
        else:
            self._end(status, None, None, out)
        return out

    def break_off(self) -> list[RunStreamEvent]:
        """What is being said comes to no end: whoever goes on with the run says it anew, under other ids."""
        out: Out = []
        for message in list(self._open.values()):
            self._break_off(message, out)
        return out

    # -- runs ----------------------------------------------------------------------------------------

    def _begin(self, invocation_id: str, out: Out) -> None:
        self._invocation = self._plain = invocation_id
        self._total = _NO_TOKENS
        self._calls.run += 1
        out.append(RunStarted(invocation_id))

    def _end(self, status: RunStatus | None, code: str | None, told: str | None, out: Out) -> None:
        invocation = self._invocation
        if invocation is None:
            return
        error, self._error = self._error, None
        if status is None:
            status = "failed" if error is not None else "paused" if self._calls.wait() else "final"
        if error is not None:
            if status in ("final", "paused"):
                out.append(_reported(error, None))
            else:
                code, told = error.error_code, error.error_message
        for message in list(self._open.values()):
            self._break_off(message, out)
        self._calls.end(status == "paused", out)
        self._turns.finish(out)
        if status == "failed":
            out.append(RunFailed(code or "UNKNOWN", told or ""))
        self._invocation = self._plain = None
        out.append(RunFinished(invocation, status, self._total, code, told))

    # -- events --------------------------------------------------------------------------------------

    def _take(self, event: Event, out: Out) -> None:
        actions = event.actions
        if actions.compaction is not None or actions.rewind_before_invocation_id:
            return  # about the log, and part of no run
        metadata = event.custom_metadata or {}
        parent = metadata.get(PARENT_CALL)
        parent = parent if isinstance(parent, str) else None
        if self._invocation is None or (event.invocation_id and event.invocation_id != self._invocation):
            if self._invocation == "":
                self._invocation = event.invocation_id
            else:
                self._end(None, None, None, out)
                self._begin(event.invocation_id, out)
        elif self._error is not None:
            out.append(_reported(self._error, None))
            self._error = None
        self._plain = self._invocation
        if event.partial and TOOL_PROGRESS in metadata:
            self._calls.take_progress(metadata[TOOL_PROGRESS], out)
            return
        if parent is not None:
            self._take_inner(event, parent, metadata, out)
            return
        speaker = (event.author, event.branch, event.isolation_scope, None)
        if event.partial:
            self._take_piece(event, speaker, out)
            return
        ended = metadata.get(RUN_ENDED)
        status = _STATUSES.get(ended) if isinstance(ended, str) else None
        self._take_whole(event, speaker, status is not None, out)
        if status is not None:
            self._end(status, event.error_code, event.error_message, out)

    def _take_inner(self, event: Event, parent: str, metadata: dict[str, Any], out: Out) -> None:
        """An event of an agent that runs as a tool. What it was asked is not shown: the call's arguments say that."""
        if event.author == "user" and not event.get_function_responses():
            return
        scope = None if event.isolation_scope == parent else event.isolation_scope
        speaker = (event.author, event.branch, scope, parent)
        if event.partial and self._is_piece(event, speaker, metadata):
            self._take_piece(event, speaker, out)
        elif event.id not in self._heard:
            if event.id:
                self._heard.add(event.id)
            self._take_whole(event, speaker, False, out)

    def _is_piece(self, event: Event, speaker: Speaker, metadata: dict[str, Any]) -> bool:
        """Whether an event of an agent tool is partial in itself. If no mark says so, it is unless it repeats."""
        told = metadata.get(PARENT_PARTIAL)
        if isinstance(told, bool):
            return told
        parts = parts_of(event.content)
        if not parts or any(part.function_response is not None for part in parts):
            return False
        message = self._open.get(speaker)
        if message is None:
            return True
        text, thoughts = _words_of(parts)
        calls = {part.function_call.id for part in parts if part.function_call is not None}
        return (text, thoughts, calls) != (
            "".join(message.texts),
            "".join(message.thoughts),
            {call.id for call in message.calls},
        )

    def _take_piece(self, event: Event, speaker: Speaker, out: Out) -> None:
        author, branch, _, parent = speaker
        message = self._open.get(speaker)
        if message is None and author not in _NO_AUTHORS:
            self._turns.enter(speaker, event, out)
        for part in parts_of(event.content):
            text, call = part.text, part.function_call
            if not text and call is None:
                if (run := server_run(part)) is not None:
                    self._calls.take_server_run(run, speaker, event, out)
                continue
            if message is None:
                message = self._open[speaker] = self._new_message(event, speaker)
            message.event_id = event.id
            if text:
                if part.thought:
                    message.thoughts.append(text)
                    out.append(ThoughtDelta(message.id, text, author, branch, parent))
                else:
                    message.texts.append(text)
                    out.append(TextDelta(message.id, text, author, branch, parent))
            elif call is not None:
                self._calls.take_piece(call, speaker, event, message.calls, out)

    def _take_whole(self, event: Event, speaker: Speaker, ends: bool, out: Out) -> None:
        agent = speaker[0] not in _NO_AUTHORS
        if agent and not (ends and event.content is None):
            self._turns.enter(speaker, event, out)
        parts = parts_of(event.content)
        answers = [part.function_response for part in parts if part.function_response is not None]
        message = self._open.get(speaker)
        if message is not None and len(answers) == len(parts) and (answers or event.error_code):
            # something else comes in the place of what the partial events began
            self._calls.expect_answers(answers, out)
            self._break_off(message, out, interrupted=not answers or speaker[3] is None)
        if parts and not asks_again(event):
            self._take_parts(event, speaker, parts, out)
        usage = event.usage_metadata
        if usage is not None:
            tokens = _tokens_of(usage, event.searches)
            self._total += tokens
            out.append(UsageReported(tokens, self._total, speaker[0], event.model_version, speaker[3]))
        actions = event.actions
        if speaker[3] is None and (actions.state_delta or actions.artifact_delta):
            out.append(StateChanged(actions.state_delta, actions.artifact_delta))
        target = actions.transfer_to_agent
        if target and agent:
            out.append(AgentTransferred(speaker[0], target, speaker[3]))
            self._turns.hand_over(speaker, target, event, out)
        if event.error_code and not ends:
            if speaker[3] is None:
                self._error, self._plain = event, None
            else:
                out.append(_reported(event, speaker[3]))
        if actions.end_of_agent and agent:
            self._turns.leave(speaker, out)

    # -- messages ------------------------------------------------------------------------------------

    def _new_message(self, event: Event, speaker: Speaker) -> _Message:
        return _Message(self._ids.give(event.id), speaker)

    def _take_parts(self, event: Event, speaker: Speaker, parts: Sequence[types.Part], out: Out) -> None:
        """The parts of a complete event, in order; then what is complete by it."""
        author, branch, _, parent = speaker
        message = self._open.pop(speaker, None)
        text, thoughts = _words_of(parts)
        if message is not None and event.interrupted:
            thoughts = thoughts or "".join(message.thoughts)  # they are not kept
        shown_text, shown_thoughts = 0, 0
        if message is not None:
            shown_text = _shown(message.texts, text)
            shown_thoughts = _shown(message.thoughts, thoughts)
        others: list[dict[str, Any]] = []
        made: list[Call] = []
        asked: list[types.FunctionCall] = []
        code: types.ExecutableCode | None = None
        signature: str | None = None
        for part in parts:
            call = part.function_call
            if call is None and part.thought_signature:
                signature = _signature_of(part)
            if part.text:
                if message is None:
                    message = self._new_message(event, speaker)
                if part.thought:
                    new, shown_thoughts = part.text[shown_thoughts:], max(0, shown_thoughts - len(part.text))
                    if new:
                        out.append(ThoughtDelta(message.id, new, author, branch, parent))
                else:
                    new, shown_text = part.text[shown_text:], max(0, shown_text - len(part.text))
                    if new:
                        out.append(TextDelta(message.id, new, author, branch, parent))
            elif call is not None:
                if looks_like_request(event, call):
                    if is_request(event, call):
                        asked.append(call)
                elif call.name not in HIDDEN_CALLS:
                    known = self._calls.take_whole(call, speaker, event, out)
                    if known is not None:
                        known.signature = _signature_of(part)
                        made.append(known)
            elif part.function_response is not None:
                self._take_answer(part.function_response, speaker, event, out)
            elif (run := server_run(part)) is not None:
                self._calls.take_server_run(run, speaker, event, out)
            elif _holds_more(part):
                others.append(_plain_part(part))
                code = part.executable_code or code
                if code is not None and part.code_execution_result is not None:
                    self._calls.take_server_run(code_run(code, part.code_execution_result), speaker, event, out)
                    code = None
        if text or thoughts or others or (message is not None and (message.texts or message.thoughts)):
            message = message or self._new_message(event, speaker)
            interrupted, kept = bool(event.interrupted), others or None
            out.append(
                MessageCompleted(
                    message.id, text, thoughts, author, event.id or None, branch, parent, kept, interrupted, signature
                )
            )
        for known in made:
            self._calls.complete(known, out)
        if message is not None:
            self._calls.drop(message.calls, out)
        for call in asked:
            self._calls.ask(call, speaker, event, out)

    def _take_answer(self, answer: types.FunctionResponse, speaker: Speaker, event: Event, out: Out) -> None:
        found = self._calls.take_answer(answer, speaker, event, out)
        if found is None:
            return
        call, _, error = found
        self._calls.finish_inner(call, out)
        lanes = self._turns.lanes_of(call.id)
        if lanes and speaker[1:] not in lanes:  # the agents that ran for it are done
            for message in list(self._open.values()):
                if message.speaker[1:] in lanes:
                    self._break_off(message, out, interrupted=error is not None)
            self._turns.finish(out, lanes)
        self._calls.finish(found, out)

    def _break_off(self, message: _Message, out: Out, *, interrupted: bool = True) -> None:
        """No complete event comes for a message; what was streamed is all of it."""
        author, branch, _, parent = message.speaker
        self._open.pop(message.speaker, None)
        if not interrupted:
            self._heard.add(message.event_id)
        text, thoughts = "".join(message.texts), "".join(message.thoughts)
        if text or thoughts:
            out.append(
                MessageCompleted(
                    message.id, text, thoughts, author, None, branch, parent, None, interrupted=interrupted
                )
            )
        self._calls.drop(message.calls, out)


def _words_of(parts: Sequence[types.Part]) -> tuple[str, str]:
    """The text and the thoughts of some parts."""
    text = "".join([part.text for part in parts if part.text and not part.thought])
    return text, "".join([part.text for part in parts if part.text and part.thought])


def _shown(pieces: list[str], text: str) -> int:
    """How much of a complete text is not to be shown any more: all of it, if something else was streamed."""
    shown = "".join(pieces)
    return len(shown) if text.startswith(shown) else len(text)


def _signature_of(part: types.Part) -> str | None:
    signature = part.thought_signature
    return base64.b64encode(signature).decode() if signature else None


def _holds_more(part: types.Part) -> bool:
    """Whether a part holds something besides words, calls and results."""
    return any(
        value is not None and name not in ("text", "thought", "thought_signature")
        for name, value in fields_of(part).items()
    )


def _plain_part(part: types.Part) -> dict[str, Any]:
    return part.model_dump(mode="json", by_alias=True, exclude_none=True, fallback=repr)


def _tokens_of(usage: types.GenerateContentResponseUsageMetadata, searches: int) -> TokenUsage:
    given, output = usage.prompt_token_count or 0, usage.candidates_token_count or 0
    reasoning = usage.thoughts_token_count or 0
    return TokenUsage(
        given,
        output + reasoning,
        usage.cached_content_token_count or 0,
        reasoning,
        usage.tool_use_prompt_token_count or 0,
        usage.total_token_count or given + output + reasoning,
        searches,
    )


def _reported(event: Event, parent: str | None) -> ErrorReported:
    return ErrorReported(event.error_code or "", event.error_message or "", event.author, parent)

"""`Telling`: what a run of ours says to those who gave it as a task (protocols spec §4, Events).

Nothing private is told: no thought, no call, no result (but with the extension `calls`), no state, no metadata.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from google.genai import types

from flowloom.errors import FlowloomError
from flowloom.events.ids import new_id
from flowloom.events.json_data import without_halves
from flowloom.protocols.a2a.asked import PENDING
from flowloom.protocols.a2a.own_card import CALLS
from flowloom.protocols.a2a.parts import CALL, KIND, LONG_RUNNING, RESPONSE, THOUGHT, said, sent_part
from flowloom.protocols.a2a.sdk import (
    AUTH_REQUIRED,
    FAILED,
    INPUT_REQUIRED,
    WORKING,
    Artifact,
    Message,
    Part,
    Role,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
    data_part,
)
from flowloom.run_stream import (
    MessageCompleted,
    RunStreamEvent,
    TextDelta,
    ToolCallArgumentsCompleted,
    ToolCallFinished,
)
from flowloom.runner import PendingCall, RunResult

Told = TaskStatusUpdateEvent | TaskArtifactUpdateEvent


class Telling:
    """Tells of one run of the task `task_id` in the context `context_id`; `calls` says whether its calls are told."""

    def __init__(self, task_id: str, context_id: str, *, calls: bool) -> None:
        self._task_id, self._context_id, self._calls = task_id, context_id, calls
        self._answer_id = new_id()
        self._message = ""
        """The id of the message that it shows."""
        self._open = False
        """Whether that message goes on."""
        self._shown = ""
        """The text of it that was told."""
        self._held = ""
        """The piece behind that, until it is known whether another one follows."""

    # -- while it runs ------------------------------------------------------------------------------

    def take(self, event: RunStreamEvent) -> Iterator[Told]:
        """What an event of the run tells. The text of a later message takes the place of an earlier one's: the answer
        is the last."""
        if isinstance(event, TextDelta):
            if event.parent_call_id is None:
                yield from self._take_text(event.message_id, event.text)
        elif isinstance(event, MessageCompleted):
            if event.message_id == self._message:
                self._open = False
            if self._calls and event.thoughts:
                thought = said(event.thoughts)
                thought.metadata.update({THOUGHT: True})
                yield self._marked(thought)
        elif self._calls and isinstance(event, ToolCallArgumentsCompleted):
            call = {"id": event.call_id, "name": event.name, "args": event.args}
            yield self._marked(data_part(_plain(call), {KIND: CALL}))
        elif self._calls and isinstance(event, ToolCallFinished):
            result = {"error": event.error} if event.error is not None else event.result
            answer = {"id": event.call_id, "name": event.name, "response": result}
            yield self._marked(data_part(_plain(answer), {KIND: RESPONSE}))

    def _take_text(self, message_id: str, text: str) -> Iterator[Told]:
        if message_id != self._message:
            if self._open:  # several agents speak at once: one is shown, the answer tells at the end
                return
            self._message, self._open, self._shown, self._held = message_id, True, "", ""
        if self._held:
            yield self._next_chunk()
        self._held = text

    def _next_chunk(self, *, last: bool = False) -> Told:
        """The piece that was held back. The last one says that it is; those who keep nothing else have it at least."""
        told = self._chunk(self._held, append=bool(self._shown), last=last)
        self._shown, self._held = self._shown + self._held, ""
        return told

    def _chunk(self, text: str, *, append: bool, last: bool = False) -> Told:
        artifact = Artifact(artifact_id=self._answer_id, name="answer", parts=[said(text)])
        return self._artifact(artifact, append=append, last=last)

    def _artifact(self, artifact: Artifact, *, append: bool = False, last: bool = True) -> Told:
        return TaskArtifactUpdateEvent(
            task_id=self._task_id, context_id=self._context_id, artifact=artifact, append=append, last_chunk=last
        )

    def _marked(self, part: Part) -> Told:
        """What only those see who asked for it."""
        message = self._said([part])
        message.extensions.append(CALLS)
        return self.status(WORKING, message)

    # -- at its end ---------------------------------------------------------------------------------

    def answer(self, result: RunResult[Any]) -> Iterator[Told]:
        """What is left to tell of the answer: the rest of its text, and its files."""
        text = result.text
        if text and text != self._shown + self._held:
            yield self._chunk(text, append=False, last=True)
        elif self._held:
            yield self._next_chunk(last=True)
        final = next((e for e in reversed(result.events) if e.is_final_response() and e.content is not None), None)
        for part in (final.content.parts if final is not None and final.content is not None else None) or ():
            if not part.text and (sent := sent_part(part)) is not None:
                yield self.file(sent.filename, sent)

    def file(self, name: str, part: Part) -> Told:
        """A file as an artifact of its own."""
        return self._artifact(Artifact(artifact_id=new_id(), name=name or "file", parts=[part]))

    def waiting(self, pending: Sequence[PendingCall]) -> Told:
        """What the task waits for, in words for a person, and as data for programs."""
        waits: list[dict[str, Any]] = [
            {
                "id": each.id,
                "kind": each.kind,
                "name": each.name,
                "args": each.args if each.kind != "credential" else {},
                "message": words_for(each),
                "schema": each.response_schema,
                **({"auth_uri": each.authorization_url} if each.authorization_url else {}),
            }
            for each in pending
        ]
        parts = [said("\n".join(words_for(each) for each in pending)), data_part(_plain({"pending": waits}))]
        for each in pending:
            call = {"id": each.id, "name": _called(each), "args": each.raw}
            parts.append(data_part(_plain(call), {KIND: CALL, LONG_RUNNING: True}))
        message = self._said(parts)
        message.extensions.append(PENDING)
        login = all(each.kind == "credential" for each in pending)
        return self.status(AUTH_REQUIRED if login else INPUT_REQUIRED, message)

    def failure(self, error: BaseException | None) -> Told:
        """That the run has failed, with the error's code; what a stranger's error says is not told."""
        code = type(error).__name__ if error is not None else "UNKNOWN"
        words = str(error) if isinstance(error, FlowloomError) else "The agent could not finish the task."
        message = self._said([said(f"{code}: {words}")])
        message.metadata.update({"error_code": code})
        return self.status(FAILED, message)

    def status(self, state: TaskState, message: Message | None = None) -> TaskStatusUpdateEvent:
        """The task's state from now on."""
        status = TaskStatus(state=state, message=message)
        status.timestamp.FromDatetime(datetime.datetime.now(datetime.UTC))
        return TaskStatusUpdateEvent(task_id=self._task_id, context_id=self._context_id, status=status)

    def _said(self, parts: Sequence[Part]) -> Message:
        return Message(
            role=Role.ROLE_AGENT,
            message_id=new_id(),
            task_id=self._task_id,
            context_id=self._context_id,
            parts=parts,
        )


def words_for(pending: PendingCall) -> str:
    """What a person reads who is asked."""
    if pending.kind == "confirmation":
        hint = f"{pending.message} " if pending.message else ""
        return f"{hint}May `{pending.name}` be called with {_json(pending.args)}? Answer yes or no."
    if pending.kind == "credential":
        where = pending.authorization_url
        return pending.message or (f"Log in at {where}" if where else "Log in to go on.")
    if pending.kind == "tool":
        return pending.message or f"The result of `{pending.name}` with {_json(pending.args)} is awaited."
    return pending.message or "An answer is awaited."


def _called(pending: PendingCall) -> str:
    """The name of the call that waits itself."""
    return pending.name if pending.kind == "tool" else f"adk_request_{pending.kind}"


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, default=str)


def _plain(data: Any) -> Any:
    """Data as the protocol holds it: JSON, and nothing else."""
    return json.loads(without_halves(json.dumps(data, ensure_ascii=False, default=str)))


def saved_file(name: str, part: types.Part) -> Part | None:
    """A saved artifact as it is sent, under its name."""
    sent = sent_part(part)
    if sent is None:
        return None
    sent.filename = name
    sent.media_type = sent.media_type or "text/plain"
    return sent

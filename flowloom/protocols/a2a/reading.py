"""`Reading`: what a remote agent says, as events of ours (protocols spec §4, the table of task states)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.events.event import Event
from flowloom.events.ids import CLIENT_CALL_PREFIX, INPUT_ID_PREFIX
from flowloom.events.parts import call_part, content_of, text_part
from flowloom.events.requests import CREDENTIAL_CALL, INPUT_CALL
from flowloom.log.marks import A2A_CONTEXT, A2A_TASK
from flowloom.protocols.a2a.asked import authorization_of, question_of
from flowloom.protocols.a2a.conversation import PEER
from flowloom.protocols.a2a.parts import received_part, text_of
from flowloom.protocols.a2a.sdk import (
    AUTH_REQUIRED,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    OVER,
    REJECTED,
    Artifact,
    Message,
    Part,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
)
from flowloom.tools.request_record import request_event

ReadPart = Callable[[Part], "types.Part | Sequence[types.Part] | None"]
"""What reads a part that another service has sent."""
ERRORS = {FAILED: "A2A_TASK_FAILED", REJECTED: "A2A_TASK_REJECTED", CANCELED: "A2A_TASK_CANCELED"}
"""The error codes of tasks that came to nothing."""


@dataclass(slots=True)
class _Artifact:
    """An artifact as far as it is there, and the text of it that was shown."""

    event_id: str
    parts: list[types.Part] = field(default_factory=list[types.Part])
    shown: str = ""
    ends_in_text: bool = False
    """Whether the next piece may go on with the last part."""

    def add(self, pieces: Sequence[Part], read: ReadPart) -> None:
        """Put the parts of a chunk behind those that are there: a text goes on with the text before it."""
        for index, piece in enumerate(pieces):
            given = read(piece)
            if not isinstance(given, types.Part):  # nothing, or several that a reader of the program's own makes
                self.parts += given or ()
                continue
            part = given
            last = self.parts[-1] if self.parts else None
            goes_on = index == 0 and self.ends_in_text and piece.WhichOneof("content") == "text"
            if goes_on and last is not None and bool(last.thought) == bool(part.thought):
                self.parts[-1] = text_part((last.text or "") + (part.text or ""), thought=last.thought)
            else:
                self.parts.append(part)
            self.ends_in_text = piece.WhichOneof("content") == "text"

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if part.text and not part.thought)


class Reading:
    """Turns what a remote agent says into events of `ctx.agent`: `take` for each update, `finish` at the end."""

    def __init__(self, ctx: InvocationContext, read: ReadPart | None = None) -> None:
        self._ctx, self._read = ctx, read or received_part
        self._artifacts: dict[str, _Artifact] = {}
        self._status: TaskStatus | None = None
        self._message: Message | None = None
        self._thought = ""
        """The status text that was shown last."""
        self.context_id = self.task_id = ""

    @property
    def state(self) -> TaskState | None:
        """The state of the task; None if there is none."""
        return None if self._status is None else self._status.state

    def take(self, update: StreamResponse) -> Iterator[Event]:
        """The partial events that come of an update."""
        kind = update.WhichOneof("payload")
        if kind == "task":
            yield from self._take_task(update.task)
        elif kind == "message":
            self._message = update.message
            self.context_id, self.task_id = update.message.context_id, update.message.task_id
        elif kind == "status_update":
            self._place(update.status_update.context_id, update.status_update.task_id)
            yield from self._take_status(update.status_update.status)
        elif kind == "artifact_update":
            self._place(update.artifact_update.context_id, update.artifact_update.task_id)
            yield from self._take_chunk(update.artifact_update)

    def finish(self) -> Iterator[Event]:
        """The events that are stored: one for each artifact, in the order of their begin, and what ends the turn."""
        if self._message is not None:
            yield self._event(_content(self._parts(self._message.parts)))
            return
        status = self._status or TaskStatus()
        said = self._parts(status.message.parts) if status.HasField("message") else []
        words = text_of(status.message.parts)
        answers = [each for each in self._artifacts.values() if each.parts]
        closing = status.state == COMPLETED and said and words not in [each.text for each in answers]
        for each in answers:
            yield self._event(_content(each.parts), id=each.event_id)
        if status.state == INPUT_REQUIRED:
            yield self._question(status.message)
        elif status.state == AUTH_REQUIRED:
            yield self._credential(status.message)
        elif status.state in ERRORS:
            yield self._event(None, error_code=ERRORS[status.state], error_message=words or self._unsaid(status.state))
        elif closing:
            yield self._event(_content(said))
        elif not answers:
            yield self._event(None)

    def _parts(self, parts: Sequence[Part]) -> list[types.Part]:
        """The parts of a message that say something."""
        whole = _Artifact("")
        for part in parts:
            whole.ends_in_text = False
            whole.add([part], self._read)
        return whole.parts

    # -- updates ------------------------------------------------------------------------------------

    def _place(self, context_id: str, task_id: str) -> None:
        self.context_id, self.task_id = context_id or self.context_id, task_id or self.task_id

    def _take_task(self, task: Task) -> Iterator[Event]:
        """A whole task: what it has is what counts."""
        self._place(task.context_id, task.id)
        for artifact in task.artifacts:
            yield from self._replace(artifact)
        yield from self._take_status(task.status)

    def _take_status(self, status: TaskStatus) -> Iterator[Event]:
        self._status = status
        words = text_of(status.message.parts)
        if status.state in OVER or status.state in (INPUT_REQUIRED, AUTH_REQUIRED):
            return
        if words and words != self._thought:
            self._thought = words
            yield self._partial(text_part(words, thought=True), self._ctx.effects.new_id(self._ctx))

    def _take_chunk(self, update: TaskArtifactUpdateEvent) -> Iterator[Event]:
        """The next piece of an artifact, or one that takes the place of what was there."""
        if not update.append:
            yield from self._replace(update.artifact)
            return
        known = self._artifact(update.artifact.artifact_id)
        known.add(update.artifact.parts, self._read)
        yield from self._show(known)

    def _replace(self, artifact: Artifact) -> Iterator[Event]:
        known = self._artifact(artifact.artifact_id)
        known.parts, known.ends_in_text = [], False
        known.add(artifact.parts, self._read)
        yield from self._show(known)

    def _artifact(self, artifact_id: str) -> _Artifact:
        known = self._artifacts.get(artifact_id)
        if known is None:
            known = self._artifacts[artifact_id] = _Artifact(self._ctx.effects.new_id(self._ctx))
        return known

    def _show(self, artifact: _Artifact) -> Iterator[Event]:
        """The text of an artifact that was not shown yet. What takes the place of a text that was shown is not: the
        whole event tells it."""
        text, shown = artifact.text, artifact.shown
        if len(text) > len(shown) and text.startswith(shown):
            artifact.shown = text
            yield self._partial(text_part(text[len(shown) :]), artifact.event_id)

    # -- events -------------------------------------------------------------------------------------

    def _marks(self) -> dict[str, Any]:
        marks = {A2A_CONTEXT: self.context_id, A2A_TASK: self.task_id}
        return {key: value for key, value in marks.items() if value}

    def _event(self, content: types.Content | None, **fields: Any) -> Event:
        return self._ctx.new_event({"content": content, "custom_metadata": self._marks() or None, **fields})

    def _partial(self, part: types.Part, event_id: str) -> Event:
        return self._ctx.new_event({"content": content_of("model", [part]), "partial": True, "id": event_id})

    def _question(self, message: Message) -> Event:
        """The event by which the run waits for a person's answer to the agent's question."""
        question = question_of(message)
        request_id = INPUT_ID_PREFIX + self._ctx.effects.new_id(self._ctx)
        args: dict[str, Any] = {
            "interruptId": request_id,
            "message": question.text or f"Agent `{self._ctx.agent.name}` waits for an answer.",
            "payload": question.shown,
            "response_schema": question.schema,
            PEER: question.peer,
        }
        return self._request(call_part(request_id, INPUT_CALL, args))

    def _credential(self, message: Message) -> Event:
        """The event by which the run waits for a person to log in."""
        question = question_of(message)
        request_id = CLIENT_CALL_PREFIX + self._ctx.effects.new_id(self._ctx)
        args: dict[str, Any] = {
            "functionCallId": request_id,
            "authConfig": authorization_of(self._ctx.agent.name, question),
            "message": question.text or f"Agent `{self._ctx.agent.name}` asks you to log in.",
            PEER: question.peer,
        }
        return self._request(call_part(request_id, CREDENTIAL_CALL, args))

    def _request(self, part: types.Part) -> Event:
        event = request_event(self._ctx, [part], {})
        event.custom_metadata = self._marks()
        return event

    def _unsaid(self, state: TaskState) -> str:
        what = {FAILED: "failed", REJECTED: "was rejected", CANCELED: "was cancelled"}[state]
        return f"The task that agent `{self._ctx.agent.name}` was given {what}; it does not say why."


def _content(parts: Sequence[types.Part]) -> types.Content:
    return content_of("model", [*parts])

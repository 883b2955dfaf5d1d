"""`HistoryItem`: what one event contributes to a history, and in which words (spec §9.2, §9.4, §9.5, §9.8)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from operator import is_

from google.genai import types

from flowloom.events.event import Event
from flowloom.events.ids import CLIENT_CALL_PREFIX, INPUT_ID_PREFIX
from flowloom.events.parts import content_of, parts_of, text_part
from flowloom.events.requests import CONFIRMATION_CALL, CREDENTIAL_CALL, looks_like_request
from flowloom.events.wire import fields_of, replace
from flowloom.models.server_parts import without_server_runs

HIDDEN_CALLS = frozenset({CONFIRMATION_CALL, CREDENTIAL_CALL})
"""Calls between the engine and the client, which no model is shown (spec §9.2d)."""

FOREIGN_LEAD_IN = "For context, this happened elsewhere in the conversation:"
UNFIT_LEAD_IN = "That answer does not have the required form:"
"""How the message begins that asks a model for its structured answer again."""
LEAD_INS = frozenset({FOREIGN_LEAD_IN, UNFIT_LEAD_IN})
"""How contents of the role `user` begin that the user has not written."""


@dataclass(slots=True, eq=False, repr=False)
class HistoryItem:
    """One event's share of the history, already filtered for its viewer."""

    content: types.Content
    calls: list[str]
    """Ids of the function calls in it, in order; empty text for a call without an id."""
    responses: list[str]
    """Ids of the function responses in it, in order."""
    unanswered: frozenset[str] = frozenset()
    """Ids of the calls that must have a response to be shown: all but long-running ones."""
    foreign: bool = False
    beside_answer: bool = False
    """Whether a person said it in the message that decided about a call: it stays, whatever that call comes to."""
    transcription: str | None = None
    """The speaker's role, for the transcription of speech."""

    def without_calls(self, ids: frozenset[str]) -> HistoryItem | None:
        """The item without some of its calls, which models refuse without a response; None if nothing is left."""
        if not ids:
            return self
        parts = [p for p in parts_of(self.content) if not p.function_call or (p.function_call.id or "") not in ids]
        if not parts:
            return None
        calls = [call for call in self.calls if call not in ids]
        return HistoryItem(content_of(self.content.role, parts), calls, self.responses)

    def halves(self) -> list[HistoryItem]:
        """The responses in it, and what it says beside them, in their order, if it calls and answers at once."""
        if not (self.calls and self.responses):
            return [self]
        named = [part for part in parts_of(self.content) if part.function_call or part.function_response]
        answers = [part for part in named if part.function_response is not None]
        answering = HistoryItem(content_of("user", answers), [], self.responses)
        calling = HistoryItem(self.beside_responses()[0], self.calls, [], self.unanswered)
        return [answering, calling] if named[0] is answers[0] else [calling, answering]

    def beside_responses(self) -> list[types.Content]:
        """The content without the responses in it; nothing if it holds nothing else."""
        parts = [part for part in parts_of(self.content) if part.function_response is None]
        return [content_of(self.content.role, parts)] if parts else []


def is_hidden(named: types.FunctionCall | types.FunctionResponse) -> bool:
    """Whether a call or response is between the engine and the client, and no model's to see."""
    return named.name in HIDDEN_CALLS or (named.id is not None and named.id.startswith(INPUT_ID_PREFIX))


def shown_of(content: types.Content, event: Event, own: bool) -> tuple[types.Content | None, list[str], list[str]]:
    """The content without what is no model's to see: itself if that is nothing, None if nothing is left; the ids of the
    calls in it, and of the responses, in order, empty text for one without an id. A call in the engine's words that the
    agent's own model has made is shown, with its error."""
    parts = parts_of(content)
    shown: list[types.Part] = []
    calls: list[str] = []
    responses: list[str] = []
    for part in parts:
        call, response = part.function_call, part.function_response
        named = call or response
        if named is not None and is_hidden(named) and (not own or (call and looks_like_request(event, call))):
            continue
        shown.append(part)
        if call is not None:
            calls.append(call.id or "")
        if response is not None:
            responses.append(response.id or "")
    if len(shown) < len(parts):
        return content_of(content.role, shown) if shown else None, calls, responses
    return content, calls, responses


def transcription_of(event: Event) -> HistoryItem | None:
    """What was heard or spoken, in words; None if the event has no transcription (spec §9.5)."""
    for role, heard in (("user", event.input_transcription), ("model", event.output_transcription)):
        if heard is not None and heard.text:
            return HistoryItem(content_of(role, [text_part(heard.text)]), [], [], transcription=role)
    return None


_LEAD_IN = text_part(FOREIGN_LEAD_IN)  # one for all: history is never changed


def foreign_content(author: str, content: types.Content | None, thoughts: bool) -> types.Content | None:
    """Another agent's content as user content that tells about it (spec §9.4); None if nothing is left to tell."""
    parts: list[types.Part] = []
    for part in parts_of(content):
        if part.thought and not thoughts:
            continue
        if part.text:
            parts.append(text_part(f"[{author}] said: {part.text}"))
        elif (call := part.function_call) is not None:
            parts.append(text_part(f"[{author}] called tool `{call.name}` with parameters: {_json(call.args)}"))
        elif (answer := part.function_response) is not None:
            parts.append(text_part(f"[{author}] tool `{answer.name}` returned: {_json(answer.response)}"))
        elif not _is_empty(part, signed=True):  # a signature alone is for the other agent's model
            parts += without_server_runs([part], parts_of(content))
    if not parts:
        return None
    return content_of("user", [_LEAD_IN, *parts])


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def _is_empty(part: types.Part, *, signed: bool = False) -> bool:
    """Whether nothing is in a part; or nothing but a signature, if it may be `signed`."""
    if part.text:
        return False
    nothing = ("text", "thought", "thought_signature") if signed else ("text", "thought")
    return all(value is None or name in nothing for name, value in fields_of(part).items())


def for_model(content: types.Content, keeps_call_ids: bool) -> types.Content | None:
    """The content as it is sent (spec §9.8): empty parts dropped, minted call ids taken off; shared if unchanged."""
    parts = parts_of(content)
    sent = [_part_for_model(part, keeps_call_ids) for part in parts]
    if all(map(is_, sent, parts)):
        return content
    shown = [*filter(None, sent)]
    return replace(content, parts=shown) if shown else None


def _part_for_model(part: types.Part, keeps_call_ids: bool) -> types.Part | None:
    """A part as it is sent; None for an empty one."""
    call = part.function_call
    named = call or part.function_response
    if named is None:
        return None if _is_empty(part) else part
    if keeps_call_ids or not named.id or not named.id.startswith(CLIENT_CALL_PREFIX):
        return part
    bare = replace(named, id=None)
    return replace(part, function_call=bare) if named is call else replace(part, function_response=bare)

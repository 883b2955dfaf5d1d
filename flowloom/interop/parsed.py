"""`ParsedEvent`: one event of an ADK server's stream, and what a program or a page wants of it."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

from google.genai import types

from flowloom.errors import EventParseError, EventStreamError
from flowloom.events.event import Event
from flowloom.events.event_json import read_event, read_json, validated_event
from flowloom.events.parts import parts_of
from flowloom.events.wire import make
from flowloom.models.sse_decoder import RawFrame, SseDecoder, bytes_given
from flowloom.objects.given import of_kind

EventKind = Literal["event", "error", "done"]
DONE = "[DONE]"
_DONE_BYTES = DONE.encode()
_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"data", b"event", b"id", b"retry", b":")
_EVENT_NAMES = frozenset(("author", "content", "actions", "invocationid"))
_MADE_OF = "A `ParsedEvent` is made of an `Event`; `parse_event_sse` makes it of an event's text."
_log = logging.getLogger("flowloom.events")


class Source(NamedTuple):
    """Where an answer has its facts from."""

    url: str
    title: str
    """The domain or the address, where the server gave no title."""


class _Said(NamedTuple):
    text: str
    thoughts: str
    calls: list[types.FunctionCall]
    responses: list[types.FunctionResponse]


class ParsedEvent:
    """One event of a stream. What it holds is looked for when it is first asked for, once.

    `kind` is `event`; `error` for an error that stands in the stream by itself, whose `event` has nothing but the code
    and the message; `done` for the mark of the stream's end, whose `event` is empty.

    `raw` is the data that it was read from, None if it was made from an event. Raises `InputValidationError` for what
    is no `Event`.
    """

    def __init__(
        self,
        event: Event,
        *,
        kind: EventKind = "event",
        raw: dict[str, Any] | None = None,
        error: EventStreamError | None = None,
    ) -> None:
        self.event = of_kind(Event, event, _MADE_OF)
        self.kind: EventKind = kind
        self.raw = raw
        """The JSON object that came, if it was one."""
        self._error = error

    def __repr__(self) -> str:
        said = self.error or self.text_content or self.thought_content
        return f"ParsedEvent({self.kind}, author={self.event.author!r}, {str(said)[:40]!r})"

    @cached_property
    def _said(self) -> _Said:
        text = thoughts = ""
        calls: list[types.FunctionCall] = []
        responses: list[types.FunctionResponse] = []
        for part in parts_of(self.event.content):
            if part.text:
                if part.thought:
                    thoughts += part.text
                else:
                    text += part.text
            if part.function_call is not None:
                calls.append(part.function_call)
            if part.function_response is not None:
                responses.append(part.function_response)
        return _Said(text, thoughts, calls, responses)

    @property
    def text_content(self) -> str:
        """The text parts, joined, without thoughts."""
        return self._said.text

    @property
    def thought_content(self) -> str:
        """The thoughts, joined."""
        return self._said.thoughts

    @property
    def function_calls(self) -> list[types.FunctionCall]:
        """The calls, in order. Those of a partial event may be pieces, and come again in the complete one."""
        return self._said.calls

    @property
    def function_responses(self) -> list[types.FunctionResponse]:
        """The results of calls, in order."""
        return self._said.responses

    @cached_property
    def sources(self) -> list[Source]:
        """What the answer is grounded on, and the pages that were read for it, each address once."""
        grounding, pages = self.event.grounding_metadata, self.event.url_context_metadata
        chunks = (grounding.grounding_chunks if grounding is not None else None) or ()
        read = (pages.url_metadata if pages is not None else None) or ()
        found: dict[str, Source] = {}
        for source in (*map(_source_of, chunks), *map(_page_of, read)):
            if source is not None:
                found.setdefault(source.url, source)
        return list(found.values())

    @cached_property
    def is_final_response(self) -> bool:
        """Whether this event ends its agent's turn, see `Event.is_final_response`. The mark of the end does not."""
        return self.kind != "done" and self.event.is_final_response()

    @property
    def transfer_to_agent(self) -> str | None:
        """The agent that the conversation is handed to."""
        return self.event.actions.transfer_to_agent

    @cached_property
    def error(self) -> EventStreamError | None:
        """What went wrong: an error frame, or an event with an error code."""
        event = self.event
        if self._error is None and (event.error_code or event.error_message):
            return EventStreamError(event.error_message or event.error_code or "", code=event.error_code)
        return self._error


def parse_event_sse(data: str | bytes, *, validate: bool = False, strict: bool = False) -> ParsedEvent | None:
    """Read one event of a stream of server-sent events.

    `data` is its payload, or the whole of it with its `data:` lines. Returns None for an empty payload and for
    comments, and, after a logged warning, for what is not JSON or not an object. Values of a wrong type are left out
    of the event, with a warning that names them; with `validate`, such an event is None. Never raises, unless `strict`:
    then `EventParseError` says what is wrong, and where.
    """
    if not strict:
        return _guarded(data, validate)
    frame = _frame_of(data, strict=True)
    return None if frame is None else parse_payload(frame.data, _name_of(frame), validate=validate, strict=True)


def parse_payload(
    payload: str | bytes, name: str = "", *, validate: bool = False, strict: bool = False
) -> ParsedEvent | None:
    """The event of a payload without its field names; `name` is that of the server-sent event.

    Raises `EventParseError` for what is no event, strict or not.
    """
    stripped = payload.strip()
    if name != "error" and len(stripped) < 8:
        if not stripped:
            return None
        if stripped in (DONE, _DONE_BYTES):
            return done_event()
    if name == "error":
        return _error_frame(payload)
    data: Any = read_json(payload, strict=strict)
    if not isinstance(data, dict):
        raise EventParseError(f"The data of an event is a JSON object; this is {_json_name(data)}.")
    return parse_object(cast(dict[str, Any], data), validate=validate, strict=strict)


def parse_object(data: dict[str, Any], *, validate: bool = False, strict: bool = False) -> ParsedEvent:
    """The event of a JSON object. Raises `EventParseError`, strict or not, if nothing can be read of it."""
    if data.get("error") is not None and not is_canonical(data):
        return error_event(data)
    if validate or strict:
        return ParsedEvent(validated_event(data), raw=data)
    event, left_out = read_event(data)
    if left_out:
        _log.warning("Values of a wrong type were left out of an event: %s.", ", ".join(left_out))
    return ParsedEvent(event, raw=data)


def is_canonical(data: dict[str, Any]) -> bool:
    """Whether an object has what only events have."""
    return any(name.lower().replace("_", "") in _EVENT_NAMES for name in data)


def _guarded(data: str | bytes, validate: bool) -> ParsedEvent | None:
    try:
        frame = _frame_of(data, strict=False)
        return None if frame is None else parse_payload(frame.data, _name_of(frame), validate=validate)
    except Exception as error:  # whatever a server writes, its reader goes on
        warn_of(error)
        return None


def warn_of(error: Exception) -> None:
    """Log what could not be read."""
    _log.warning("An event of the stream could not be read. %s", error)


def _frame_of(data: str | bytes, *, strict: bool) -> RawFrame | None:
    """The server-sent event that `data` is, or the payload of."""
    start = bytes_given(data).lstrip().removeprefix(_BOM).lstrip()
    if not start.startswith(_FIELDS):
        return RawFrame(b"", start, b"", None)
    decoder = SseDecoder()
    frames = decoder.frames(start) + decoder.last_frames()
    if len(frames) > 1:
        problem = f"{len(frames)} events were given where one is read. Use an `EventStreamReader` for a stream."
        if strict:
            raise EventParseError(problem)
        _log.warning("%s The first one is taken.", problem)
    return frames[0] if frames else None


def _name_of(frame: RawFrame) -> str:
    return frame.event.decode("utf-8", "replace")


# -- errors and ends -------------------------------------------------------------------------------


def done_event() -> ParsedEvent:
    """The mark of a stream's end."""
    return ParsedEvent(make(Event, id=""), kind="done")


def error_event(data: dict[str, Any]) -> ParsedEvent:
    """The event of an error object: `{"error": ...}` in the forms that servers use, or its fields alone."""
    found: Any = data.get("error", data)
    fields = cast(dict[str, Any], found) if isinstance(found, dict) else data
    code = _first(fields, "code", "errorCode", "error_code", "status", "error_type", "type")
    message = found if isinstance(found, str) else _first(fields, "message", "errorMessage", "error_message", "detail")
    details: Any = data.get("error_details", data.get("details"))
    error = EventStreamError(
        str(message or code or "The server reported an error without a message."),
        code=None if code is None else str(code),
        details=cast(dict[str, Any], details) if isinstance(details, dict) else None,
    )
    values: dict[str, Any] = {"id": "", "error_code": error.code or "ERROR", "error_message": str(error)}
    return ParsedEvent(make(Event, values), kind="error", raw=data, error=error)


def _error_frame(payload: str | bytes) -> ParsedEvent:
    """What came under the event name `error`: an object, or any text."""
    try:
        data: Any = read_json(payload, strict=False)
    except EventParseError:
        data = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else payload
    return error_event(cast(dict[str, Any], data) if isinstance(data, dict) else {"error": str(data).strip()})


def _first(fields: dict[str, Any], *names: str) -> str | int | None:
    for name in names:
        value: Any = fields.get(name)
        if isinstance(value, str | int) and value != "":
            return value
    return None


def _source_of(chunk: types.GroundingChunk) -> Source | None:
    for place in (chunk.web, chunk.retrieved_context, chunk.maps):
        if place is not None and place.uri:
            domain = place.domain if isinstance(place, types.GroundingChunkWeb) else None
            return Source(place.uri, place.title or domain or place.uri)
    image = chunk.image
    if image is not None and image.source_uri:
        return Source(image.source_uri, image.title or image.domain or image.source_uri)
    return None


def _page_of(page: types.UrlMetadata) -> Source | None:
    """A page that Gemini was to read, if it could be."""
    status = types.UrlRetrievalStatus.URL_RETRIEVAL_STATUS_SUCCESS
    if page.retrieved_url and page.url_retrieval_status == status:
        return Source(page.retrieved_url, page.retrieved_url)
    return None


def _json_name(data: Any) -> str:
    if data is None or isinstance(data, bool):
        return "null" if data is None else "a boolean"
    return "a list" if isinstance(data, list) else "a text" if isinstance(data, str) else "a number"

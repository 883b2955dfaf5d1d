"""Events as frames of a stream: `id: INVOCATION:SEQ.N`, `data: ` and one line of JSON (server spec §5)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, NamedTuple, cast

from flowloom.events import Event
from flowloom.events.event_json import validated_event
from flowloom.events.wire import replace
from flowloom.interop.legacy import to_legacy
from flowloom.server.places import Places
from flowloom.server.wire import event_json, json_bytes, public_json

KEEP_ALIVE = b": keep-alive\n\n"
LEGACY_DONE = b'data: {"type":"done"}\n\n'
_ID = re.compile(r"(?P<invocation>[^\r\n]+):(?P<stored>\d{1,15})\.(?P<since>\d{1,15})")
_LINE_ENDS = {"\u2028": rb"\u2028", "\u2029": rb"\u2029", "\x85": rb"\u0085"}
"""What Python and others take for the end of a line, and JSON does not have to escape."""
_ENDS = tuple((end.encode(), escaped) for end, escaped in _LINE_ENDS.items())


class Place(NamedTuple):
    """Where a frame stands in the stream of an invocation."""

    stored: int
    """The sequence number of the last stored event of the session."""
    since: int
    """How many frames came since that are none of a stored event."""

    @property
    def next(self) -> Place:
        """The place of the next frame that is none of a stored event."""
        return Place(self.stored, self.since + 1)


class Frame(NamedTuple):
    """What is sent as one piece, so that no reader gets half of it or two at once."""

    place: Place
    chunk: bytes
    begin: int
    """Where the JSON begins in it."""
    is_event: bool = False
    """Whether it tells an event; not the second half of one, nor an error."""
    is_placed: bool = False
    """Whether the server has added where the event was made."""

    @property
    def json(self) -> bytes:
        """The JSON alone."""
        return self.chunk[self.begin : -2]

    @property
    def event(self) -> Event | None:
        """What it tells. It is read anew: an event takes many times the room of its JSON, and frames are kept."""
        if not self.is_event:
            return None
        data = json.loads(self.json)
        if self.is_placed:
            del data["nodeInfo"]
        return validated_event(data)


def is_said_by_run(event: Event, asked: Collection[str | None]) -> bool:
    """Whether an event is what a run says. One in the user's name is the message, unless it answers calls that people
    were not `asked` about: the result of a task."""
    if event.author != "user":
        return True
    answers = event.get_function_responses()
    return bool(answers) and not any(answer.id in asked for answer in answers)


def on_one_line(data: bytes) -> bytes:
    """JSON without what some readers take for the end of a line."""
    if b"\xe2\x80" in data or b"\xc2\x85" in data:
        for end, escaped in _ENDS:
            data = data.replace(end, escaped)
    return data


def frame_of(invocation_id: str, place: Place, data: bytes, event: Event | None = None) -> Frame:
    """The frame of JSON."""
    head = f"id: {invocation_id}:{place.stored}.{place.since}\ndata: ".encode("utf-8", "replace")
    chunk = b"%b%b\n\n" % (head, on_one_line(data))
    return Frame(place, chunk, len(head), event is not None, event is not None and event.node_info is None)


def is_twofold(event: Event) -> bool:
    """Whether an event has content and artifacts, and so two frames; the number of the second is kept free in streams
    that do not split it, so that a place means the same in all streams of a run."""
    return bool(event.actions.artifact_delta and event.content is not None and event.content.parts)


def frames_of(event: Event, place: Place, places: Places, *, split: bool) -> list[Frame]:
    """The frames of an event by one of the agents at `places`.

    With `split`, one with content and artifacts is two: what it says, and what it has saved.
    """
    if not (split and is_twofold(event)):
        return [frame_of(event.invocation_id, place, event_json(event, places), event)]
    said = replace(event, actions=replace(event.actions, artifact_delta={}))
    saved = replace(event, content=None)
    return [
        frame_of(event.invocation_id, place, event_json(said, places), event),
        frame_of(event.invocation_id, place.next, event_json(saved, places)),
    ]


def error_frame(invocation_id: str, place: Place, error: dict[str, Any]) -> Frame:
    """The frame that says why a stream ends."""
    return frame_of(invocation_id, place, json_bytes(error))


def legacy_chunks(frame: Frame) -> list[bytes]:
    """A frame in the flat form: one for each thing that its event holds, the id with the last one."""
    event = frame.event
    if event is None:
        said = json.loads(frame.json)
        if "error_details" not in said:
            return []
        details = said["error_details"]
        objects: list[Any] = [
            {"type": "error", "data": {"code": details["error_type"], "message": details["error_message"]}}
        ]
    else:
        objects = cast(list[Any], to_legacy(event))
    head, _, _ = frame.chunk.partition(b"\n")
    chunks = [b"data: %b\n\n" % on_one_line(public_json(json_bytes(each))) for each in objects]
    chunks[-1] = b"%b\n%b" % (head, chunks[-1])
    return chunks


def legacy_objects(frame: Frame) -> list[bytes]:
    """The JSON of the same."""
    return [chunk.partition(b"data: ")[2][:-2] for chunk in legacy_chunks(frame)]


def read_place(text: str, invocation_id: str) -> Place | None:
    """The place that a `Last-Event-ID` of this invocation names; None for any other text."""
    found = _ID.fullmatch(text)
    if found is None or found["invocation"] != invocation_id:
        return None
    return Place(int(found["stored"]), int(found["since"]))

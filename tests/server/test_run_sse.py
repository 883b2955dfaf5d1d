"""`POST /run_sse`: the bytes of the stream, and what is told before it begins (server spec §4, §5)."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
from server.serving import Running


def body(session_id: str, said: str | None = "hello", **more: Any) -> dict[str, Any]:
    """The body of a request for a run."""
    message = None if said is None else {"role": "user", "parts": [{"text": said}]}
    return {"appName": "desk", "userId": "ann", "sessionId": session_id, "newMessage": message, **more}


def frames(answer: httpx.Response) -> list[dict[str, Any]]:
    """The data of the frames of a stream."""
    lines = answer.text.split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_a_run_is_a_stream_of_frames(server: Running) -> None:
    """Each frame is an id, and `data: ` with the JSON of an event on one line without spaces."""
    answer = server.client.post("/run_sse", json=body(server.new_session(), streaming=True))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    *whole, end = answer.content.split(b"\n\n")
    assert end == b""
    events = []
    for frame in whole:
        found = re.fullmatch(rb"id: (\S+):(\d+)\.(\d+)\ndata: ([^\n]+)", frame)
        assert found is not None, frame
        event = json.loads(found[4])
        assert found[4] == json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
        assert found[1].decode() == event["invocationId"]
        events.append((int(found[2]), int(found[3]), event))
    assert [place[:2] for place in events] == [(1, n) for n in range(1, len(events))] + [(2, 0)]
    assert len({event["id"] for *_, event in events}) == 1


def test_an_unknown_session_is_told_before_the_stream(server: Running) -> None:
    """404, as JSON."""
    answer = server.client.post("/run_sse", json=body("nowhere"))
    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")


def test_a_failing_run_ends_with_an_event_and_an_error_frame(server: Running) -> None:
    """The event has `errorCode` and `errorMessage`; the frame behind it says why the stream ends."""
    session = server.new_session()
    seen = frames(server.client.post("/run_sse", json=body(session, "fail!")))
    assert (seen[-2]["errorCode"], seen[-2]["errorMessage"]) == ("RuntimeError", "model exploded")
    assert seen[-1]["error"] == "RuntimeError: model exploded"
    assert seen[-1]["error_details"].keys() == {"error_type", "error_message", "timestamp"}
    assert frames(server.client.post("/run_sse", json=body(session)))[-1]["content"]["parts"]

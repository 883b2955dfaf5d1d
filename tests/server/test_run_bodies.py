"""Bodies of runs: those that fit are read at once, and the others are told as everywhere (server spec §2, §4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import Request, Response
from fastapi.routing import APIRoute
from google.genai import types
from pydantic import TypeAdapter
from server.serving import Running, serving
from server.talker import body, talker

from flowloom.server import app_of
from flowloom.server.connections import Writer
from flowloom.server.problems import ProblemError
from flowloom.server.wire import Content

JSON = "application/json"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(app_of(talker())) as running:
        yield running


@pytest.mark.parametrize(
    ("kind", "path"),
    [(JSON, "/run"), (f"{JSON}; charset=utf-8", "/run"), ("application/x+json", "/run"), (JSON, "/run?more=1")],
)
def test_a_body_is_read_alike_whichever_way_it_goes(server: Running, kind: str, path: str) -> None:
    """In camelCase and in snake_case; fields that nobody knows are passed over."""
    session = server.new_session()
    camel = {**body(session), "stateDelta": {"a": None}, "unknown": 1}
    snake = {"app_name": "desk", "user_id": "ann", "session_id": session, "new_message": camel["newMessage"]}
    for given in (camel, snake):
        answer = server.client.post(path, content=json.dumps(given), headers={"content-type": kind})
        assert answer.status_code == 200, answer.text
        assert answer.json()[0]["content"]["parts"] == [{"text": "You said: hello"}]


@pytest.mark.parametrize("path", ["/run", "/run_sse", "/apps/desk/run"])
@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"userId": 1}, ["body", "userId"]),
        ({"userId": "a\0"}, ["body", "userId"]),
        ({"streaming": "maybe"}, ["body", "streaming"]),
        ({"stateDelta": [1]}, ["body", "stateDelta"]),
        ({"newMessage": {"parts": [{"nothing": 1}]}}, ["body", "newMessage", "parts", 0, "nothing"]),
    ],
)
def test_what_does_not_fit_is_told_by_its_place(
    server: Running, path: str, wrong: dict[str, Any], place: list[Any]
) -> None:
    """422, before any stream."""
    answer = server.client.post(path, json={**body(server.new_session()), **wrong})
    assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, place)


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_form_starts_no_run(server: Running, kind: str | None) -> None:
    """A body says by its type that it is JSON, which no form of another page can do."""
    headers = {} if kind is None else {"content-type": kind}
    content = json.dumps(body(server.new_session()))
    assert server.client.post("/run_sse", content=content, headers=headers).status_code == 422


def test_a_body_that_fits_goes_the_short_way(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of FastAPI's way is gone for it: that would take a third of the time of a short run, and memory."""
    careful: list[str] = []
    handle = APIRoute.handle

    async def counted(route: APIRoute, scope: Any, receive: Any, send: Any) -> None:
        careful.append(scope["path"])
        await handle(route, scope, receive, send)

    monkeypatch.setattr(APIRoute, "handle", counted)
    session = server.new_session()  # by FastAPI's way, as all else
    for path in ("/run", "/run_sse"):
        assert server.client.post(path, json=body(session)).status_code == 200
    assert careful == ["/apps/desk/users/ann/sessions"]
    assert server.client.post("/run", json={**body(session), "userId": 1}).status_code == 422
    assert careful[1:] == ["/run"]


@pytest.mark.parametrize(
    "given",
    [
        {"role": "user", "parts": [{"text": "hello"}]},
        {"parts": [{"text": ""}], "role": "model"},
        {"parts": [{"text": "hello"}]},
        {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
        {"role": "user", "parts": [{"text": "hello", "thought": True}]},
    ],
)
def test_a_message_is_the_one_that_google_genai_reads(given: dict[str, Any]) -> None:
    """One text of a user is read without pydantic; which fields were given is kept, too."""
    read = TypeAdapter(Content).validate_python(given)
    expected = types.Content.model_validate(given)
    assert read == expected
    assert read.model_fields_set == expected.model_fields_set
    assert [part.model_fields_set for part in read.parts or ()] == [
        part.model_fields_set for part in expected.parts or ()
    ]


def test_what_a_program_adds_sees_runs() -> None:
    """Its middlewares and its handlers of errors, which FastAPI asks."""
    app = app_of(talker())
    seen: list[str] = []

    @app.middleware("http")
    async def note(request: Request, call_next: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
        seen.append(request.url.path)
        return await call_next(request)

    @app.exception_handler(ProblemError)
    async def teapot(request: Request, error: Exception) -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(status_code=418)

    with serving(app) as server:
        assert server.client.post("/run", json=body("nowhere")).status_code == 418
        assert server.client.post("/run", json=body(server.new_session())).status_code == 200
    assert seen.count("/run") == 2


class Sent:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.pieces.append(data)

    def is_closing(self) -> bool:
        return False


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


def test_the_head_of_an_answer_goes_with_its_body() -> None:
    """One write; a stream's head, of whose length nothing is said, goes at once."""
    sent = Sent()
    writer = Writer(sent)
    writer.write(HEAD)
    assert sent.pieces == []
    writer.write(b"ok")
    streamed = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    writer.write(streamed)
    assert sent.pieces == [HEAD + b"ok", streamed]


def test_a_head_without_a_body_goes_before_all_else() -> None:
    """The answer to HEAD, which is complete without one."""
    sent = Sent()
    writer = Writer(sent)
    writer.write(HEAD)
    assert not writer.is_closing()
    assert sent.pieces == [HEAD]

"""Bodies of runs: those that fit are read at once, and the others are told as everywhere (server spec §2, §4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute
from server.serving import Running, serving
from server.talker import body, talker

from flowloom.server import app_of

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

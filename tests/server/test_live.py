"""Live runs, which there are none of yet (server spec §6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from server.serving import Running, desk, serving
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from flowloom.asgi import Principal
from flowloom.server import app_of
from flowloom.server.live import shortened


def closed(server: Running, query: str, **headers: str) -> tuple[int, str]:
    """The code and the reason with which a socket is closed after it was accepted."""
    with (
        connect(f"ws{server.url[4:]}/run_live?{query}", additional_headers=headers) as socket,
        pytest.raises(ConnectionClosed) as caught,
    ):
        socket.recv(60)
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code, caught.value.rcvd.reason


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    """A server that knows one person."""

    async def auth(scope: Any) -> Principal | None:
        return Principal("bob", frozenset({"bob"}), frozenset({"desk"}))

    with serving(app_of(desk(), auth=auth)) as running:
        yield running


def test_a_session_is_told_that_there_are_none(server: Running) -> None:
    """An error's code, and why."""
    session = server.new_session()
    query = f"app_name=desk&user_id=ann&session_id={session}"
    assert closed(server, query) == (1011, "Live runs are not built yet.")
    assert closed(server, f"user_id=ann&session_id={session}&modalities=TEXT&modalities=AUDIO")[0] == 1011
    assert closed(server, f"{query}&proactive_audio=true&save_live_blob=true")[0] == 1011


def test_what_is_not_there(server: Running, guarded: Running) -> None:
    """1002 for a session, 1008 for an app; another's session is none."""
    assert closed(server, "app_name=desk&user_id=ann&session_id=no") == (1002, "Session not found")
    assert closed(server, "app_name=no&user_id=ann&session_id=no")[0] == 1008
    made = guarded.call(guarded.served.sessions.create_session(app_name="desk", user_id="ann"))
    assert closed(guarded, f"app_name=desk&user_id=ann&session_id={made.id}")[0] == 1002
    assert closed(guarded, f"app_name=other&user_id=bob&session_id={made.id}")[0] == 1008


@pytest.mark.parametrize(
    "query", ["", "app_name=desk", "app_name=desk&user_id=ann", "user_id=a&session_id=s&modalities=SMELL",
              "user_id=a&session_id=s&proactive_audio=perhaps"],
)  # fmt: skip
def test_bad_queries_are_refused_before(server: Running, query: str) -> None:
    """They are HTTP 403."""
    with pytest.raises(InvalidStatus) as caught, connect(f"ws{server.url[4:]}/run_live?{query}"):
        pass
    assert caught.value.response.status_code == 403


def test_a_reason_fits_its_frame() -> None:
    """123 bytes, and no half of a character."""
    assert shortened("x" * 200) == "x" * 123
    assert shortened("é" * 100) == "é" * 61

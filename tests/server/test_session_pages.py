"""Sessions page by page, searched, and forked (server spec §12, helpers)."""

from __future__ import annotations

from typing import Any

import pytest
from server.serving import Running, desk, serving
from server.talker import body, run, settled, stream, talker

from flowloom.asgi import Principal
from flowloom.server import app_of


@pytest.fixture(scope="module")
def kept(server: Running) -> tuple[Running, str, list[str]]:
    """Five sessions of one user, the last one with a conversation."""
    ids = [
        server.new_session(
            user_id="pat", sessionId=f"id-{letter}", state={"__session_metadata__": {"displayName": f"Trip {number}"}}
        )
        for number, letter in enumerate("abcde")
    ]
    for text in ("Find me a quiet Café", "time?"):
        message = {"role": "user", "parts": [{"text": text}]}
        body = {"appName": "desk", "userId": "pat", "sessionId": ids[-1], "newMessage": message}
        server.client.post("/run", json=body)
    return server, server.sessions(user_id="pat"), ids


def ids_of(server: Running, path: str, **params: Any) -> list[str]:
    answer = server.client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()]


class TestPages:
    def test_the_latest_come_first(self, kept: tuple[Running, str, list[str]]) -> None:
        """A page begins behind the last session of the one before; a short one is the last."""
        server, path, ids = kept
        assert ids_of(server, path) == ids
        latest = ids[::-1]
        assert ids_of(server, path, limit=2) == latest[:2]
        assert ids_of(server, path, limit=2, after=latest[1]) == latest[2:4]
        assert ids_of(server, path, limit=2, after=latest[3]) == latest[4:]
        assert ids_of(server, path, after=latest[4]) == []

    def test_each_has_its_last_words(self, kept: tuple[Running, str, list[str]]) -> None:
        """No events come with it."""
        server, path, _ = kept
        first, second = server.client.get(path, params={"limit": 2}).json()
        assert first["lastWords"].startswith("You said: clock")
        assert (first["events"], second["events"]) == ([], [])
        assert "lastWords" not in second
        assert "lastWords" not in server.client.get(path).json()[-1]

    def test_each_tells_what_it_is_doing(self) -> None:
        """Running, waiting for a person, failed, or nothing: a run that was cancelled has not failed."""

        def status_of(session: str) -> str:
            listed = running.client.get(running.sessions(), params={"limit": 9}).json()
            return next(each["status"] for each in listed if each["id"] == session)

        with serving(app_of(talker())) as running:
            session = running.new_session()
            assert status_of(session) == "idle"
            with stream(running, "/run_sse", body(session, "hang 1", streaming=True)) as chunks:
                next(chunks)
                assert status_of(session) == "running"
            settled(running, session)
            assert status_of(session) == "idle"
            for said, status in (("fail", "failed"), ("tool book", "paused"), ("hello", "paused")):
                run(running, session, said)
                assert status_of(session) == status
            assert "status" not in running.client.get(running.sessions()).json()[0]

    @pytest.mark.parametrize(("words", "found"), [
        ("trip", [4, 3, 2, 1, 0]), ("TRIP 3", [3]), ("3 trip", [3]), ("café", [4]), ("quiet trip", [4]),
        ("noon in", [4]), ("quiet 3 nothing", []), ("  ", [4, 3, 2, 1, 0]),
    ])  # fmt: skip
    def test_words_are_found(self, kept: tuple[Running, str, list[str]], words: str, found: list[int]) -> None:
        """Names, ids and texts are searched, for every word, without case."""
        server, path, ids = kept
        assert ids_of(server, path, q=words) == [ids[number] for number in found]
        assert ids_of(server, path, q=ids[1]) == [ids[1]]

    def test_a_wrong_page(self, kept: tuple[Running, str, list[str]]) -> None:
        """A page of no size, or behind a session that is not there."""
        server, path, _ = kept
        for limit in (0, 1001, "x"):
            assert server.client.get(path, params={"limit": limit}).status_code == 422
        assert server.client.get(path, params={"after": "nothing"}).status_code == 404


class TestEvents:
    def test_some_of_them(self, kept: tuple[Running, str, list[str]]) -> None:
        """Those behind an event, as many as are asked for; the session is the same."""
        server, path, ids = kept
        path = f"{path}/{ids[-1]}"
        whole = server.client.get(path).json()
        events = whole["events"]
        assert len(events) == 6
        for params, expected in (
            ({"afterEventId": events[1]["id"]}, events[2:]),
            ({"afterEventId": events[1]["id"], "limit": 2}, events[2:4]),
            ({"afterEventId": events[-1]["id"]}, []),
            ({"limit": 2}, events[:2]),
            ({"limit": 0}, []),
        ):
            assert server.client.get(path, params=params).json() == {**whole, "events": expected}
        answer = server.client.get(path, params={"afterEventId": "nothing"})
        assert (answer.status_code, answer.json()["code"]) == (404, "event_not_found")


class TestForks:
    def test_it_begins_like_the_other(self, kept: tuple[Running, str, list[str]]) -> None:
        """A fork has the events up to one, or all; what comes later in one is not in the other."""
        server, path, ids = kept
        events = server.client.get(f"{path}/{ids[-1]}").json()["events"]
        made = server.client.post(f"{path}/{ids[-1]}/fork", json={"throughEventId": events[1]["id"]}).json()
        assert made["events"] == events[:2]
        assert made["state"]["__session_metadata__"] == {"displayName": "Trip 4"}
        assert server.client.get(f"{path}/{made['id']}").json()["events"] == events[:2]
        named = server.client.post(f"{path}/{ids[-1]}/fork", json={"sessionId": " copy "}).json()
        assert (named["id"], named["events"]) == ("copy", events)
        assert len(server.client.post(f"{path}/{ids[-1]}/fork").json()["events"]) == len(events)
        assert len(server.client.get(f"{path}/{ids[-1]}").json()["events"]) == len(events)
        for each in (made["id"], "copy"):
            server.client.delete(f"{path}/{each}")

    @pytest.mark.parametrize(
        ("session", "body", "status", "code"),
        [
            ("nothing", {}, 404, "session_not_found"),
            (None, {"throughEventId": "nothing"}, 404, "event_not_found"),
            (None, {"sessionId": "a/b"}, 400, "invalid_session_id"),
            (None, {"sessionId": "taken"}, 409, "session_exists"),
        ],
    )
    def test_what_cannot_be_forked(
        self, server: Running, session: str | None, body: Any, status: int, code: str
    ) -> None:
        """It says why, and nothing is made."""
        path = server.sessions(user_id="kim")
        server.client.post(path, json={"sessionId": "taken"})
        answer = server.client.post(f"{path}/{session or 'taken'}/fork", json=body)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert ids_of(server, path) == ["taken"]

    def test_of_anothers_session(self) -> None:
        """It is 404, as the session is."""

        async def auth(scope: Any) -> Principal | None:
            return Principal("bob", frozenset({"bob"}))

        with serving(app_of(desk(), auth=auth)) as running:
            made = running.call(running.served.sessions.create_session(app_name="desk", user_id="ann"))
            for path in (f"/{made.id}/fork", f"/{made.id}/explain"):
                assert running.client.post(running.sessions() + path, json={}).status_code == 404
            assert running.client.get(running.sessions(), params={"q": ""}).status_code == 404

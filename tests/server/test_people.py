"""Being the model, over HTTP (server spec §12)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from server.serving import PATIENCE, Running, desk, eventually, serving

from flowloom import LlmAgent
from flowloom.asgi import Principal, token_auth
from flowloom.human import HumanModel
from flowloom.server import app_of

REQUESTS = "/dev/models/requests"


@pytest.fixture(scope="module")
def human() -> Iterator[Running]:
    """A server in which a person answers for all agents."""
    with serving(app_of(desk(), models="human")) as running:
        yield running


class Asked:
    """A run on a thread, which waits for a person."""

    def __init__(
        self, server: Running, text: str = "hi", *, user: str = "ann", streaming: bool = False, **headers: str
    ):
        self.server, self.headers = server, headers
        self.session = server.client.post(server.sessions(user_id=user), json={}, headers=headers).json()["id"]
        message = {"role": "user", "parts": [{"text": text}]}
        body = {"appName": "desk", "userId": user, "sessionId": self.session, "newMessage": message}
        path = "/run_sse" if streaming else "/run"
        self.answer: Any = None

        def run() -> None:
            self.answer = server.client.post(path, json=body | {"streaming": streaming}, headers=headers)

        self.thread = threading.Thread(target=run)
        self.thread.start()
        self.request = self.asked()

    def asked(self) -> Any:
        """What a person is asked now."""
        return eventually(lambda: [each for each in self.waiting() if each["session_id"] == self.session])[0]

    def waiting(self) -> list[Any]:
        return self.server.client.get(REQUESTS, headers=self.headers).json()

    def reply(self, **body: Any) -> Any:
        return self.server.client.post(f"{REQUESTS}/{self.request['id']}/answer", json=body, headers=self.headers)

    def end(self) -> Any:
        self.thread.join(PATIENCE)
        return self.answer


class TestAnswers:
    def test_a_person_answers(self, human: Running) -> None:
        """The request waits with all that is to be known of it; the answer is that of the model."""
        asked = Asked(human)
        assert (asked.request["agent"], asked.request["state"], asked.request["user_id"]) == ("desk", "waiting", "ann")
        assert [form["name"] for form in asked.request["tools"]] == ["clock"]
        assert asked.request["assembly"]["sections"][0]["by"] == "basic"
        answer = asked.reply(parts=[{"text": "Good day."}])
        assert (answer.status_code, answer.json()) == (200, {"id": asked.request["id"], "state": "answered"})
        assert asked.end().json()[0]["content"]["parts"] == [{"text": "Good day."}]
        assert asked.waiting() == []

    def test_several_calls_and_a_thought(self, human: Running) -> None:
        """An answer may have several parts; a streamed run gets them as a stream."""
        asked = Asked(human, streaming=True)
        calls = [{"functionCall": {"name": "clock", "args": {"city": city}}} for city in ("Rome", "Oslo")]
        assert asked.reply(parts=[{"text": "Hm.", "thought": True}, *calls]).status_code == 200
        second = asked.asked()
        results = second["assembly"]["request"]["contents"][-1]["parts"]
        assert [each["function_response"]["response"] for each in results] == [
            {"time": "noon in Rome"}, {"time": "noon in Oslo"}
        ]  # fmt: skip
        human.client.post(f"{REQUESTS}/{second['id']}/answer", json={"parts": [{"text": "Done."}]})
        frames = [json.loads(line[6:]) for line in asked.end().text.split("\n") if line.startswith("data: ")]
        assert frames[-1]["content"]["parts"] == [{"text": "Done."}]
        assert any(frame.get("partial") for frame in frames)

    def test_an_answer_that_is_said_piece_by_piece(self, human: Running) -> None:
        """A streamed run gets each piece at once, as long as the request waits; the answer gives the rest."""
        asked = Asked(human, streaming=True)
        assert asked.request["streaming"]
        said = [asked.reply(parts=[{"text": text}], partial=True) for text in ("It ", "is ")]
        assert [each.json()["state"] for each in said] == ["waiting", "waiting"]
        refused = asked.reply(parts=[{"functionCall": {"name": "clock"}}], partial=True)
        assert (refused.status_code, refused.json()["code"]) == (422, "unfit_answer")
        assert asked.reply(parts=[{"text": "noon."}]).json()["state"] == "answered"
        frames = [json.loads(line[6:]) for line in asked.end().text.split("\n") if line.startswith("data: ")]
        texts = [(frame.get("partial", False), frame["content"]["parts"][0]["text"]) for frame in frames]
        assert texts == [(True, "It "), (True, "is "), (True, "noon."), (False, "It is noon.")]
        assert asked.reply(parts=[{"text": "x"}], partial=True).json()["state"] == "answered"

    def test_what_does_not_fit_goes_on_waiting(self, human: Running) -> None:
        """422 names the tool and the field; 404 an unknown request, 409 one that is over."""
        asked = Asked(human)
        wrong: list[tuple[Any, str | None, str | None]] = [
            ([{"functionCall": {"name": "clock", "args": {"city": 1}}}], "clock", "city"),
            ([{"functionCall": {"name": "nothing"}}], "nothing", None),
            ([{"text": " "}], None, None),
            (None, None, None),
        ]
        for parts, tool, field in wrong:
            answer = asked.reply(parts=parts)
            told = answer.json()
            assert (answer.status_code, told["code"], told["tool"], told["field"]) == (422, "unfit_answer", tool, field)
            assert type(told["detail"]) is str
        assert asked.reply(parts=[{"no": 1}]).status_code == 422
        assert len(asked.waiting()) == 1
        unknown = human.client.post(f"{REQUESTS}/nothing/answer", json={"parts": [{"text": "x"}]})
        assert (unknown.status_code, unknown.json()["code"]) == (404, "request_not_found")
        assert asked.reply(parts=[{"text": "x"}]).status_code == 200
        over = asked.reply(parts=[{"text": "x"}])
        assert (over.status_code, over.json()["code"], over.json()["state"]) == (409, "request_over", "answered")
        asked.end()

    @pytest.mark.parametrize(
        ("body", "status", "code"),
        [
            ({"error": {"code": "RATE_LIMIT", "message": "Too much."}}, 500, "ModelRateLimitError"),
            ({"error": {"message": "No."}}, 500, "ModelError"),
            ({"error": {"code": "SAFETY", "message": "No."}}, 200, "SAFETY"),
            ({"error": {"code": "MAX_TOKENS", "message": "Long."}, "parts": [{"text": "Once"}]}, 200, "MAX_TOKENS"),
        ],
    )
    def test_errors(self, human: Running, body: Any, status: int, code: str) -> None:
        """A person may fail as models do: by an error of the provider, or by breaking off."""
        asked = Asked(human)
        assert asked.reply(**body).status_code == 200
        assert asked.end().status_code == status
        event = human.client.get(f"{human.sessions()}/{asked.session}").json()["events"][-1]
        assert (event["errorCode"], event["errorMessage"]) == (code, body["error"]["message"])
        assert (event.get("content") or {}).get("parts", []) == body.get("parts", [])

    def test_a_run_that_is_cancelled_asks_no_more(self, human: Running) -> None:
        """Its request is over, and says so."""
        asked = Asked(human)
        human.client.post(f"{human.sessions()}/{asked.session}/cancel")
        answer = asked.reply(parts=[{"text": "x"}])
        assert (answer.status_code, answer.json()["state"]) == (409, "cancelled")
        asked.end()


class TestTheStream:
    def test_what_comes_and_ends(self, human: Running) -> None:
        """What waits comes first, then what happens; the run need not be one that began before."""
        first = Asked(human, "one")
        frames: list[tuple[str, Any]] = []
        with human.client.stream("GET", f"{REQUESTS}/stream") as stream:
            assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
            lines = stream.iter_lines()

            def next_frame() -> tuple[str, Any]:
                kind = next(line for line in lines if line.startswith("event: "))
                return kind[7:], json.loads(next(lines)[6:])

            frames.append(next_frame())
            second = Asked(human, "two")
            frames.append(next_frame())
            for asked in (first, second):
                asked.reply(parts=[{"text": "x"}])
                frames.append(next_frame())
        assert frames[0] == ("came", first.request)
        assert frames[1] == ("came", second.request)
        assert frames[2] == ("ended", {"id": first.request["id"], "state": "answered"})
        assert frames[3] == ("ended", {"id": second.request["id"], "state": "answered"})
        for asked in (first, second):
            asked.end()
        eventually(lambda: not human.app.state.development.inbox._listeners)  # the client has gone


class TestWhoAnswers:
    def test_an_agent_whose_model_is_a_person(self) -> None:
        """One agent may ask a person while the others ask models; a time-out is told."""
        agent = LlmAgent(name="desk", model=HumanModel(timeout=1.5))
        with serving(app_of(agent)) as running:
            asked = Asked(running)
            assert asked.end().status_code == 500
            answer = asked.reply(parts=[{"text": "late"}])
            assert (answer.status_code, answer.json()["state"]) == (409, "timed out")

    def test_others_do_not_see_it(self) -> None:
        """A request is known to those who may use its session."""

        async def auth(scope: Any) -> Principal | None:
            name = dict(scope["headers"])[b"x-name"].decode()
            return Principal(name, frozenset({name}))

        with serving(app_of(desk(), models="human", auth=auth)) as running:
            asked = Asked(running, **{"x-name": "ann"})
            assert running.client.get(REQUESTS, headers={"x-name": "bob"}).json() == []
            path = f"{REQUESTS}/{asked.request['id']}/answer"
            body = {"parts": [{"text": "x"}]}
            assert running.client.post(path, json=body, headers={"x-name": "bob"}).status_code == 404
            assert asked.reply(**body).status_code == 200
            asked.end()

    def test_through_a_proxy_with_a_token_alone(self, human: Running) -> None:
        """Behind a proxy anybody may stand: who answers has to be known."""
        path, body = f"{REQUESTS}/nothing/answer", {"parts": [{"text": "x"}]}
        proxied = {"x-forwarded-for": "1.2.3.4"}
        assert human.client.post(path, json=body, headers=proxied).status_code == 403
        with serving(app_of(desk(), auth=token_auth("s3cret"))) as running:
            headers = proxied | {"authorization": "Bearer s3cret"}
            assert running.client.post(path, json=body, headers=headers).status_code == 404

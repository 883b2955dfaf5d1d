"""Who wrote which part of a request, and what would be asked (server spec §12, helpers)."""

from __future__ import annotations

from typing import Any

import pytest
from server.serving import Running

D = "/dev/apps/desk/users/ann/sessions"


@pytest.fixture(scope="module")
def told(server: Running) -> tuple[Running, str, list[Any]]:
    """A session with two turns, and its events."""
    session = server.new_session()
    for text in ("hello", "time?", "fail!"):
        message = {"role": "user", "parts": [{"text": text}]}
        body = {"appName": "desk", "userId": "ann", "sessionId": session, "newMessage": message}
        server.client.post("/run", json=body)
    return server, session, server.client.get(f"{server.sessions()}/{session}").json()["events"]


def request_of(server: Running, session: str, event: Any) -> Any:
    answer = server.client.get(f"{D}/{session}/events/{event['id']}/request")
    assert answer.status_code == 200, answer.text
    return answer.json()


class TestTheRequestOfAnEvent:
    def test_each_piece_has_its_author(self, told: tuple[Running, str, list[Any]]) -> None:
        """The sections of the request name the processors that wrote them."""
        server, session, events = told
        found = request_of(server, session, events[1])
        authors = {section["path"]: section["by"] for section in found["sections"]}
        assert authors["config.system_instruction[0]"] == "identity"
        assert authors["config.tools[0].function_declarations[clock]"] == "tool_declarations"
        assert authors["contents[0]"] == "contents"
        assert (found["agent"], found["sent"], found["event_id"]) == ("desk", True, events[1]["id"])
        assert found["invocation_id"] == events[1]["invocationId"]
        assert "contents" in [step["name"] for step in found["steps"]]
        assert (found["previous_event_id"], found["difference"]) == (None, None)

    def test_what_is_new_in_it(self, told: tuple[Running, str, list[Any]]) -> None:
        """The difference from the agent's call before tells what was added."""
        server, session, events = told
        found = request_of(server, session, events[3])
        assert found["previous_event_id"] == events[1]["id"]
        difference = found["difference"]
        assert [each["path"] for each in difference["differences"]] == ["contents[1]", "contents[2]"]
        assert {(each["by"], each["kind"]) for each in difference["differences"]} == {("contents", "added")}
        assert (difference["prefix_broken_by"], difference["contents_kept"]) == (None, 1)

    def test_what_follows_from_a_call_leads_back_to_it(self, told: tuple[Running, str, list[Any]]) -> None:
        """A tool's result and a failure name the call that they come from."""
        server, session, events = told
        assert "functionResponse" in events[4]["content"]["parts"][0]
        assert request_of(server, session, events[4])["event_id"] == events[3]["id"]
        failed = events[-1]
        assert failed["errorCode"] == "RuntimeError"
        found = request_of(server, session, failed)
        assert found["request"]["contents"][-1]["parts"][0]["text"] == "fail!"

    def test_none_for_what_no_model_said(self, told: tuple[Running, str, list[Any]]) -> None:
        """A user's message and an unknown event have no request, which is no failure: the page cannot know before."""
        server, session, events = told
        for event_id in (events[0]["id"], "nothing"):
            answer = server.client.get(f"{D}/{session}/events/{event_id}/request")
            assert (answer.status_code, answer.json()) == (200, None)
        assert server.client.get(f"{D}/nothing/events/{events[1]['id']}/request").json()["code"] == "session_not_found"


class TestADryRun:
    def test_nothing_is_sent_and_nothing_stored(self, told: tuple[Running, str, list[Any]]) -> None:
        """The request that a message would make, and its difference from the last one."""
        server, session, events = told
        answer = server.client.post(f"{D}/{session}/explain", json={"newMessage": {"parts": [{"text": "Dry?"}]}})
        found = answer.json()
        assert answer.status_code == 200
        assert (found["sent"], found["reaches_model"], found["event_id"]) == (False, True, None)
        assert found["request"]["contents"][-1] == {"parts": [{"text": "Dry?"}], "role": "user"}
        assert [each["kind"] for each in found["difference"]["differences"]] == ["added"]
        stored = server.client.get(f"{server.sessions()}/{session}").json()["events"]
        assert stored == events

    def test_of_a_session_without_runs(self, server: Running) -> None:
        """There is nothing to compare it with."""
        session = server.new_session()
        found = server.client.post(f"{D}/{session}/explain", json={"newMessage": {"parts": [{"text": "Hi"}]}}).json()
        assert found["difference"] is None

    @pytest.mark.parametrize(
        ("body", "status", "code"),
        [
            ({"newMessage": {"role": "model", "parts": []}}, 400, "invalid_message"),
            ({"newMessage": {"parts": [{"text": "x"}]}, "agent": "nobody"}, 404, "agent_not_found"),
            ({"newMessage": {"parts": [{"wrong": 1}]}}, 422, "invalid_request"),
        ],
    )
    def test_wrong_messages(self, server: Running, body: Any, status: int, code: str) -> None:
        """They are told as a run would tell them."""
        answer = server.client.post(f"{D}/{server.new_session()}/explain", json=body)
        assert (answer.status_code, answer.json()["code"]) == (status, code)

"""What a run has said itself is in its stream, in whoever's name it is stored, and whatever it is (server spec §5)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from google.genai import types
from server.serving import Running, last_words, serving
from server.talker import body

from flowloom import LlmAgent, LlmRequest, ToolContext
from flowloom.server import app_of
from flowloom.testing import FunctionModel, ScriptedModel, call


def spoken(events: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Who says what, in short: the names of calls and results, or the text."""
    told: list[tuple[str, list[str]]] = []
    for event in events:
        parts = event["content"]["parts"]
        names = [
            each.get("text") or each.get("functionCall", each.get("functionResponse", {})).get("name") for each in parts
        ]
        told.append((event["author"], names))
    return told


def test_the_result_of_a_task_is_sent_and_the_message_is_not() -> None:
    """A task's result is stored in the name of the user, and is what the run says: live, and later."""
    helper = LlmAgent(
        name="helper", mode="task", model=ScriptedModel([call("finish_task", result="42")]), description="Counts."
    )
    boss = LlmAgent(
        name="boss", model=ScriptedModel([call("helper", request="count"), "It is 42."]), sub_agents=[helper]
    )
    with serving(app_of(boss)) as server:
        session = server.new_session("boss")
        run = {**body(session, "go"), "appName": "boss"}
        sent = server.client.post("/run", json=run).json()
        path = f"{server.sessions('boss')}/{session}"
        stored = server.client.get(path).json()["events"]
        assert spoken(sent) == spoken(stored[1:])
        assert ("user", ["helper"]) in spoken(sent)
        later = server.client.get(f"{path}/runs/{sent[0]['invocationId']}/events").text
        assert later.count("data: ") == len(sent)


def test_the_service_tier_of_a_body_is_asked_of_the_model() -> None:
    model = ScriptedModel(["Hello."])
    with serving(app_of(LlmAgent(name="desk", model=model))) as server:
        run = {**body(server.new_session(), "go"), "serviceTier": "flex"}
        assert server.client.post("/run", json=run).status_code == 200
    assert [request.service_tier for request in model.requests] == ["flex"]


class TestWhatIsNoText:
    """Half of a character, as in the names of some files, and in what is cut off: it is told as U+FFFD."""

    @pytest.fixture(scope="class")
    @staticmethod
    def odd() -> Iterator[Running]:
        """A server whose agent has such texts in its answers, its failures, and what it calls and keeps."""

        async def keep(x: str, tool_context: ToolContext) -> dict[str, str]:
            """Keep it."""
            tool_context.state["authConfig"] = {"told": x + "\ud800", "token": "hidden"}
            for name in ("file", "\ud800"):
                await tool_context.save_artifact(name, types.Part(text="\ud800"))
            tool_context.request_confirmation(hint="\ud800", payload={"x": "\ud800", "n": float("nan")})
            return {"result": "\ud800"}

        def say(request: LlmRequest) -> Any:
            said = last_words(request)
            return {"fail": RuntimeError("\ud800"), "keep": [call("keep", x="\ud800")]}.get(said, "said \ud800")

        agent = LlmAgent(name="desk", model=FunctionModel(say, stream_chunks=True), tools=[keep], description="\ud800")
        with serving(app_of(agent)) as running:
            yield running

    @pytest.mark.parametrize("path", ["/run", "/run_sse", "/apps/desk/run"])
    @pytest.mark.parametrize("text", ["say", "fail", "keep"])
    def test_all_that_tells_of_a_run_tells_it(
        self, odd: Running, path: str, text: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The run, its session, and what shows how that came about."""
        caplog.set_level(logging.CRITICAL, "flowloom")  # what pytest has captured must be text
        session = odd.new_session()
        place, message = f"{odd.sessions()}/{session}", {"role": "user", "parts": [{"text": text}]}
        run = {"appName": "desk", "userId": "ann", "sessionId": session, "newMessage": message, "streaming": True}
        answer = odd.client.post(path, json=run)
        assert answer.status_code == (500 if (path, text) == ("/run", "fail") else 200)
        assert "\ufffd" in answer.text
        assert "internal_error" not in answer.text
        events = odd.client.get(place).json()["events"]
        shown = [
            *("/list-apps?detailed=true", "/apps/desk/app-info", "/dev/apps/desk/build_graph", f"{place}/runs"),
            *(odd.sessions(), f"{odd.sessions()}?limit=9", place, f"{place}/artifacts", f"{place}/artifacts/file"),
            *(f"/dev/apps/desk/debug/trace/session/{session}", f"/dev{place}/trace"),
            *(f"/dev{place}/events/{event['id']}/request" for event in events),
            *(f"{place}/runs/{events[0]['invocationId']}/events",),
        ]
        for each in shown:
            answer = odd.client.get(each)
            assert answer.status_code in (200, 404), (each, answer.text)
            assert "\\ud800" not in answer.text
            assert "hidden" not in answer.text

"""What a run has said itself is in its stream, in whoever's name it is stored (server spec §5)."""

from __future__ import annotations

from typing import Any

from server.serving import serving
from server.talker import body

from flowloom import LlmAgent
from flowloom.server import app_of
from flowloom.testing import ScriptedModel, call


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

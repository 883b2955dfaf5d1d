"""`nodeInfo` of an event: where in the tree of agents it was made (server spec §5)."""

from __future__ import annotations

from server.serving import Running, serving

from flowloom import LlmAgent, SequentialAgent
from flowloom.server import app_of
from flowloom.server.places import places_in
from flowloom.testing import ScriptedModel, call


def test_an_agent_below_another_has_both_in_its_path() -> None:
    """The path begins at the root; workflow agents, and those below them, have none."""
    step = LlmAgent(name="step", model=ScriptedModel([]))
    below = LlmAgent(name="below", model=ScriptedModel([]))
    root = LlmAgent(name="root", sub_agents=[below, SequentialAgent(name="steps", sub_agents=[step])])
    assert places_in(root) == {"root": b'{"path":"root@1"}', "below": b'{"path":"root@1/below@1"}'}


def test_events_tell_their_place_in_streams_and_sessions() -> None:
    """The user's events have an empty path."""
    flights = LlmAgent(name="flights", model=ScriptedModel(["Here."]))
    model = ScriptedModel([call("transfer_to_agent", agent_name="flights")])
    with serving(app_of(LlmAgent(name="desk", model=model, sub_agents=[flights]))) as server:
        assert _paths(server) == ["desk@1", "desk@1", "desk@1/flights@1"]
        (session,) = server.client.get(server.sessions()).json()
        kept = server.client.get(f"{server.sessions()}/{session['id']}").json()["events"]
        assert [event["nodeInfo"]["path"] for event in kept] == ["", "desk@1", "desk@1", "desk@1/flights@1"]


def _paths(server: Running) -> list[str]:
    message = {"role": "user", "parts": [{"text": "Hi."}]}
    body = {"appName": "desk", "userId": "ann", "sessionId": server.new_session(), "newMessage": message}
    return [event["nodeInfo"]["path"] for event in server.client.post("/run", json=body).json()]

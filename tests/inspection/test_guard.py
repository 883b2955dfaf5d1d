"""No test calls a hosted model by mistake."""

from __future__ import annotations

from typing import Any

import pytest
from kit import Chat, agent, call
from models.gemini_wire import text, whole
from models.wire_server import WireServer

from flowloom import Gemini, LlmAgent
from flowloom.testing import ModelGuard, ModelRequestBlockedError, ScriptedModel
from flowloom.testing import block_model_requests as forbid


def hosted(name: str = "talker", **fields: Any) -> LlmAgent:
    """An agent whose model would leave this machine."""
    return LlmAgent(name=name, model=Gemini(model="gemini-2.5-flash", api_key="k"), **fields)


async def test_a_call_of_a_hosted_model_raises_and_names_the_agent(block_model_requests: ModelGuard) -> None:
    with pytest.raises(ModelRequestBlockedError, match="`talker` was about to call the hosted model"):
        await Chat(hosted()).say("hi")
    assert len(block_model_requests.blocked) == 1
    block_model_requests.blocked.clear()


async def test_an_attempt_that_nobody_saw_is_known_all_the_same(block_model_requests: ModelGuard) -> None:
    """An agent that runs as a tool gives its caller an error result, and the run goes on."""
    root = agent("root", call("below", request="x"), "done", tools=[hosted("below")])
    assert (await Chat(root).say("hi"))[-1].text == "done"
    assert "`below`" in str(block_model_requests.blocked.pop())


async def test_models_on_this_machine_are_not_meant() -> None:
    """Scripts, and servers on loopback."""
    assert (await Chat(LlmAgent(name="a", model=ScriptedModel(["ok"]))).say("hi"))[-1].text == "ok"
    with WireServer(whole(text("from here"))) as server:
        model = Gemini(model="gemini-2.5-flash", base_url=server.url, api_key="k")
        assert (await Chat(LlmAgent(name="a", model=model)).say("hi"))[-1].text == "from here"
        await model.aclose()


async def test_the_innermost_guard_is_the_one_that_knows(block_model_requests: ModelGuard) -> None:
    with forbid() as inner, pytest.raises(ModelRequestBlockedError):
        await Chat(hosted()).say("hi")
    assert (len(inner.blocked), block_model_requests.blocked) == (1, [])


@pytest.mark.allow_model_requests
def test_a_marked_test_is_not_guarded(block_model_requests: ModelGuard | None) -> None:
    assert block_model_requests is None


@pytest.mark.parametrize(
    ("url", "is_hosted"),
    [
        (None, True),
        ("https://example.com/v1", True),
        ("http://localhost:80", False),
        ("http://127.0.0.1:1/x", False),
        ("http://[::1]:1", False),
        ("http://localhost.example.com", True),
    ],
)
def test_where_a_model_is_called_decides(url: str | None, is_hosted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL", raising=False)
    assert Gemini(model="gemini-2.5-flash", base_url=url, api_key="k").hosted is is_hosted


def test_the_environment_may_name_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9")
    assert not Gemini(model="gemini-2.5-flash", api_key="k").hosted

"""`flowloom run --model`: models of other providers, over a server on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from models.wire_server import Reply, WireServer, raw_stream
from providers.sdk_kit import frame

from .process import flowloom

AGENT = "from flowloom import LlmAgent\n\nroot_agent = LlmAgent(name='guide'{model}, instruction='Help.'{more})\n"
CHILD = ", sub_agents=[LlmAgent(name='helper', description='Helps.')]"


def said(text: str) -> Reply:
    chunk = {"model": "m", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    return raw_stream([frame(chunk), frame(b"[DONE]")])


def agent_file(folder: Path, model: str = "", more: str = "") -> Path:
    file = folder / "agent.py"
    file.write_text(AGENT.format(model=model, more=more))
    return file


def test_a_server_is_named_by_its_address(tmp_path: Path) -> None:
    with WireServer(said("Hello there.")) as server:
        done = flowloom("run", agent_file(tmp_path), "--model", f"{server.url}/v1#llama", "--message", "hi", fresh=True)
        assert server.requests[0].json["model"] == "llama"
    assert done.returncode == 0, done.stderr
    assert "guide: Hello there." in done.stdout


@pytest.mark.parametrize("more", ["", CHILD], ids=["alone", "with a child that inherits the model"])
def test_an_agent_with_a_key_of_another_provider_is_not_replaced(tmp_path: Path, more: str) -> None:
    with WireServer(said("From OpenAI.")) as server:
        file = agent_file(tmp_path, ", model='openai/gpt-5'", more)
        done = flowloom("run", file, "--message", "hi", OPENAI_API_KEY="k", OPENAI_BASE_URL=server.url)
    assert "From OpenAI." in done.stdout, done.stderr
    assert "offline" not in done.stderr


def test_an_agent_without_its_key_says_which_is_missing(tmp_path: Path) -> None:
    """The offline stand-in answers for it, whatever other keys there are."""
    file = agent_file(tmp_path, ", model='anthropic/claude-x'")
    done = flowloom("run", file, "--message", "hi", GOOGLE_API_KEY="k")
    assert done.returncode == 0, done.stderr
    assert "[offline]" in done.stdout
    assert "ANTHROPIC_API_KEY" in done.stderr

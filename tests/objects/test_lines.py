"""Lines on a terminal or in a file that does not know every character."""

from __future__ import annotations

import io

import pytest

from flowloom import InMemoryRunner, LlmAgent
from flowloom.plugins import LoggingPlugin
from flowloom.testing import ScriptedModel


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8"])
async def test_a_run_does_not_fail_because_its_words_cannot_be_shown(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by `run_debug` nor by `LoggingPlugin`; what cannot be written is told by its number."""
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding, write_through=True))
    agent = LlmAgent(name="bot", model=ScriptedModel(["caf\u00e9 \ud83d 🐈"]))
    runner = InMemoryRunner(agent, app_name="app", plugins=[LoggingPlugin()])
    assert len(await runner.run_debug("hi 🐈")) == 1
    shown = written.getvalue().decode(encoding)
    cat = "🐈" if encoding == "utf-8" else "\\U0001f408"
    assert f"bot: caf\u00e9 \\ud83d {cat}" in shown.splitlines()
    assert f"hi {cat}" in shown

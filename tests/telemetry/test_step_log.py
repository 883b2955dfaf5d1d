"""Lines for each step on Python's loggers, and the plugin that writes them for a person."""

from __future__ import annotations

import logging

import pytest
from kit import STREAMED, Chat, agent, requests_of

from flowloom import LoggingPlugin, RunConfig
from flowloom.telemetry import reread_settings, step_logs
from flowloom.testing import call

NAMES = ["flowloom.flow", "flowloom.models", "flowloom.tools", "flowloom.sessions"]


def add(a: int) -> int:
    """Add."""
    return a + 1


def chat(config: RunConfig | None = None) -> Chat:
    return Chat(
        agent("root", call("add", a=47110815), "the answer", tools=[add], instruction="a secret"), config=config
    )


@pytest.mark.parametrize("config", [None, STREAMED], ids=["unstreamed", "streamed"])
async def test_each_logger_has_a_line_for_a_step_and_no_content(
    config: RunConfig | None, caplog: pytest.LogCaptureFixture
) -> None:
    """One line per step on each; no prompt, argument, answer or result."""
    caplog.set_level(logging.DEBUG, "flowloom")
    await chat(config).say("a question")
    lines = {name: [each.getMessage() for each in caplog.records if each.name == name] for name in NAMES}
    assert [len(lines[name]) for name in NAMES] == [2, 2, 1, 4]
    assert "step 0" in lines["flowloom.flow"][0]
    assert "step 1" in lines["flowloom.flow"][1]
    assert "`add` gave a result" in lines["flowloom.tools"][0]
    assert not [
        word for word in ("secret", "question", "47110815", "47110816", "answer`", "the answer") if word in caplog.text
    ]


async def test_content_is_in_the_lines_when_its_capture_is_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    reread_settings()
    try:
        caplog.set_level(logging.DEBUG, "flowloom")
        await chat().say("a question")
    finally:
        monkeypatch.undo()
        reread_settings()
    assert not [word for word in ("a question", "47110815", "47110816", "the answer") if word not in caplog.text]


def test_a_run_whose_lines_nobody_wants_has_no_observer_for_them(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is computed while the level is off."""
    assert step_logs() == ()
    caplog.set_level(logging.DEBUG, "flowloom.models")
    assert len(step_logs()) == 1


async def test_the_logging_plugin_writes_what_happens_and_changes_nothing() -> None:
    """A line for the message, the run, the agent, each model and tool call, each event; cut to a length."""
    lines: list[str] = []
    root = agent("root", call("add", a=1), "x" * 500, tools=[add])
    await Chat(root, plugins=[LoggingPlugin(write=lines.append)]).say("hello")
    plain = agent("root", call("add", a=1), "x" * 500, tools=[add])
    await Chat(plain).say("hello")
    assert [each.contents[0] for each in requests_of(root)] == [each.contents[0] for each in requests_of(plain)]
    text = "\n".join(lines)
    for part in (
        "user message",
        "'hello'",
        "run starts",
        "agent root starts",
        "model scripted is asked by root: 1 content, tools add",
        'calls add {"a":1}',
        "tool add starts",
        "tool add ended",
        'add gave {"result":2}',
        "agent root ended",
        "run ended",
    ):
        assert part in text
    assert all(line.startswith("[logging_plugin] ") for line in lines)
    assert "x" * 300 not in text


async def test_the_logging_plugin_tells_of_failures(capsys: pytest.CaptureFixture[str]) -> None:
    """By default it prints."""

    def find() -> str:
        """Find."""
        raise KeyError("customer_7")

    root = agent("root", call("find"), ValueError("broken"), tools=[find])
    with pytest.raises(ValueError, match="broken"):
        await Chat(root, plugins=[LoggingPlugin()]).say("hello")
    out = capsys.readouterr().out
    for part in (
        "tool find failed",
        "customer_7",
        "model scripted failed for root",
        "ValueError: broken",
        "run failed",
    ):
        assert part in out

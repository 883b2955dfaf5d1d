"""The reading room: an agent whose tools are operations of a service on this machine."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kit import Chat, approve, model, pending

from flowloom.cli.loading import load_app
from flowloom.cli.model_choice import ModelChoice
from flowloom.testing import call

ROOT = Path(__file__).resolve().parents[2]
load_app(ROOT / "examples" / "reading_room")  # whose modules can be imported from then on
open_library: Any = importlib.import_module("reading_room.service").open_library


def librarian(monkeypatch: pytest.MonkeyPatch, port: int) -> Any:
    """The agent, whose toolset is told the port when its module is loaded."""
    monkeypatch.setenv("READING_ROOM_PORT", str(port))
    return importlib.reload(importlib.import_module("reading_room.agent")).root_agent


async def test_a_loan_is_made_once_a_person_has_approved_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is only read needs no approval; the card goes along, and the book is lent once."""
    with open_library() as port:
        agent = librarian(monkeypatch, port)
        listed, lent = call("list_books", shelf="novels", only_free=True), call("lend_book", title="Emma", days=7)
        chat = Chat(agent.clone(update={"model": model(listed, lent, listed, "Lent.")}))
        try:
            asked = await chat.say("Lend me a novel.")
            [waiting] = pending(asked)
            events = [*asked, *await chat.say(approve(waiting))]
        finally:
            await chat.runner.close()
    results = [each.response for event in events for each in event.get_function_responses() if each.response]
    assert {"result": [{"title": "Emma", "free": True}, {"title": "Middlemarch", "free": True}]} in results
    assert {"lent": "Emma", "days": 7} in results
    assert results[-1] == {"result": [{"title": "Middlemarch", "free": True}]}


async def test_without_the_service_the_librarian_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offline model calls the operation; that there is no service is its result, and ends no run."""
    with open_library() as port:
        root = librarian(monkeypatch, port)
    chat = Chat(root, plugins=ModelChoice(root, "offline", watched=False).plugins)
    try:
        events = await chat.say("List the books of the shelf maps")
    finally:
        await chat.runner.close()
    [result] = [each.response for event in events for each in event.get_function_responses()]
    assert result is not None
    assert "GET /shelves/{shelf}/books" in str(result["error"])
    assert events[-1].text


def test_it_runs_on_the_command_line() -> None:
    """The service and the agent start with one command."""
    command = [sys.executable, "-m", "examples.reading_room", "--model", "offline", "-m", "List the books: maps"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
    assert "Atlas of Rivers" in done.stdout, done.stdout + done.stderr

"""google-adk's `AdkWebServerClient` works on our server, unchanged, as it works on its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from server.google_adk_peer import google_adk_python, google_adk_server, our_server

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]
STORY = Path(__file__).parent / "google_adk_client_story.py"


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the client has seen on google-adk's server and on ours."""
    folder = tmp_path_factory.mktemp("servers")
    with google_adk_server(folder) as theirs, our_server(folder) as ours:
        return _seen(theirs), _seen(ours)


def _seen(url: str) -> dict[str, Any]:
    command = [google_adk_python(), "-W", "ignore", str(STORY), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_the_client_sees_what_it_sees_on_its_own_server(stories: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Sessions, runs, streams, approvals, failures, artifacts; `server` of the version apart, which is ours."""
    theirs, ours = stories
    ours["version"].remove("server")
    assert ours == theirs


def test_the_story_is_whole(stories: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """The client parses pieces, and raises for a frame with an error."""
    _, ours = stories
    assert ours["think, streamed"][0] == ["desk", "partial thought", "One "]
    assert ours["explode"] == "RuntimeError: model exploded"
    assert ours["answered"][-1] == ["desk", "text", "The result of pay is here."]
    assert (ours["deleted"], ours["unknown"]) == (404, 404)

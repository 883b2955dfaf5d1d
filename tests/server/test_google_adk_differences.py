"""The same requests to google-adk's server and to ours are answered alike, but for the gaps that have a reason."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from server import difference_edges, difference_rows, difference_runs
from server.differences import Row, ask_all, compared, differing
from server.google_adk_peer import google_adk_server, our_server

ROWS = [*difference_rows.ROWS, *difference_runs.ROWS, *difference_edges.ROWS]
pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Clients of google-adk's server and of ours, which serve the same folder."""
    folder = tmp_path_factory.mktemp("servers")
    allowed = ("--allow_origins", "https://ok.example")
    with google_adk_server(folder, *allowed) as theirs, our_server(folder, *allowed) as ours:
        # a connection of its own for each request: google-adk closes those on which a run has failed
        options = {"timeout": 30, "trust_env": False, "limits": httpx.Limits(max_keepalive_connections=0)}
        with httpx.Client(base_url=theirs, **options) as one, httpx.Client(base_url=ours, **options) as other:
            yield one, other


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.line[1:]} {row.what}")
def test_the_answers_are_alike(row: Row, clients: tuple[httpx.Client, httpx.Client]) -> None:
    """Status, headers that matter and bodies are those of google-adk's server; a gap is one, and is ours."""
    who = f"user{ROWS.index(row)}"
    theirs, ours = (ask_all(client, row, who) for client in clients)
    found = list(differing(compared(theirs), compared(ours)))
    if not row.gap:
        assert not found, "\n".join(found)
        return
    assert found, f"There is no gap any more: {row.gap}"
    assert row.ours is not None
    assert row.ours(ours) in (None, True), [answer.raw for answer in ours]

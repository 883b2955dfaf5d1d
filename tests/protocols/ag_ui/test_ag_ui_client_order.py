"""The verifier of the protocol's own client, over streams of random runs."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_events import any_event, statuses
from run_stream_kit import mapped
from test_ag_ui_client import client_home
from test_ag_ui_order import told

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]
STREAMS = 500


def random_streams() -> list[list[dict[str, Any]]]:
    """What pages are told of random runs."""
    found: list[list[dict[str, Any]]] = []

    @settings(
        max_examples=STREAMS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(events=st.lists(any_event, max_size=14), status=statuses, emit=st.sampled_from(["1.0", "legacy"]))
    def collect(events: list[Any], status: Any, emit: Any) -> None:
        found.append(asyncio.run(told(mapped(events, status), state={"k": 0}, emit=emit)))

    collect()
    return found


def test_the_clients_verifier_accepts_what_pages_are_told_of_random_runs() -> None:
    """Each event fits its schema, and all are in order."""
    home = client_home()
    shutil.copy(Path(__file__).with_name("ag_ui_verify.mjs"), home / "verify.mjs")
    streams = random_streams()

    async def verified() -> tuple[bytes, bytes]:
        node = await asyncio.create_subprocess_exec("node", "verify.mjs", cwd=home, stdin=-1, stdout=-1, stderr=-1)
        lines = "".join(json.dumps(stream) + "\n" for stream in streams)
        return await asyncio.wait_for(node.communicate(lines.encode()), 200)

    out, err = asyncio.run(verified())
    assert out.decode().strip() == str(len(streams)), out.decode()[:3000] + err.decode()[:2000]

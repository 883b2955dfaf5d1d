"""The protocol's own JavaScript client, which verifies the order of events, in front of an agent of ours."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from peers import npm_packages
from test_ag_ui import add, page_of

from benchmarks.engines import HOMES
from flowloom import FunctionTool, LlmAgent, ParallelAgent
from flowloom.testing import FunctionModel, call
from flowloom.tools import AgentTool

CLIENT = "@ag-ui/client@1.0.0"
pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]


def client_home() -> Path:
    """The folder with the client."""
    home = HOMES / "ag-ui-js"
    npm_packages(home, CLIENT)
    shutil.copy(Path(__file__).with_name("ag_ui_story.mjs"), home / "story.mjs")
    return home


def note(tool_context: Any) -> str:
    """Notes."""
    tool_context.state["noted"] = 1
    return "noted"


def answered(request: Any) -> Any:
    """What the model of the story says: by the last words, or by what came of its calls."""
    part = request.contents[-1].parts[-1]
    if part.function_response:
        return f"Done: {json.dumps(part.function_response.response)}"
    calls = {"note": [call("note")], "page": [call("colour"), call("note")], "pay": [call("pay", a=1, b=2)]}
    if part.text == "fail":
        raise ValueError("model boom")
    return calls.get(part.text) or ([call("both", request="go")] if part.text == "all" else f"You say {part.text}.")


async def test_the_client_accepts_every_stream() -> None:
    """Words, calls, a call of the page's, an approval, agents behind calls, and a failure."""
    members = [LlmAgent(name=name, model=FunctionModel(lambda _: "seen")) for name in ("left", "right")]
    both = AgentTool(ParallelAgent(name="both", description="Both look.", sub_agents=members))
    pay = FunctionTool(add, name="pay", require_confirmation=True)
    agent = LlmAgent(name="desk", model=FunctionModel(answered), tools=[note, pay, both])
    home = client_home()
    async with page_of(agent) as page:
        process = await asyncio.create_subprocess_exec(
            "node", str(home / "story.mjs"), str(page.http.base_url), cwd=home, stdout=-1, stderr=-1
        )
        out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, err.decode()
    story = json.loads(out.decode().splitlines()[-1])
    outcomes = [(each["outcome"], each["error"]) for each in story["told"]]
    success = ("success", None)
    assert outcomes[:-1] == [success, success, success, success, ("interrupt", None), success, success], story
    assert "model boom" in outcomes[-1][1]
    assert story["told"][3]["last"] == 'Done: {"done": true}'  # what the page answered came last
    assert story["told"][5]["last"] == 'Done: {"result": 3}'
    assert story["state"] == {"noted": 1}

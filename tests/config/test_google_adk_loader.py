"""The same files in google-adk's loader and in ours: the same trees (protocols spec §6)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from server.google_adk_peer import google_adk_python

from flowloom import BaseAgent, LlmAgent
from flowloom.config import ConfigFileError, agent_from_config

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
THEIRS = """
import json, sys, warnings
warnings.simplefilter("ignore")
from google.adk.agents.config_agent_utils import from_config

def tree(agent):
    tools = [getattr(tool, "name", getattr(tool, "__name__", "")) for tool in getattr(agent, "tools", [])]
    config = getattr(agent, "generate_content_config", None)
    return [type(agent).__name__, agent.name, agent.description, getattr(agent, "model", None) or None,
            getattr(agent, "instruction", None), getattr(agent, "output_key", None),
            getattr(agent, "include_contents", None), getattr(agent, "max_iterations", None), tools,
            config and config.model_dump(mode="json", exclude_none=True), [tree(child) for child in agent.sub_agents]]

told = []
for file in sys.argv[1:]:
    try:
        told.append(tree(from_config(file)))
    except Exception as error:
        told.append("refused")
print(json.dumps(told))
"""
FILES = {
    "basic": "name: assistant\nmodel: gemini-2.5-flash\ndescription: Helps.\ninstruction: Help the user.\n",
    "settings": """
name: searcher
model: gemini-2.5-flash
instruction: Look it up.
output_key: found
include_contents: none
generate_content_config:
  temperature: 0.1
  max_output_tokens: 2000
  safety_settings:
    - {category: HARM_CATEGORY_DANGEROUS_CONTENT, threshold: 'OFF'}
""",
    "tools": """
name: keeper
model: gemini-2.5-flash
instruction: Keep.
tools: [{name: exit_loop}, {name: load_memory}]
""",
    "agent_tool": """
name: asker
model: gemini-2.5-flash
instruction: Ask.
tools:
  - name: AgentTool
    args: {agent: {config_path: ./basic.yaml}, skip_summarization: false}
""",
    "loop": """
agent_class: LoopAgent
name: loop
description: Again and again.
max_iterations: 5
sub_agents:
  - config_path: settings.yaml
  - config_path: ./below/tools.yaml
""",
    "sequence": "agent_class: SequentialAgent\nname: steps\nsub_agents: [{config_path: basic.yaml}]\n",
    "unknown_key": "name: a\nmodel: gemini-2.5-flash\ninstruction: x\ninstrution: y\n",
    "no_name": "model: gemini-2.5-flash\ninstruction: x\n",
    "no_instruction": "name: a\nmodel: gemini-2.5-flash\n",
    "both_models": "name: a\nmodel: gemini-2.5-flash\nmodel_code: {name: b.c}\ninstruction: x\n",
    "outside": "name: a\ninstruction: x\nmodel: gemini-2.5-flash\nsub_agents: [{config_path: ../basic.yaml}]\n",
}


def tree(agent: BaseAgent[Any]) -> list[Any]:
    llm = agent if isinstance(agent, LlmAgent) else None
    config = llm and llm.generate_content_config
    return [
        *(type(agent).__name__, agent.name, agent.description, (llm and llm.model) or None),
        *(llm and llm.instruction, llm and llm.output_key, llm and llm.include_contents),
        getattr(agent, "max_iterations", None),
        [getattr(tool, "name", getattr(tool, "__name__", "")) for tool in (llm.tools if llm else [])],
        config and config.model_dump(mode="json", exclude_none=True),
        [tree(child) for child in agent.sub_agents],
    ]


def test_files_of_google_adk_give_the_same_trees(tmp_path: Path) -> None:
    """What one loader refuses, the other does, too."""
    (tmp_path / "below").mkdir()
    for name, text in FILES.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    (tmp_path / "below" / "tools.yaml").write_text(FILES["tools"])
    files = [tmp_path / f"{name}.yaml" for name in FILES]
    ran = subprocess.run(
        [google_adk_python(), "-c", THEIRS, *map(str, files)], capture_output=True, text=True, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    ours: list[Any] = []
    for file in files:
        try:
            ours.append(json.loads(json.dumps(tree(agent_from_config(file)))))
        except ConfigFileError:
            ours.append("refused")
    assert dict(zip(FILES, ours, strict=True)) == dict(zip(FILES, json.loads(ran.stdout.splitlines()[-1]), strict=True))

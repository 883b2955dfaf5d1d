"""The published schema of files that describe agents (protocols spec §6)."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from flowloom.config import ConfigFileError, agent_config_schema, agent_from_config

VALIDATOR = jsonschema.Draft202012Validator(agent_config_schema())
WORDS = st.sampled_from(
    ["a", "no such", "", "user", "default", "none", "exit_loop", "LoopAgent", "LlmAgent", "OFF", "b-1"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([0.5, 1.0, 2.5]) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(WORDS | st.sampled_from(["name", "args"]), inner, max_size=2)
    ),
    max_leaves=4,
)
SOUND: list[dict[str, Any]] = [
    {
        "name": "desk",
        "model": "gemini-2.5-flash",
        "instruction": "Help.",
        "tools": ["exit_loop", {"name": "load_memory"}],
        "include_contents": "none",
        "output_schema": {"type": "object"},
        "generate_content_config": {
            "temperature": 0.5,
            "top_k": 3,
            "stop_sequences": ["x"],
            "response_modalities": ["TEXT"],
            "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
            "thinking_config": {"include_thoughts": True},
        },
        "static_instruction": {"parts": [{"text": "x"}], "role": "user"},
        "disallow_transfer_to_parent": True,
        "$schema": "agent.schema.json",
    },
    {"agent_class": "LoopAgent", "name": "loop", "max_iterations": 2, "description": "x", "sub_agents": []},
    {"agent_class": "SequentialAgent", "name": "steps", "before_agent_callbacks": []},
]


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A sound document in which something was added, changed or taken away, as a person mistypes."""
    document = deepcopy(draw(st.sampled_from(SOUND)))
    for _ in range(draw(st.integers(0, 2))):
        where: Any = document
        while True:
            keys = list(where) if isinstance(where, dict) else list(range(len(where)))
            inside = [key for key in keys if isinstance(where[key], (dict, list)) and where[key]]
            if not inside or draw(st.booleans()):
                break
            where = where[draw(st.sampled_from(inside))]
        if isinstance(where, dict) and draw(st.booleans()):
            known = ["name", "model", "tools", "max_iterations", "temperature", "seed", "text", "output_key", "args"]
            where[draw(WORDS | st.sampled_from(known))] = draw(VALUES)
        elif keys:
            key = draw(st.sampled_from(keys))
            if draw(st.booleans()):
                del where[key]
            else:
                where[key] = draw(VALUES)
    return document


@settings(max_examples=150)
@given(documents())
def test_the_schema_accepts_what_the_loader_accepts(tmp_path_factory: pytest.TempPathFactory, document: dict) -> None:
    """A file that fits the schema is loaded, or its names stand for nothing; one that does not fit is refused."""
    file = tmp_path_factory.getbasetemp() / "any_agent.yaml"
    file.write_text(yaml.safe_dump(document))
    assert yaml.safe_load(file.read_text()) == document
    try:
        agent_from_config(file)
        problems: list[str] = []
    except ConfigFileError as error:
        problems = [each.message for each in error.problems]
    if VALIDATOR.is_valid(document):
        assert all(any(word in each for word in MEANING) for each in problems), problems
    else:
        assert problems


MEANING = (
    "There is no tool",
    "There is no file",
    "not in the folder",
    "leave to import",
    "no full name",
    "no model",
    "No model",
    "takes no `args`",
    "two tools",
    "include each other",
    "twice",
)
"""What a schema cannot say: whether what a name stands for is there."""


def test_the_schema_is_one_and_of_data() -> None:
    """It is valid, JSON, and refuses keys that it does not name."""
    schema = agent_config_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema
    assert not VALIDATOR.is_valid({"name": "a", "instruction": "x", "extra": 1})
    assert VALIDATOR.is_valid({"agent_class": "my.own.Agent", "name": "a", "extra": 1})


def test_files_for_editors_name_their_schema(tmp_path: Path) -> None:
    """`$schema` is a key of a file, and changes nothing."""
    file = tmp_path / "root_agent.json"
    file.write_text(json.dumps({"$schema": "x", "name": "a", "instruction": "x"}))
    assert agent_from_config(file).name == "a"

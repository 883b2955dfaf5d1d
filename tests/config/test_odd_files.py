"""Files with what nobody expects in them: each is a problem with a place (protocols spec §6)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from config.test_agent_files import problems_of

from flowloom.config import ConfigFileError, agent_from_config

Write = Callable[..., Path]


@pytest.mark.parametrize("value", ["2026-13-45", "1" * 5000, "!!int many", "!!bool perhaps", "!!timestamp now"])
def test_a_value_that_is_not_what_yaml_takes_it_for_is_a_problem_with_its_line(write: Write, value: str) -> None:
    """A date of no calendar, a number of no end: none of them is an error of Python."""
    (told,) = problems_of(write(f"name: desk\ninstruction: Help.\ndescription: {value}\n")).items()
    assert told[0] == "3"
    assert "put quotes around it to have it as text" in told[1]


def test_a_number_of_json_may_be_too_long(tmp_path: Path) -> None:
    """As in YAML."""
    file = tmp_path / "root_agent.json"
    file.write_text('{"name": "desk", "instruction": "Help.", "max_iterations": ' + "1" * 5000 + "}")
    assert [*problems_of(file)] == ["1"]


@pytest.mark.parametrize("path", ["a\\0b.yaml", "\\ud800.yaml", "x" * 300 + ".yaml", "circle.yaml"])
@pytest.mark.parametrize("entry", ["sub_agents: [{}]", "tools: [{{skills: {}}}]"])
def test_a_path_that_can_be_no_files_is_a_problem(write: Write, tmp_path: Path, path: str, entry: str) -> None:
    """Its place is told, and the text can be printed."""
    (tmp_path / "circle.yaml").symlink_to("circle.yaml")
    given = entry.format(f'"{path}"')
    file = write(f"name: desk\ninstruction: Help.\n{given}\n")
    with pytest.raises(ConfigFileError, match="is no path of a file") as caught:
        agent_from_config(file)
    assert [each.line for each in caught.value.problems] == [3]
    assert str(caught.value).encode()


def test_names_of_the_files_own_package_do_not_need_its_whole_path(
    write: Write, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is named from its own folder is in the same package."""
    tools = "[.things.roll, {name: LongRunningFunctionTool, args: {func: .things.wait}}]"
    (tmp_path / package / "root_agent.yaml").write_text(f"name: desk\ninstruction: Help.\ntools: {tools}\n")
    monkeypatch.chdir(tmp_path / package)
    agent: Any = agent_from_config("root_agent.yaml", allow_imports=[package])
    assert agent.tools[0].__name__ == "roll"


def test_a_class_of_ones_own_has_sound_keys_and_callbacks(write: Write, package: str) -> None:
    """Whatever its keys are called."""
    head = f"agent_class: {package}.things.Desk\nname: desk\ninstruction: Help.\n"
    found = problems_of(write(f"{head}1: x\nmy_callbacks: 5\nhis_callbacks: [5]\n"), allow_imports=[package])
    assert found["4 1"] == "A key has to be text. Put quotes around `1` to have it so."
    assert [*found] == ["4 1", "5 my_callbacks", "6 his_callbacks[0]"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{name: AgentTool, args: {agent: b.yaml, skip_summarization: 'no'}}", "`no`; it has to be true or false"),
        ("{name: AgentTool, args: {agent: {config_path: 5}}}", "`AgentTool` takes"),
        ("{name: McpToolset, args: {stdio_server_params: cat}}", "has to be a mapping"),
        (
            "{name: McpToolset, args: {stdio_connection_params: {server_params: }}}",
            "`server_params` of",
        ),
        ("{name: McpToolset, args: {sse_connection_params: {url: 'http://x'}, tool_filter: abc}}", "list of names"),
    ],
)
def test_what_a_built_in_tool_is_made_with_is_checked(write: Write, entry: str, words: str) -> None:
    """A text is no flag, and no list of names."""
    found = problems_of(write(f"name: a\ninstruction: x\ntools: [{entry}]\n", b="name: b\ninstruction: y\n"))
    assert words in found["3 tools[0]"]


def test_bytes_of_a_static_instruction_have_a_place(write: Write) -> None:
    """They have to be base64."""
    parts = "{parts: [{inline_data: {data: '%%%', mime_type: image/png}}]}"
    found = problems_of(write(f"name: a\ninstruction: x\nstatic_instruction: {parts}\n"))
    assert "base64" in found["3 static_instruction.parts[0].inline_data.data"]

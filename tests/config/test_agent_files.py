"""Agents from YAML and JSON files (protocols spec §6)."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowloom import AgentTool, InMemoryRunner, LlmAgent, LoopAgent, SequentialAgent, exit_loop, load_memory
from flowloom.config import ConfigFileError, agent_from_config, from_config, write_config
from flowloom.errors import ConfigurationError
from flowloom.testing import ScriptedModel, call

Write = Callable[..., Path]


def problems_of(file: Path, **options: Any) -> dict[str, str]:
    """What is wrong with a file: `line path` and the message."""
    with pytest.raises(ConfigFileError) as caught:
        agent_from_config(file, **options)
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    assert all(Path(each.file).parent == file.parent and each.line > 0 for each in caught.value.problems)
    found: dict[str, str] = {}
    for each in caught.value.problems:
        line, path = re.match(r"[^:]+:(\d+):(?: `([^`]+)`:)? ", str(each)).groups()
        found[f"{line} {path or ''}".strip()] = each.message
    return found


def test_files_describe_a_tree(write: Write) -> None:
    """The agents, their settings and their tools are those that one would make in Python; comments are for editors."""
    file = write(
        """
        # yaml-language-server: $schema=agent.schema.json
        name: desk
        model: gemini-2.5-flash
        description: A desk.
        instruction: |
          Help {name?}.
        sub_agents:
          - config_path: writing.yaml
          - ./tutor.yaml
        tools:
          - name: load_memory
          - name: AgentTool
            args: {agent: {config_path: looker.yaml}, skip_summarization: true}
        generate_content_config:
          temperature: 0.2
          safety_settings:
            - {category: HARM_CATEGORY_DANGEROUS_CONTENT, threshold: 'OFF'}
        output_schema: {type: object, properties: {city: {type: string}}}
        disallow_transfer_to_peers: true
        """,
        writing="""
        agent_class: LoopAgent
        name: writing
        max_iterations: 3
        sub_agents: [{config_path: once.yaml}]
        """,
        once="""
        agent_class: google.adk.agents.SequentialAgent
        name: once
        sub_agents: [writer.yaml]
        """,
        writer="""
        name: writer
        instruction: ""
        include_contents: none
        output_key: text
        tools: [exit_loop]
        """,
        tutor="{name: tutor, instruction: Teach., static_instruction: {parts: [{text: Be kind.}]}}",
        looker="{name: looker, instruction: Look.}",
    )
    desk = agent_from_config(file)
    assert isinstance(desk, LlmAgent)
    assert (desk.name, desk.instruction, desk.disallow_transfer_to_peers) == ("desk", "Help {name?}.\n", True)
    assert desk.generate_content_config.safety_settings[0].threshold.value == "OFF"
    assert desk.output_schema["properties"] == {"city": {"type": "string"}}
    assert desk.tools[0] is load_memory
    assert isinstance(desk.tools[1], AgentTool)
    assert (desk.tools[1].agent.name, desk.tools[1].skip_summarization) == ("looker", True)
    writing, tutor = desk.sub_agents
    assert isinstance(writing, LoopAgent)
    assert writing.max_iterations == 3
    assert isinstance(writing.sub_agents[0], SequentialAgent)
    writer = writing.sub_agents[0].sub_agents[0]
    assert (writer.include_contents, writer.output_key, writer.tools) == ("none", "text", [exit_loop])
    assert tutor.static_instruction.parts[0].text == "Be kind."
    assert from_config(str(file)).name == "desk"


async def test_an_agent_from_json_runs(tmp_path: Path) -> None:
    """A file may be JSON, laid out by tabs too; the program's own models and tools have names in it."""

    def look(city: str) -> str:
        """Looks."""
        return f"{city} is sunny"

    data = {"name": "desk", "instruction": "Help \U0001f600.", "model": "fast", "tools": ["look"]}
    file = tmp_path / "root_agent.json"
    file.write_text(json.dumps(data, indent="\t"))
    model = ScriptedModel([[call("look", city="Rome")], "Sunny."])
    agent = agent_from_config(file, models={"fast": model}, tools={"look": look})
    result = await InMemoryRunner(agent).run_to_result(user_id="u", session_id="s", new_message="Rome?")
    assert result.text == "Sunny."
    assert "\U0001f600" in str(model.requests[0].config.system_instruction)


def test_what_is_wrong_is_told_at_once_with_its_place(write: Write) -> None:
    """Each problem of each file has its line, its path, what was given, and the nearest name."""
    file = write(
        """\
        name: no
        instrution: x
        model: [a]
        tools:
          - nme: exit_loop
          - name: exit_lop
          - mcp: {comand: x, url: http://a}
          - {}
        sub_agents:
          - config_path: wrter.yaml
          - code: os.system
          - config_path: writer.yaml
        include_contents: nothing
        generate_content_config:
          temperatur: 1
          safety_settings: [{threshold: OFF}]
          tools: []
        output_schema: {a: 1}
        name: b
        disallow_transfer_to_peers: 1
        """,
        writer="""\
        agent_class: LopAgent
        name: user
        """,
    )
    found = problems_of(file)
    assert found.keys() == {
        *("1", "2 instrution", "3 model", "5 tools[0].nme", "5 tools[0]", "6 tools[1].name", "7 tools[2].mcp.comand"),
        *("8 tools[3]", "10 sub_agents[0].config_path", "11 sub_agents[1].code", "13 include_contents"),
        *("15 generate_content_config.temperatur", "16 generate_content_config.safety_settings[0].threshold"),
        *("17 generate_content_config.tools", "18 output_schema", "19 name", "20 disallow_transfer_to_peers"),
        *("1 agent_class", "2 name"),
    }
    assert "Did you mean `instruction`?" in found["2 instrution"]
    assert "Did you mean `exit_loop`?" in found["6 tools[1].name"]
    assert "Did you mean `writer.yaml`?" in found["10 sub_agents[0].config_path"]
    assert "Did you mean `LoopAgent`?" in found["1 agent_class"]
    assert "Put quotes around `OFF`" in found["16 generate_content_config.safety_settings[0].threshold"]
    assert "in line 1 too" in found["19 name"]
    assert "`1`" in found["20 disallow_transfer_to_peers"]
    assert "true or false" in found["20 disallow_transfer_to_peers"]


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "1", "is empty"),
        ("- a\n", "1", "by a mapping"),
        ("name: a\ninstruction: [\n", "3", "no YAML"),
        ("name: a\ninstruction: !!python/object/apply:os.getcwd []\n", "2", "no YAML of plain data"),
        ("a: &a [*a]\n", "1", "part of"),
        ("[" * 5000, "1", "too deep"),
        (
            "a: &a [1,1,1,1,1,1,1,1,1]\n"
            + "".join(f"{b}: &{b} [{f'*{a},' * 9}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)),
            "",
            "values",
        ),
    ],
    ids=["empty", "list", "syntax", "object", "circle", "depth", "bomb"],
)
def test_a_file_that_is_no_plain_data_is_a_problem(write: Write, text: str, place: str, words: str) -> None:
    """It makes no object, and does not grow."""
    ((where, message),) = problems_of(write(text)).items()
    assert where.startswith(place)
    assert words in message


def test_nothing_is_imported_without_leave(write: Write, package: str) -> None:
    """A package that a file names is not imported; the error says how to allow it."""
    file = write(f"{{name: a, instruction: x, tools: [{package}.things.roll], agent_class: {package}.things.Desk}}")
    found = problems_of(file, allow_imports=["own_des", "own_desk.other"])
    assert 'allow_imports=["own_desk"]' in found["1 tools[0]"]
    assert "--allow_import own_desk" in found["1 agent_class"]
    assert not [name for name in sys.modules if name.startswith(package)]


@pytest.mark.parametrize("name", ["os", "builtins", "flowloom", "flowloom.tools", "importlib.util", "yaml"])
def test_some_packages_are_never_imported(write: Write, name: str) -> None:
    """The standard library, and flowloom's own modules, can not even be allowed."""
    file = write("{name: a, instruction: x, tools: [flowloom.runner.Runner, os.system, .os.system]}")
    assert len(problems_of(file)) == 3
    with pytest.raises(ConfigurationError, match="no file may import"):
        agent_from_config(file, allow_imports=[name])


def test_packages_with_leave_give_tools_callbacks_schemas_models_and_agents(write: Write, package: str) -> None:
    """By their full names, or from a dot on for the package that is the file's folder."""
    file = write("name: unused\ninstruction: x").parent / package / "root_agent.yaml"
    file.write_text(
        textwrap.dedent(
            f"""
            agent_class: {package}.things.Desk
            name: desk
            floor: 3
            model_code: {{name: .things.model}}
            instruction: Help.
            tools:
              - name: {package}.things.roll
              - {{name: .things.made, args: {{factor: 3}}}}
              - {{name: {package}.things.Own, args: {{name: own, text: Mine.}}}}
              - {{name: LongRunningFunctionTool, args: {{func: .things.wait}}}}
            sub_agents: [{{code: .things.helper}}]
            before_agent_callbacks: [{{name: .things.before}}, .things.before]
            output_schema: {{name: .things.City}}
            """
        )
    )
    desk = agent_from_config(file, allow_imports=package)
    things = sys.modules[f"{package}.things"]
    assert (type(desk), desk.floor, desk.model) == (things.Desk, 3, things.model)
    assert desk.tools[0] is things.roll
    assert (desk.tools[1](2), desk.tools[2].name, desk.tools[3].is_long_running) == (6, "own", True)
    assert desk.sub_agents == [things.helper]
    assert desk.before_agent_callback == [things.before, things.before]
    assert desk.output_schema is things.City


def test_a_reference_to_nothing_says_what_is_missing(write: Write, package: str) -> None:
    """A module, an attribute, a class that is no agent, and what a user's code raises."""
    file = write(
        f"""\
        agent_class: {package}.things.City
        name: a
        instruction: x
        tools:
          - {package}.nothing.x
          - {package}.things.rol
          - {{name: {package}.things.Own, args: {{wrong: 1}}}}
        sub_agents: [{{code: {package}.things.roll}}]
        """
    )
    found = problems_of(file, allow_imports=[package])
    assert "no class of agents" in found["1 agent_class"]
    assert "could not be imported" in found["5 tools[0]"]
    assert "has no `rol`" in found["6 tools[1]"]
    assert "TypeError" in found["7 tools[2]"]
    assert "is no agent" in found["8 sub_agents[0].code"]


def test_files_stay_in_the_folder_of_the_root(write: Write, tmp_path: Path) -> None:
    """Neither a path nor a link leads out; what includes itself, or is included twice, is named."""
    file = write(
        """\
        name: a
        instruction: x
        sub_agents:
          - config_path: ../outside.yaml
          - config_path: /etc/passwd
          - config_path: link.yaml
          - config_path: b.yaml
          - config_path: b.yaml
        """,
        b="{name: b, instruction: x, sub_agents: [root_agent.yaml]}",
    )
    outside = tmp_path.parent / "outside.yaml"
    outside.write_text("{name: o, instruction: x}")
    (tmp_path / "link.yaml").symlink_to(outside)
    found = problems_of(file)
    for line in (4, 5, 6):
        assert "not in the folder" in found[f"{line} sub_agents[{line - 4}].config_path"]
    assert "root_agent.yaml → b.yaml → root_agent.yaml" in found["1 sub_agents[0]"]
    assert "included twice" in found["8 sub_agents[4].config_path"]
    assert "root_agent.yaml:7" in found["8 sub_agents[4].config_path"]


def test_variables_are_filled_in_where_secrets_stand(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below `env`, `headers` and `credentials` alone; one that is not set is a problem, and no value is told."""
    monkeypatch.setenv("DESK_KEY", "k-123")
    made: list[Any] = []

    def maker(args: Any) -> Callable[..., Any]:
        made.append(args)
        return exit_loop

    text = """\
    name: a
    instruction: Use ${DESK_KEY}.
    tools:
      - {name: maker, args: {headers: {X-Key: "a ${DESK_KEY}"}, text: "${DESK_KEY}"}}
    """
    agent = agent_from_config(write(text), tools={"maker": maker})
    assert agent.instruction == "Use ${DESK_KEY}."
    assert (made[0].headers, made[0].text) == ({"X-Key": "a k-123"}, "${DESK_KEY}")
    wrong = "{name: a, instruction: x, tools: [{mcp: {url: http://a, headers: {X: 12345, Y: '${DESK_NONE} s3cret'}}}]}"
    with pytest.raises(ConfigFileError) as caught:
        agent_from_config(write(wrong))
    assert "12345" not in str(caught.value)
    wrong = "{name: a, instruction: x, tools: [{name: maker, args: {headers: {Y: '${DESK_NONE} s3cret'}}}]}"
    with pytest.raises(ConfigFileError, match="`DESK_NONE` is not set") as caught:
        agent_from_config(write(wrong), tools={"maker": maker})
    assert "s3cret" not in str(caught.value)


def test_a_program_is_started_with_leave_alone(write: Write) -> None:
    """An MCP server of stdio, in our form or google-adk's, needs `allow_stdio`."""
    file = write(
        """\
        name: a
        instruction: x
        tools:
          - mcp: {command: run-me, args: [x]}
          - {name: McpToolset, args: {stdio_server_params: {command: run-me}}}
        """
    )
    found = problems_of(file)
    assert all("allow_stdio=True" in message and "run-me" in message for message in found.values())
    assert len(found) == 2


def test_a_tree_is_written_as_files_that_make_it_again(write: Write, package: str, tmp_path: Path) -> None:
    """What the format can say comes back; written twice, the files are the same."""
    things = __import__(f"{package}.things").things
    tree = LlmAgent(
        name="desk",
        model="gemini-2.5-flash",
        instruction="Help.\nBe kind.",
        tools=[things.roll, exit_loop, AgentTool(LlmAgent(name="looker"))],
        before_model_callback=things.before,
        output_schema=things.City,
        generate_content_config={"temperature": 0.5, "response_modalities": ["TEXT"]},
        sub_agents=[LoopAgent(name="loop", max_iterations=2, sub_agents=[LlmAgent(name="in_loop", output_key="x")])],
    )
    one, two = (tmp_path / name for name in ("one", "two"))
    again = agent_from_config(write_config(tree, one), allow_imports=[package])
    write_config(again, two)
    assert {file.name: file.read_text() for file in one.iterdir()} == {
        file.name: file.read_text() for file in two.iterdir()
    }
    assert sorted(file.name for file in one.iterdir()) == [
        "in_loop.yaml",
        "looker.yaml",
        "loop.yaml",
        "root_agent.yaml",
    ]
    assert (again.tools[0], again.output_schema, again.instruction) == (things.roll, things.City, tree.instruction)
    with pytest.raises(FileExistsError):
        write_config(tree, one)


def test_what_no_file_can_say_is_told_before_anything_is_written(tmp_path: Path) -> None:
    """All of it, by agent."""
    agent = LlmAgent(name="a", model=ScriptedModel([]), tools=[lambda: 1], output_retries=5)
    with pytest.raises(ConfigurationError) as caught:
        write_config(agent, tmp_path / "new")
    assert all(word in str(caught.value) for word in ("`model`", "<lambda>", "`output_retries`"))
    assert not (tmp_path / "new").exists()


def test_servers_documents_skills_and_remote_agents_are_entries(write: Write, tmp_path: Path) -> None:
    """Each becomes the toolset, or the agent, that one would make in Python; nothing is connected before a run."""
    (tmp_path / "skills" / "greet").mkdir(parents=True)
    (tmp_path / "skills" / "greet" / "SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\nHi\n")
    (tmp_path / "spec.json").write_text('{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {}}')
    agent = agent_from_config(
        write(
            """
            name: desk
            model: gemini-2.5-flash
            instruction: Help.
            tools:
              - mcp: {command: cat, args: ["-"]}
              - mcp: {url: "http://127.0.0.1:1/mcp", transport: sse}
              - {name: McpToolset, args: {stdio_server_params: {command: cat}, tool_filter: [x]}}
              - openapi: {spec_path: spec.json, base_url: "https://shop.example"}
              - skills: skills
              - google_search
            sub_agents: [far.yaml]
            """,
            far="{agent_class: RemoteA2aAgent, name: far, agent_card: 'http://127.0.0.1:1/card'}",
        ),
        allow_stdio=True,
    )
    kinds = [type(tool).__name__ for tool in agent.tools]
    assert kinds == ["McpToolset"] * 3 + ["OpenAPIToolset", "SkillToolset", "GoogleSearchTool"]
    assert type(agent.sub_agents[0]).__name__ == "RemoteA2aAgent"
    outside = write("{name: a, instruction: x, tools: [{skills: ..}, {openapi: {spec_path: none.yaml}}]}")
    assert problems_of(outside).keys() == {"1 tools[0]", "1 tools[1]"}

"""Skills: told a little at a time, and never more than a folder holds (protocols spec §7)."""

from __future__ import annotations

import logging
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowloom import InMemoryRunner, LlmAgent, Runner, pending_calls
from flowloom.errors import ConfigurationError
from flowloom.processors import LocalCodeExecutor
from flowloom.skills import (
    DiscoveryMode,
    SkillError,
    SkillToolset,
    load_skill_from_dir,
    load_skill_from_zip,
    load_skills_from_dir,
)
from flowloom.testing import ScriptedModel, call

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes the folder of a skill."""

    def make(
        name: str = "pdf-forms", description: str = "Fills in forms.", body: str = "BODY-OF-SKILL", **files: str
    ) -> Path:
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True)
        more = files.pop("head", "")
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n{more}---\n\n# {body}\n")
        for path, text in files.items():
            file = folder / path.replace("__", "/").replace("DOT", ".")
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        return folder

    return make


async def ran(
    toolset: SkillToolset, *said: Any, message: Any = "Fill it in.", runner: InMemoryRunner | None = None
) -> Any:
    """A run of an agent with the skills; the model, the runner, and what came of it."""
    model = ScriptedModel([*said, "Done."])
    runner = runner or InMemoryRunner(LlmAgent(name="clerk", model=model, tools=[toolset]))
    result = await runner.run_to_result(user_id="u", session_id="s", new_message=message)
    return runner.agent.model, runner, result


async def session_of(runner: InMemoryRunner) -> Any:
    return await runner.session_service.get_session(app_name=runner.app_name, user_id="u", session_id="s")


def results_of(result: Any) -> list[Any]:
    return [response.response for event in result.events for response in event.get_function_responses()]


async def test_a_skill_is_told_when_it_is_asked_for(make: Make) -> None:
    """Neither its name, its text nor its files are in a request before the model asks."""
    make(references__formsDOTmd="TEXT-OF-FILE")
    toolset = SkillToolset(load_skills_from_dir(make("other", "Does other things.").parent))
    model, runner, result = await ran(
        toolset,
        call("list_skills"),
        call("load_skill", skill_name="pdf-forms"),
        call("load_skill_resource", skill_name="pdf-forms", file_path="references/forms.md"),
    )
    told = ["Fills in forms", "BODY-OF-SKILL", "TEXT-OF-FILE"]
    assert [[text in str(request) for text in told] for request in model.requests] == [
        [False, False, False],
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    listed, loaded, read = results_of(result)
    assert "<name>other</name><description>Does other things.</description>" in listed["result"]
    assert loaded["instructions"] == "# BODY-OF-SKILL"
    assert loaded["files"] == ["references/forms.md"]
    assert read["content"] == "TEXT-OF-FILE"
    assert (await session_of(runner)).state["_adk_activated_skill_clerk"] == ["pdf-forms"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"skills": ["abc"]}, "`skills` takes what `load_skill_from_dir` gives, not 'abc'"),
        ({"code_executor": 5}, "`code_executor` takes a `BaseCodeExecutor`, not 5"),
        ({"script_timeout": -1}, "`script_timeout` is a number of seconds above zero, not -1"),
        ({"script_timeout": float("nan")}, "above zero, not nan"),
    ],
)
def test_what_is_no_skill_executor_or_time_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        SkillToolset(**given)


async def test_a_hundred_skills_cost_little_at_the_start(make: Make) -> None:
    """Eagerly told, each takes fewer than 100 tokens (of four bytes), however long its description is."""
    for number in range(100):
        make(f"skill-{number}-" + "x" * 50, "ä & <b> " * 120)
    skills = load_skills_from_dir(make("last").parent)
    toolset = SkillToolset(skills, discovery_mode=DiscoveryMode.EAGER)
    model, _, _ = await ran(toolset)
    told = str(model.requests[0].config.system_instruction)
    assert all(f"<name>{skill.name}</name>" in told for skill in skills)
    assert len(told.encode()) / 4 < 100 * len(skills)
    assert "list_skills" not in model.requests[0].tools_dict


async def test_the_tools_of_a_skill_come_when_it_is_loaded(make: Make) -> None:
    """In the next step, in the next run, and in another process that has the state; not after it is unloaded."""

    def stamp(text: str) -> str:
        """Stamps."""
        return f"stamped {text}"

    skills = [load_skill_from_dir(make(head="metadata: {adk_additional_tools: [stamp]}\n"))]
    toolset = SkillToolset(skills, additional_tools=[stamp])
    model, runner, result = await ran(toolset, call("load_skill", skill_name="pdf-forms"), call("stamp", text="it"))
    assert ["stamp" in request.tools_dict for request in model.requests] == [False, True, True]
    assert results_of(result)[-1] == {"result": "stamped it"}
    again = ScriptedModel([call("unload_skill", skill_name="pdf-forms"), "Gone.", "Still gone."])
    service = runner.session_service
    other = Runner(
        app_name=runner.app_name,
        agent=LlmAgent(name="clerk", model=again, tools=[SkillToolset(skills, additional_tools=[stamp])]),
        session_service=service,
    )
    for _ in range(2):
        await other.run_to_result(user_id="u", session_id="s", new_message="Go on.")
    assert "stamp" in again.requests[0].tools_dict
    assert "stamp" not in again.requests[2].tools_dict


def test_a_tool_that_a_skill_names_has_to_be_there(make: Make) -> None:
    """It is said before any run, with the skill."""
    skill = load_skill_from_dir(make(head="metadata: {adk_additional_tools: [stamp]}\n"))
    with pytest.raises(ConfigurationError, match="`pdf-forms` names the tools `stamp`"):
        SkillToolset([skill])
    with pytest.raises(ConfigurationError, match="Two skills"):
        SkillToolset([load_skill_from_dir(skill.files.shown(""))] * 2, additional_tools=[print])


@pytest.mark.parametrize(
    "path",
    [
        "../other/secret.txt",
        "/etc/passwd",
        "link.txt",
        "folder/x",
        "a/../../x",
        "",
        ".",
        "pipe",
        "references\\x",
        "nothing.md",
    ],
)
def test_no_path_leads_out(make: Make, tmp_path: Path, path: str) -> None:
    """Neither a path nor a link does; what is no plain file is not read."""
    folder = make()
    outside = tmp_path / "skills" / "other"
    outside.mkdir()
    (outside / "secret.txt").write_text("SECRET")
    (folder / "link.txt").symlink_to(outside / "secret.txt")
    (folder / "folder").symlink_to(outside)
    os.mkfifo(folder / "pipe")
    files = load_skill_from_dir(folder).files
    with pytest.raises(LookupError):
        files.read(path)
    assert files.names() == ["SKILL.md"]


def test_hidden_files_are_as_if_they_were_not_there(make: Make) -> None:
    """What no listing shows no path reads, in a folder or in an archive."""
    folder = make(DOTenv="KEY=secret", DOTgit__config="secret", assets__DOThidden="secret")
    for files in (load_skill_from_dir(folder).files, load_skill_from_zip(packed(folder)).files):
        assert files.names() == ["SKILL.md"]
        for path in (".env", ".git/config", "assets/.hidden"):
            with pytest.raises(LookupError, match="There is no file"):
                files.read(path)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts what is open in /proc")
def test_a_folder_is_no_file_and_leaves_nothing_open(make: Make) -> None:
    """Its error says so."""
    files = load_skill_from_dir(make(assets__aDOTmd="A")).files
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(LookupError, match="`assets` is no plain file"):
        files.read("assets")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_spoilt_archive_is_an_error_with_a_name(make: Make) -> None:
    """Bytes that cannot be unpacked are told as a file that cannot be read."""
    archive = packed(make(notesDOTmd="words " * 200))
    skill = load_skill_from_zip(archive)
    data = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as opened:
        entry = opened.getinfo("pdf-forms/notes.md")
    begin = entry.header_offset + 30 + len(entry.filename)
    data[begin : begin + entry.compress_size] = b"\xff" * entry.compress_size
    archive.write_bytes(data)
    with pytest.raises(LookupError, match="cannot be read out of the archive"):
        skill.files.read("notes.md")


async def test_what_is_not_there_has_a_nearest(make: Make) -> None:
    """An unknown skill, or file, is an error result that names it; a run goes on."""
    toolset = SkillToolset([load_skill_from_dir(make(references__formsDOTmd="x"))])
    _, _, result = await ran(
        toolset,
        call("load_skill", skill_name="pdf-form"),
        call("load_skill_resource", skill_name="pdf-forms", file_path="references/form.md"),
        call("unload_skill", skill_name="pdf-forms"),
    )
    unknown, file, unloaded = (each["error"] for each in results_of(result))
    assert "Did you mean `pdf-forms`?" in unknown
    assert "Did you mean `references/forms.md`?" in file
    assert "is not loaded" in unloaded


async def test_a_file_that_is_no_text_is_kept_as_an_artifact(make: Make) -> None:
    """The model is told its type, its size and its name."""
    folder = make()
    (folder / "logo.png").write_bytes(b"\x89PNG\xff\xfe")
    toolset = SkillToolset([load_skill_from_dir(folder)])
    _, runner, result = await ran(toolset, call("load_skill_resource", skill_name="pdf-forms", file_path="logo.png"))
    assert "[image/png, 6 B]: kept as the file `pdf-forms_logo.png`" in results_of(result)[0]["status"]
    keys = await runner.artifact_service.list_artifact_keys(app_name=runner.app_name, user_id="u", session_id="s")
    assert keys == ["pdf-forms_logo.png"]


async def test_a_script_needs_an_executor_and_a_person(make: Make) -> None:
    """Without an executor there is no tool for it; with one it runs in the skill's folder when a person has agreed."""
    folder = make(
        scripts__sumDOTpy="import sys\nprint(sum(map(int, sys.argv[1:])), open('note.txt').read())",
        scripts__hiDOTsh="echo hi $1",
        noteDOTtxt="from the folder",
    )
    skills = [load_skill_from_dir(folder)]
    model, _, _ = await ran(SkillToolset(skills))
    assert "run_skill_script" not in model.requests[0].tools_dict
    script = {"skill_name": "pdf-forms", "file_path": "scripts/sum.py", "args": ["2", "3"]}
    toolset = SkillToolset(skills, code_executor=LocalCodeExecutor())
    _, runner, result = await ran(toolset, [call("run_skill_script", **script)])
    assert result.status == "paused"
    (pending,) = pending_calls((await session_of(runner)).events)
    answered = await runner.run_to_result(user_id="u", session_id="s", new_message=pending.approve())
    told = next(each for each in results_of(answered) if "outcome" in each)
    assert (told["outcome"], told["output"]) == ("OUTCOME_OK", "5 from the folder")
    _, runner, result = await ran(
        toolset, [call("run_skill_script", skill_name="pdf-forms", file_path="scripts/hi.sh", args=["you"])]
    )
    (pending,) = pending_calls((await session_of(runner)).events)
    answered = await runner.run_to_result(user_id="u", session_id="s", new_message=pending.approve())
    assert "hi you" in str(results_of(answered))


HEADS = {
    "no head": ("# text", ":1: A skill begins with a head"),
    "a key twice": (
        "---\nname: bad\ndescription: x\ndescription: y\n---\n",
        "`description` is there twice, in the lines 3 and 4. Keep one of them.",
    ),
    "both spellings": (
        "---\nname: bad\ndescription: x\nallowed-tools: Read\nallowed_tools: Write\n---\n",
        "`allowed-tools` is there twice, in the lines 4 and 5.",
    ),
    "no yaml": ("---\nname: [\n---\n", "SKILL.md:2: The head is no YAML"),
    "no keys": ("---\n- a\n---\n", "has no keys"),
    "nothing": ("---\nlicense: x\n---\n", "`name` is missing.\n"),
    "name": ("---\nname: Bad_Name\ndescription: x\n---\n", "no name of a skill"),
    "folder": ("---\nname: other\ndescription: x\n---\n", "its folder `bad`"),
    "long": (f"---\nname: bad\ndescription: {'x' * 1025}\n---\n", "1025 characters; 1024 are the most"),
    "kinds": ("---\nname: bad\ndescription: 3\nmetadata: 4\ncompatibility: [a]\n---\n", "`description` is a int"),
    "tools": ("---\nname: bad\ndescription: x\nmetadata: {adk_additional_tools: stamp}\n---\n", "a list of names"),
    "blank": ("---\nname: bad\ndescription: '  '\n---\n", "`description` is missing"),
    "date": ("---\nname: bad\ndescription: x\nmetadata: {on: 2026-13-45}\n---\n", "no YAML of plain data"),
    "truth": ("---\nname: bad\ndescription: x\nmetadata: {on: !!bool x}\n---\n", "no YAML of plain data"),
    "number": (f"---\nname: bad\ndescription: {'1' * 5000}\n---\n", "no YAML of plain data"),
    "allowed": ("---\nname: bad\ndescription: x\nallowed-tools: [1]\n---\n", "a list of names"),
    "object": ("---\nname: !!python/object/apply:os.getcwd []\n---\n", "plain data"),
}


@pytest.mark.parametrize("head", HEADS)
def test_a_bad_folder_names_its_file(make: Make, head: str) -> None:
    """Each error says which file it is, and what to do; those of several folders come together."""
    folder = make("bad")
    text, words = HEADS[head]
    (folder / "SKILL.md").write_text(text)
    with pytest.raises(SkillError) as caught:
        load_skills_from_dir(folder.parent)
    assert words in str(caught.value)
    assert all(line.startswith(str(folder / "SKILL.md")) for line in str(caught.value).split("\n")[:1])


def test_keys_that_mean_nothing_are_told(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """In the log, with the nearest; what the head says of itself is kept."""
    head = "license: MIT\ncompatibility: any\nallowed-tools: Read Write\nlicence: x\n"
    with caplog.at_level(logging.WARNING):
        skill = load_skill_from_dir(make(head=head))
    assert "`licence` is no key of a skill" in caplog.text
    assert (skill.license, skill.compatibility, skill.allowed_tools) == ("MIT", "any", ("Read", "Write"))


def packed(folder: Path, *more: tuple[str, str, int], below: bool = True) -> Path:
    """An archive of a skill's folder, with more entries: name, text, and mode."""
    archive = folder.parent / "skill.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for file in folder.rglob("*"):
            opened.write(file, file.relative_to(folder.parent if below else folder))
        for name, text, mode in more:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            opened.writestr(entry, text)
    return archive


def test_an_archive_is_read_where_it_is(make: Make) -> None:
    """With or without a folder of its own; nothing is unpacked."""
    folder = make(references__formsDOTmd="x")
    for below in (True, False):
        skill = load_skill_from_zip(packed(folder, below=below))
        assert skill.instructions() == "# BODY-OF-SKILL"
        assert skill.files.names() == ["SKILL.md", "references/forms.md"]
        assert skill.files.read("references/forms.md") == b"x"


@pytest.mark.parametrize(
    "entry", [("../out.txt", "x", 0o100644), ("/etc/x", "x", 0o100644), ("pdf-forms/l", "/etc/passwd", 0o120777)]
)
def test_no_entry_of_an_archive_leads_out(make: Make, entry: tuple[str, str, int]) -> None:
    """Such an archive is refused as a whole, with the entry's name."""
    with pytest.raises(SkillError, match="The entry"):
        load_skill_from_zip(packed(make(), entry))


async def test_state_is_filled_in_where_a_skill_says_so(make: Make) -> None:
    """Braces stay as they are in others."""
    make("plain", body="Hello {name}")
    make("filled", body="Hello {name}", head="metadata: {adk_inject_state: true}\n")
    skills = load_skills_from_dir(make("last").parent)
    model = ScriptedModel([[call("load_skill", skill_name=name) for name in ("plain", "filled")], "Done."])
    runner = InMemoryRunner(LlmAgent(name="clerk", model=model, tools=[SkillToolset(skills)]))
    result = await runner.run_to_result(user_id="u", session_id="s", new_message="Go.", state_delta={"name": "Ann"})
    assert [each["instructions"] for each in results_of(result)] == ["# Hello {name}", "# Hello Ann"]
    assert (await session_of(runner)).state["_adk_activated_skill_clerk"] == ["plain", "filled"]

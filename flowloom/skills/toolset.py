"""`SkillToolset`: skills as tools, told a little at a time (protocols spec §7)."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, cast
from xml.sax.saxutils import escape

from google.genai import types

from flowloom.context import Context, ReadonlyContext
from flowloom.errors import ConfigurationError, DuplicateToolError, ToolError, closest_of, quoted_list
from flowloom.models.request import LlmRequest
from flowloom.processors.code_execution import run_task
from flowloom.processors.code_executors import BaseCodeExecutor, CodeExecutionInput, File
from flowloom.processors.template import inject_session_state
from flowloom.protocols.results import MAX_RESULT_BYTES, size, within_limit
from flowloom.protocols.words import cleaned
from flowloom.skills.files import SkillFileError
from flowloom.skills.skill import INJECT_STATE, SKILL_FILE, Skill
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.base_toolset import BaseToolset, ToolPredicate
from flowloom.tools.function_tool import FunctionTool

_TOLD = 280
"""How many bytes of a description are told at the start: with name and form, below 100 tokens."""
_LISTED = 200
"""How many files of a skill are named when it is loaded."""
_STARTERS = {".py": "python", ".sh": "sh", ".bash": "bash"}


class DiscoveryMode(Enum):
    """How the model learns which skills there are."""

    LAZY = "lazy"
    """It asks, by `list_skills`: the request stays free of their names."""
    EAGER = "eager"
    """Names and descriptions stand in the system instruction: a call less, for few skills."""


class SkillToolset(BaseToolset):
    """Skills for a model: it learns their names, loads the text of one, reads its files, and runs its scripts.

    `skills` are those there are. `code_executor` runs their scripts, each after a person has confirmed it, for at most
    `script_timeout` seconds; without one there is no tool for it. `additional_tools` are tools, functions or toolsets
    that skills name in their metadata (`adk_additional_tools`): each is offered while a skill that names it is loaded.
    `tool_filter` and `tool_name_prefix` are those of `BaseToolset`. `discovery_mode` says how the model learns of the
    skills.

    What is loaded stands in the session's state, for each agent, so that a resumed run has the same skills.
    Raises `ConfigurationError` for two skills of one name, for a tool that a skill names and that is not there, and for
    what is no skill, executor or time.
    """

    def __init__(
        self,
        skills: Sequence[Skill] | None = None,
        *,
        code_executor: BaseCodeExecutor | None = None,
        additional_tools: Sequence[Any] | None = None,
        tool_filter: Sequence[str] | ToolPredicate | None = None,
        tool_name_prefix: str | None = None,
        discovery_mode: DiscoveryMode = DiscoveryMode.LAZY,
        script_timeout: float = 300,
    ) -> None:
        super().__init__(tool_filter=tool_filter, tool_name_prefix=tool_name_prefix)
        self._skills: dict[str, Skill] = {}
        for skill in skills or ():
            if not isinstance(skill, Skill):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"`skills` takes what `load_skill_from_dir` gives, not {skill!r:.60}.")
            if skill.name in self._skills:
                raise ConfigurationError(f"Two skills are named `{skill.name}`. Rename one, and its folder.")
            self._skills[skill.name] = skill
        if not isinstance(discovery_mode, DiscoveryMode):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"`discovery_mode` is `{discovery_mode}`. Give `DiscoveryMode.LAZY` or `.EAGER`.")
        if code_executor is not None and not isinstance(code_executor, BaseCodeExecutor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"`code_executor` takes a `BaseCodeExecutor`, not {code_executor!r:.60}.")
        if not script_timeout > 0:
            raise ConfigurationError(f"`script_timeout` is a number of seconds above zero, not {script_timeout!r}.")
        self._discovery = discovery_mode
        self._executor = code_executor and code_executor.model_copy(update={"timeout_seconds": script_timeout})
        self._toolsets = [each for each in additional_tools or () if isinstance(each, BaseToolset)]
        plain = [each for each in additional_tools or () if not isinstance(each, BaseToolset)]
        self._additional = {tool.name: tool for tool in map(_tool_of, plain)}
        if len(self._additional) != len(plain):
            raise DuplicateToolError("Two of the additional tools have one name. Rename one.")
        self._check_additional()
        own = [self.list_skills] if discovery_mode is DiscoveryMode.LAZY else []
        self._own: list[BaseTool] = [
            FunctionTool(each) for each in (*own, self.load_skill, self.load_skill_resource, self.unload_skill)
        ]
        if self._executor is not None:
            self._own.append(FunctionTool(self.run_skill_script, require_confirmation=True))

    def _check_additional(self) -> None:
        for skill in self._skills.values():
            missing = [name for name in skill.additional_tools if name not in self._additional]
            if missing and not self._toolsets:
                raise ConfigurationError(
                    f"The skill `{skill.name}` names the tools {quoted_list(missing)}, which are not among "
                    f"`additional_tools`: {quoted_list(self._additional)}."
                )

    # -- what the engine asks for --------------------------------------------------------------

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """The tools of skills, and those that came with the ones which the agent of `readonly_context` has loaded."""
        if readonly_context is None:
            return list(self._own)
        return [*self._own, *await self._tools_of_loaded(readonly_context)]

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        """Tell the model of `llm_request` about skills, and declare the tools of those loaded since its tools were
        listed; `tool_context` says for which agent."""
        llm_request.append_instructions([self._guide()])
        if self._loaded(tool_context):
            known = llm_request.tools_dict
            listed = await self.get_tools_with_prefix(tool_context)
            llm_request.append_tools([tool for tool in listed if tool.name not in known])

    async def close(self) -> None:
        """Close the additional toolsets."""
        for toolset in self._toolsets:
            await toolset.close()

    # -- the tools -----------------------------------------------------------------------------

    def list_skills(self) -> str:
        """List all skills, with names and descriptions."""
        return self._list()

    async def load_skill(self, skill_name: str, tool_context: Context) -> dict[str, Any]:
        """Load the instructions of a skill. Read and follow them before you answer.

        Args:
            skill_name: The name of the skill.
        """
        skill = self._found(skill_name)
        text = skill.instructions()
        if skill.metadata.get(INJECT_STATE):
            text = await inject_session_state(text, ReadonlyContext(tool_context.invocation_context))
        self._remember(tool_context, [*self._loaded(tool_context), skill.name])
        files = [name for name in skill.files.names() if name != SKILL_FILE]
        head = {"name": skill.name, "description": skill.description}
        head |= {"license": skill.license} if skill.license else {}
        head |= {"compatibility": skill.compatibility} if skill.compatibility else {}
        told: dict[str, Any] = {"skill_name": skill.name, "instructions": text, "frontmatter": head}
        if files:
            told["files"] = files[:_LISTED] + ([f"... {len(files) - _LISTED} more"] if len(files) > _LISTED else [])
        if skill.additional_tools:
            told["tools"] = skill.additional_tools
        return await within_limit(told, MAX_RESULT_BYTES, tool_context, "load_skill")

    async def load_skill_resource(self, skill_name: str, file_path: str, tool_context: Context) -> dict[str, Any]:
        """Read a file of a skill.

        Args:
            skill_name: The name of the skill.
            file_path: The file, from the skill's folder on, as `references/forms.md`.
        """
        skill = self._found(skill_name)
        data = self._read(skill, file_path)
        told: dict[str, Any] = {"skill_name": skill.name, "file_path": file_path}
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return told | {"status": await self._kept(skill, file_path, data, tool_context)}
        if len(data) <= MAX_RESULT_BYTES:
            return told | {"content": text}
        return told | {"content": (await within_limit(text, MAX_RESULT_BYTES, tool_context, skill.name))["result"]}

    def unload_skill(self, skill_name: str, tool_context: Context) -> dict[str, Any]:
        """Let go of a skill that is not needed any more: its instructions no longer apply, and its tools go.

        Args:
            skill_name: The name of the skill.
        """
        loaded = self._loaded(tool_context)
        if skill_name not in loaded:
            raise ToolError(f"The skill `{skill_name}` is not loaded. Loaded: {quoted_list(loaded)}.")
        self._remember(tool_context, [name for name in loaded if name != skill_name])
        return {"skill_name": skill_name, "unloaded": True, "active_skills": self._loaded(tool_context)}

    async def run_skill_script(
        self, skill_name: str, file_path: str, tool_context: Context, args: list[str] | None = None
    ) -> dict[str, Any]:
        """Run a script of a skill, in the skill's folder.

        Args:
            skill_name: The name of the skill.
            file_path: The script, from the skill's folder on, as `scripts/check.py`.
            args: What the script is started with, as on a command line.
        """
        skill = self._found(skill_name)
        self._read(skill, file_path)
        starter = next((each for end, each in _STARTERS.items() if file_path.endswith(end)), None)
        if starter is None:
            raise ToolError(f"`{file_path}` is no script that can be run here: {quoted_list(_STARTERS)} can.")
        files = [File(f"skill/{name}", skill.files.read(name)) for name in skill.files.names()]
        code = _START.format(starter=starter, path=file_path, args=args or [])
        told = await run_task(cast(BaseCodeExecutor, self._executor), CodeExecutionInput(code, files), tool_context)
        return {"skill_name": skill.name, "file_path": file_path, **told}

    # -- what stands behind them ---------------------------------------------------------------

    def _guide(self) -> str:
        """What the model is told in each request."""
        before = f"{self.tool_name_prefix}_" if self.tool_name_prefix else ""
        found = "" if self._discovery is DiscoveryMode.EAGER else f" `{before}list_skills` tells which there are."
        guide = (
            f"You have skills: instructions for special tasks, with files of their own.{found} When one fits what you "
            f"are asked, call `{before}load_skill` and follow its instructions before you answer; "
            f"`{before}load_skill_resource` reads its files."
        )
        return guide if self._discovery is DiscoveryMode.LAZY else f"{guide}\n\n{self._list()}"

    def _list(self) -> str:
        lines = ["<available_skills>"]
        for skill in self._skills.values():
            told = _cut(escape(" ".join(cleaned(skill.description).split())))
            lines.append(f"<skill><name>{skill.name}</name><description>{told}</description></skill>")
        return "\n".join([*lines, "</available_skills>"])

    def _found(self, name: str) -> Skill:
        if name in self._skills:
            return self._skills[name]
        near = closest_of(name, self._skills)
        hint = f"There are {quoted_list([*self._skills][:20])}." if near is None else f"Did you mean `{near}`?"
        raise ToolError(f"There is no skill `{name[:100]}`. {hint}")

    def _read(self, skill: Skill, path: str) -> bytes:
        try:
            return skill.files.read(path)
        except SkillFileError as error:
            near = closest_of(path, skill.files.names())
            hint = "" if near is None else f" Did you mean `{near}`?"
            raise ToolError(f"{error}{hint}") from error

    async def _kept(self, skill: Skill, path: str, data: bytes, context: Context) -> str:
        """Keep a file that is no text as an artifact; what the model is told of it."""
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        if context.invocation_context.artifact_service is None:
            return f"[{kind}, {size(len(data))}]: no text, and the runner keeps no files"
        name = f"{skill.name}_{path.replace('/', '_')}"
        await context.save_artifact(name, types.Part.from_bytes(data=data, mime_type=kind))
        return f"[{kind}, {size(len(data))}]: kept as the file `{name}`, which `load_artifacts` shows"

    async def _tools_of_loaded(self, context: ReadonlyContext) -> list[BaseTool]:
        """The additional tools that the loaded skills name."""
        loaded = [self._skills[name] for name in self._loaded(context) if name in self._skills]
        wanted = dict.fromkeys(name for skill in loaded for name in skill.additional_tools)
        if not wanted:
            return []
        listed = dict(self._additional)
        for toolset in self._toolsets:
            listed |= {tool.name: tool for tool in await toolset.get_tools_with_prefix(context)}
        return [listed[name] for name in wanted if name in listed]

    def _loaded(self, context: ReadonlyContext) -> list[str]:
        """The skills that an agent has loaded, as its session's state has it."""
        found = context.state.get(_state_key(context))
        return [name for name in cast("list[Any]", found) if isinstance(name, str)] if isinstance(found, list) else []

    def _remember(self, context: Context, names: Sequence[str]) -> None:
        context.state[_state_key(context)] = list(dict.fromkeys(names))


def _state_key(context: ReadonlyContext) -> str:
    return f"_adk_activated_skill_{context.agent_name}"


def _tool_of(tool: Any) -> BaseTool:
    return tool if isinstance(tool, BaseTool) else FunctionTool(tool)


def _cut(text: str) -> str:
    data = text.encode()
    if len(data) <= _TOLD:
        return text
    return re.sub("&[^;]*$", "", data[: _TOLD - 3].decode("utf-8", "ignore")) + "…"


_START = """\
import os, runpy, subprocess, sys
os.chdir("skill")
path, args, starter = {path!r}, {args!r}, {starter!r}
if starter == "python":
    sys.argv = [path, *args]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    runpy.run_path(path, run_name="__main__")
else:
    sys.exit(subprocess.run([starter, path, *args]).returncode)
"""
"""What an executor runs: a script in the folder that the skill's files were written to."""

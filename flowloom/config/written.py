"""`write_config`: an agent, and all below it, as files that `agent_from_config` reads (protocols spec §6)."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

from google.genai import types
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from flowloom import tools as built_in
from flowloom.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from flowloom.config.documents import yaml
from flowloom.errors import ConfigurationError
from flowloom.extras import require

_CLASSES: tuple[type[BaseAgent], ...] = (LlmAgent, SequentialAgent, ParallelAgent, LoopAgent)
_AS_IT_IS = ("name", "description", "instruction", "output_key", "include_contents", "max_iterations", "model")
_FLAGS = ("disallow_transfer_to_parent", "disallow_transfer_to_peers")
_CALLBACKS = ("before_agent_callback", "after_agent_callback", "before_model_callback", "after_model_callback")
_TOOL_CALLBACKS = ("before_tool_callback", "after_tool_callback")


def write_config(agent: BaseAgent, folder: str | os.PathLike[str]) -> Path:
    """Write an agent as `root_agent.yaml` in `folder`, each agent below it as a file of its own; the path of the first.

    Functions, classes and agents of packages are written by their full names, so that loading them takes
    `allow_imports`. Raises `ConfigurationError` with all that a file cannot say, before anything is written, and
    `FileExistsError` for a file that is there already.
    """
    require(yaml)
    writing = _Writing(Path(folder))
    writing.add(agent, "root_agent.yaml")
    if writing.problems:
        raise ConfigurationError("Files cannot say all of this agent:\n" + "\n".join(writing.problems))
    for name in writing.files:
        if (writing.folder / name).exists():
            raise FileExistsError(f"`{writing.folder / name}` is there already. Remove it, or give another folder.")
    writing.folder.mkdir(parents=True, exist_ok=True)
    for name, data in writing.files.items():
        text = yaml.dump(data, Dumper=_dumper(), sort_keys=False, allow_unicode=True)
        (writing.folder / name).write_text(text, encoding="utf-8")
    return writing.folder / "root_agent.yaml"


class _Writing:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, dict[str, Any]] = {}
        self.problems: list[str] = []

    def add(self, agent: BaseAgent, file: str) -> None:
        """Make the data of an agent's file, and of the files of those below it."""
        kind = next((each for each in _CLASSES if type(agent) is each), None)
        data: dict[str, Any] = {"agent_class": type(agent).__name__ if kind else self._full_name(agent, type(agent))}
        self.files[file] = data
        for field, info in type(agent).model_fields.items():
            value = getattr(agent, field)
            default = info.get_default(call_default_factory=True)
            if field in ("name", "instruction") or (default is PydanticUndefined and value) or value != default:
                self._say(agent, data, field, value)

    def _say(self, agent: BaseAgent, data: dict[str, Any], field: str, value: Any) -> None:
        if (field in _AS_IT_IS and isinstance(value, (str, int))) or field in _FLAGS:
            data[field] = value
        elif field == "sub_agents":
            data[field] = [{"config_path": self._file_of(child)} for child in value]
        elif field == "tools":
            data[field] = [self._tool(agent, tool) for tool in value]
        elif field in (*_CALLBACKS, *_TOOL_CALLBACKS):
            callbacks = cast("list[Any]", value) if isinstance(value, list) else [value]
            data[f"{field}s"] = [{"name": self._full_name(agent, callback)} for callback in callbacks]
        elif field in ("input_schema", "output_schema"):
            data[field] = value if isinstance(value, dict) else {"name": self._full_name(agent, value)}
        elif field == "generate_content_config":
            data[field] = cast(types.GenerateContentConfig, value).model_dump(mode="json", exclude_none=True)
        elif field == "static_instruction":
            data[field] = (
                value.model_dump(mode="json", exclude_none=True) if isinstance(value, types.Content) else value
            )
        else:
            self._cannot(agent, f"`{field}` is {_kind(value)}")

    def _file_of(self, agent: BaseAgent) -> str:
        file = f"{agent.name}.yaml"
        if file in self.files:
            self._cannot(agent, "another agent of the tree has its name")
        else:
            self.add(agent, file)
        return file

    def _tool(self, agent: BaseAgent, tool: Any) -> dict[str, Any]:
        name = next((name for name in built_in.__all__ if getattr(built_in, name) is tool), None)
        if name is not None:
            return {"name": name}
        if type(tool) is built_in.AgentTool:
            args: dict[str, Any] = {"agent": {"config_path": self._file_of(cast("BaseAgent[Any]", tool.agent))}}
            return {
                "name": "AgentTool",
                "args": args | ({"skip_summarization": True} if tool.skip_summarization else {}),
            }
        if isinstance(tool, built_in.LongRunningFunctionTool):
            return {"name": "LongRunningFunctionTool", "args": {"func": self._full_name(agent, tool.func)}}
        return {"name": self._full_name(agent, tool)}

    def _full_name(self, agent: BaseAgent, value: Callable[..., Any] | type[BaseModel] | Any) -> str:
        """The name under which Python has something; a problem if it has none."""
        module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
        found: Any = inspect.getmodule(value) if name else None
        for part in name.split("."):
            found = getattr(found, part, None)
        if not name or found is not value or module == "__main__" or "." in name:
            self._cannot(agent, f"{_kind(value)} has no full name")
        return f"{module}.{name}"

    def _cannot(self, agent: BaseAgent, what: str) -> None:
        self.problems.append(f"Agent `{agent.name}`: {what}.")


@cache
def _dumper() -> Any:
    """Writes plain data, texts of several lines as blocks."""

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: Any, value: str) -> Any:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


def _kind(value: object) -> str:
    name = getattr(value, "__qualname__", "")
    return f"`{name}`" if name else f"a `{type(value).__name__}`"

"""`agent_from_config`: the agent that a YAML or JSON file describes (protocols spec §6)."""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from google.genai import types
from pydantic import ValidationError

from flowloom.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from flowloom.agents.llm_agent import Tool
from flowloom.config.documents import Document, read_document
from flowloom.config.forms import (
    FORMS,
    BaseAgentConfig,
    CustomAgentConfig,
    LlmAgentConfig,
    LoopAgentConfig,
    ParallelAgentConfig,
    RemoteA2aAgentConfig,
    SequentialAgentConfig,
)
from flowloom.config.problems import ConfigFileError, ConfigProblem, KeyPath, closest
from flowloom.config.references import Imports, LookupProblem
from flowloom.config.schema import check
from flowloom.config.tool_entries import tool_of
from flowloom.config.variables import always, filled_in
from flowloom.errors import ConfigurationError, FlowloomError
from flowloom.models import BaseLlm

_CLASSES: dict[type[BaseAgentConfig], type[BaseAgent]] = {
    LlmAgentConfig: LlmAgent,
    SequentialAgentConfig: SequentialAgent,
    ParallelAgentConfig: ParallelAgent,
    LoopAgentConfig: LoopAgent,
}
_NOT_FIELDS = ("agent_class", "$schema")
_CODE = ("model_code", "input_schema", "output_schema")


def agent_from_config(
    path: str | os.PathLike[str],
    *,
    allow_imports: Collection[str] = (),
    allow_stdio: bool = False,
    models: Mapping[str, BaseLlm | str] | None = None,
    tools: Mapping[str, Tool] | None = None,
) -> BaseAgent:
    """The agent that the YAML or JSON file at `path` describes, with all below it (protocols spec §6).

    Nothing is imported for a file's sake but the packages in `allow_imports`, named exactly; no program is started for
    an MCP server without `allow_stdio`. `models` and `tools` are what the files may name besides: a model by the name
    under `model:`, a tool by that under `tools:`. Files that it includes have to be in its folder.

    Raises `ConfigFileError` with all that is wrong in all of the files, `ConfigurationError` for a package that no file
    may import, and `MissingExtraError` without the extra `config`.
    """
    loading = Loading(Path(path), Imports(allow_imports), allow_stdio, models or {}, tools or {})
    agent = loading.load(Path(path))
    if loading.problems or agent is None:
        raise ConfigFileError(loading.problems)
    return agent


from_config = agent_from_config  # its name in google-adk


@dataclass(slots=True)
class Loading:
    """One file that is being loaded, with all those that it includes."""

    root: Path
    imports: Imports
    allow_stdio: bool
    models: Mapping[str, BaseLlm | str]
    tools: Mapping[str, Tool]
    problems: list[ConfigProblem] = field(default_factory=list[ConfigProblem])
    """All that is wrong, in the files that are done."""
    included: dict[Path, str] = field(default_factory=dict[Path, str])
    """Each file that was begun, and the line that includes it."""
    open: list[Path] = field(default_factory=list[Path])
    """The files that are being read, each included by the one before it."""

    def load(self, file: Path, included_by: str = "") -> BaseAgent | None:
        """The agent of a file; None where something is wrong, which then stands in `problems`."""
        resolved = file.resolve()
        self.included[resolved] = included_by
        self.open.append(resolved)
        document = read_document(file)
        agent = self._agent(document) if document.readable else None
        self.problems += sorted(document.problems, key=lambda problem: problem.line)
        self.open.pop()
        return agent if not document.problems else None

    def _agent(self, document: Document) -> BaseAgent | None:
        form = check(document)
        if not document.readable:
            return None
        data = cast("dict[str, Any]", document.data)
        fields = {
            key: value
            for key, value in data.items()
            if key not in _NOT_FIELDS and value is not None and document.is_sound((key,) if key != "tools" else ("",))
        }
        kind = self._class(document, form, data)
        made = {_field_of(key): self._value(document, key, value) for key, value in fields.items()}
        if document.problems or any(agent is None for agent in made.get("sub_agents", ())) or kind is None:
            return None
        try:
            return kind(**made)
        except FlowloomError as error:
            document.note((), str(error))
        except Exception as error:  # of a user's own class
            document.note((), f"The agent could not be made: {type(error).__name__}: {error}")
        return None

    def _class(self, document: Document, form: type[BaseAgentConfig], data: dict[str, Any]) -> Any:
        """What the agent is made by."""
        if form is RemoteA2aAgentConfig:
            return remote_agent
        if form is not CustomAgentConfig:
            return _CLASSES[form]
        if not document.is_sound(("agent_class",)):
            if "." not in data["agent_class"]:
                document.problems = [each for each in document.problems if each.path != ("agent_class",)]
                document.note(
                    ("agent_class",),
                    f"There is no agent class `{data['agent_class']}`. {closest(data['agent_class'], FORMS)}",
                )
            return None
        found = self._found(document, ("agent_class",), data["agent_class"])
        if inspect.isclass(found) and issubclass(found, BaseAgent):
            return cast("type[BaseAgent]", found)
        if found is not None:
            document.note(("agent_class",), f"`{data['agent_class']}` is no class of agents.")
        return None

    def _value(self, document: Document, key: str, value: Any) -> Any:
        """What an agent is given for one key of its file."""
        path: KeyPath = (key,)
        if key == "tools":
            entries = enumerate(cast("list[Any]", value) if isinstance(value, list) else [])
            return [
                tool_of(self, document, (key, place), each)
                for place, each in entries
                if document.is_sound((key, place))
            ]
        if key == "sub_agents":
            return [
                self.agent_of(document, (key, place), {"config_path": each} if isinstance(each, str) else each)
                for place, each in enumerate(cast("list[Any]", value))
            ]
        if key.endswith("_callbacks"):
            return [self._code(document, (key, place), each) for place, each in enumerate(cast("list[Any]", value))]
        if key in _CODE and (isinstance(value, str) or set(value) == {"name"}):
            return self._code(document, path, value)
        if key == "model":
            return self.models.get(value, value)
        if key == "static_instruction" and isinstance(value, dict):
            try:
                return types.Content.model_validate(value)
            except ValidationError as error:
                for each in error.errors():
                    document.note((*path, *each["loc"]), f"{each['msg']}.")
                return None
        return filled_in(document, path, value)

    def _code(self, document: Document, path: KeyPath, entry: Any) -> Any:
        name, where = (entry, path) if isinstance(entry, str) else (entry["name"], (*path, "name"))
        if path[0] == "model_code" and name in self.models:
            return self.models[name]
        return self._found(document, where, name)

    def _found(self, document: Document, path: KeyPath, name: str) -> Any:
        try:
            return self.imports.find(name, document.file.resolve().parent)
        except LookupProblem as error:
            document.note(path, str(error))
            return None

    def agent_of(self, document: Document, path: KeyPath, reference: dict[str, str]) -> BaseAgent | None:
        """The agent that a reference names; None where something is wrong, which then stands in the problems."""
        if "code" in reference:
            found = self._found(document, (*path, "code"), reference["code"])
            if found is not None and not isinstance(found, BaseAgent):
                document.note((*path, "code"), f"`{reference['code']}` is no agent, but a `{type(found).__name__}`.")
                return None
            return cast("BaseAgent | None", found)
        given = reference["config_path"]
        where = (*path, "config_path") if (*path, "config_path") in document.lines else path
        try:
            file = self.inside(document, where, given)
        except ConfigurationError as error:
            document.note(where, str(error))
            return None
        resolved = file.resolve()
        if resolved in self.open:
            trail = [each.name for each in (*self.open[self.open.index(resolved) :], resolved)]
            document.note(where, f"The files include each other: {' → '.join(trail)}.")
        elif resolved in self.included:
            document.note(
                where, f"The file is included twice, {self.included[resolved]} too. An agent stands in one place."
            )
        else:
            return self.load(file, f"by {document.file}:{document.line_of(where)}")
        return None

    def inside(self, document: Document, path: KeyPath, given: str) -> Path:
        """The file or folder that a path in a document names. Raises `ConfigurationError` if it is not there, or not in
        the folder of the root's file, links followed."""
        home = self.root.resolve().parent
        file = document.file.parent / given
        try:
            resolved, is_there = file.resolve(), file.exists()
        except (OSError, RuntimeError, ValueError) as error:  # too long, a circle of links, no text of a path
            raise ConfigurationError(f"`{given}` is no path of a file: {error}.") from error
        if Path(given).is_absolute() or home not in resolved.parents:
            raise ConfigurationError(f"`{given}` is not in the folder of `{self.root.name}`. Move it there.")
        if not is_there:
            names = [str(each.relative_to(document.file.parent)) for each in document.file.parent.glob("*.y*ml")]
            raise ConfigurationError(f"There is no file `{given}`. {closest(given, names) if names else ''}".strip())
        return file


def _field_of(key: str) -> str:
    """The field of an agent that a key of a file is for."""
    return key.removesuffix("s") if key.endswith("_callbacks") else "model" if key == "model_code" else key


def remote_agent(*, headers: dict[str, str] | None = None, **fields: Any) -> BaseAgent:
    """An agent that is served elsewhere; its `headers` go with each request."""
    if headers is not None:
        fields["header_provider"] = always(headers)
    return import_module("flowloom.protocols.a2a").RemoteA2aAgent(**fields)

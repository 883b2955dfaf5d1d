"""A skill: a folder, or an archive, with a `SKILL.md` and files beside it (protocols spec §7)."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from flowloom.errors import closest_of
from flowloom.extras import absent, missing_extra, require
from flowloom.skills.files import FolderFiles, SkillError, SkillFiles, ZipFiles

try:
    import yaml
except ImportError as error:
    yaml = absent(missing_extra("Skills need PyYAML", "config", error))

_log = logging.getLogger("flowloom.tools")
SKILL_FILE = "SKILL.md"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST = {"name": 64, "description": 1024, "compatibility": 500}
_NO_DATA = (RecursionError, ValueError, LookupError, AttributeError, ArithmeticError)
"""What PyYAML raises for values that are not what it takes them for, as a 13th month."""
_KEYS = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")
ADDITIONAL_TOOLS = "adk_additional_tools"
"""The metadata of a skill that names the tools which come with it."""
INJECT_STATE = "adk_inject_state"
"""The metadata of a skill in whose text `{key}` is filled in from the state."""


@dataclass(frozen=True, slots=True)
class Skill:
    """What the head of a `SKILL.md` says. The text below it, and the files, are read when they are asked for.

    `name`, `description`, `license`, `compatibility` and `metadata` are as they stand there.
    """

    name: str
    description: str
    files: SkillFiles = field(repr=False)
    """The files of the skill, those that are not there to be seen apart."""
    license: str | None = None
    compatibility: str | None = None
    allowed_tools: tuple[str, ...] = ()
    """The tools that the skill's author expects; a claim, which allows nothing."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])

    def instructions(self) -> str:
        """The Markdown below the head, read now. Raises `SkillError` if it is not there any more."""
        return _split(self.files.read_text(SKILL_FILE), self.files.shown(SKILL_FILE))[1]

    @property
    def additional_tools(self) -> list[str]:
        """The names of the tools that come with the skill."""
        return [str(name) for name in self.metadata.get(ADDITIONAL_TOOLS, ())]


def load_skill_from_dir(skill_dir: str | os.PathLike[str]) -> Skill:
    """The skill of the folder `skill_dir`, which has the skill's name (protocols spec §7).

    Only the head of its `SKILL.md` is kept. Raises `SkillError`, which names the file and all that is wrong with it,
    and `MissingExtraError` without the extra `config`.
    """
    folder = Path(skill_dir)
    return _skill_of(FolderFiles(folder), folder.resolve().name)


def load_skills_from_dir(skills_dir: str | os.PathLike[str]) -> list[Skill]:
    """The skills of the folders in `skills_dir` that have a `SKILL.md`, by name (protocols spec §7).

    Raises `SkillError` with all that is wrong with all of them, and for a folder without any skill.
    """
    base = Path(skills_dir)
    if not base.is_dir():
        raise SkillError(f"`{base}` is no folder. Give the folder that the skills' folders are in.")
    folders = sorted(each for each in base.iterdir() if (each / SKILL_FILE).is_file())
    if not folders:
        raise SkillError(f"There is no skill in `{base}`: none of its folders has a `{SKILL_FILE}`.")
    return list(_all_of(folders, load_skill_from_dir))


def load_skill_from_zip(path: str | os.PathLike[str]) -> Skill:
    """The skill of the zip archive `path`: its `SKILL.md` stands at the top, or in its only folder.

    Nothing is unpacked. Raises `SkillError` as `load_skill_from_dir`, and for an archive with entries that lead out of
    it, that are links, or that are too many or too large.
    """
    files = ZipFiles(Path(path))
    return _skill_of(files, files.folder)


def _all_of(folders: list[Path], load: Callable[[Path], Skill]) -> Iterator[Skill]:
    problems: list[str] = []
    for folder in folders:
        try:
            yield load(folder)
        except SkillError as error:
            problems.append(str(error))
    if problems:
        raise SkillError("\n".join(problems))


def _skill_of(files: SkillFiles, folder: str | None) -> Skill:
    require(yaml)
    where = files.shown(SKILL_FILE)
    head, _ = _split(files.read_text(SKILL_FILE), where)
    try:
        given = yaml.safe_load(head)
    except (cast(type[Exception], yaml.YAMLError), *_NO_DATA) as error:
        mark: Any = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 2}"
        raise SkillError(f"{where}{line}: The head is no YAML of plain data: {error}") from error
    if not isinstance(given, dict):
        raise SkillError(f"{where}: The head has no keys. Write at least `name` and `description`.")
    data = cast("dict[Any, Any]", given)
    problems = [*_problems(data, folder), *_said_twice(head)]
    if problems:
        raise SkillError("\n".join(f"{where}: {problem}" for problem in problems))
    for key in data.keys() - set(_KEYS) - {"allowed_tools"}:
        near = closest_of(str(key), _KEYS)
        hint = "" if near is None else f" The closest is `{near}`."
        _log.warning("%s: `%s` is no key of a skill, and means nothing here.%s", where, key, hint)
    allowed = data.get("allowed-tools", data.get("allowed_tools")) or ""
    return Skill(
        name=data["name"],
        description=data["description"].strip(),
        files=files,
        license=data.get("license"),
        compatibility=data.get("compatibility"),
        allowed_tools=tuple(allowed.split() if isinstance(allowed, str) else allowed),
        metadata=data.get("metadata") or {},
    )


def _split(text: str, where: str) -> tuple[str, str]:
    """The head of a `SKILL.md`, and what stands below."""
    lines = text.removeprefix("\ufeff").split("\n")
    ends = [number for number, line in enumerate(lines) if line.rstrip() == "---"]
    if not ends or ends[0] != 0 or len(ends) < 2:
        raise SkillError(f"{where}:1: A skill begins with a head between two lines of `---`.")
    return "\n".join(lines[1 : ends[1]]), "\n".join(lines[ends[1] + 1 :]).strip()


def _problems(data: dict[Any, Any], folder: str | None) -> Iterator[str]:
    for key in ("name", "description"):
        value = data.get(key)
        if not (value.strip() if isinstance(value, str) else value):
            yield f"`{key}` is missing."
    for key in ("name", "description", "license", "compatibility"):
        value = data.get(key)
        if value is None:
            continue
        if not isinstance(value, str):
            yield f"`{key}` is a {type(value).__name__}; it has to be text. Put quotes around it."
        elif len(value) > _LONGEST.get(key, len(value)):
            yield f"`{key}` has {len(value)} characters; {_LONGEST[key]} are the most."
    name = data.get("name")
    if isinstance(name, str) and name:
        if not _NAME.fullmatch(name):
            yield f"`{name}` is no name of a skill: use small letters, digits, and single hyphens between them."
        elif folder is not None and name != folder:
            yield f"The skill is named `{name}` and its folder `{folder}`. Name them alike."
    metadata = data.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        yield "`metadata` has to be keys with values."
    elif metadata:
        yield from _metadata_problems(cast("dict[Any, Any]", metadata))
    allowed = data.get("allowed-tools", data.get("allowed_tools"))
    names = cast("list[Any]", allowed) if isinstance(allowed, list) else []
    if not isinstance(allowed, str | list | None) or not all(isinstance(name, str) for name in names):
        yield "`allowed-tools` has to be names with spaces between, or a list of names."


def _said_twice(head: str) -> Iterator[str]:
    """Keys that are there twice, of which only one would count; `allowed-tools` has two spellings."""
    first: dict[str, int] = {}
    composed: Any = cast(Any, yaml).compose(head, Loader=yaml.SafeLoader)
    for key, _ in composed.value:
        name, line = str(key.value).replace("allowed_tools", "allowed-tools"), key.start_mark.line + 2
        if first.setdefault(name, line) != line:
            yield f"`{name}` is there twice, in the lines {first[name]} and {line}. Keep one of them."


def _metadata_problems(metadata: dict[Any, Any]) -> Iterator[str]:
    tools = metadata.get(ADDITIONAL_TOOLS)
    if tools is not None and not (isinstance(tools, list) and all(isinstance(each, str) for each in tools)):  # pyright: ignore[reportUnknownVariableType]
        yield f"`metadata.{ADDITIONAL_TOOLS}` has to be a list of names."
    if not isinstance(metadata.get(INJECT_STATE, False), bool):
        yield f"`metadata.{INJECT_STATE}` has to be true or false."

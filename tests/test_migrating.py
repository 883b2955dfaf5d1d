"""`docs/migrating.md`: each name is where it says, or not there as it says, and none of google-adk is missing."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from adk_names import MEMBERS, MODULES, NAMES

import flowloom
from flowloom.adk.table import INSTEAD, PATHS

PAGE = (Path(__file__).parents[1] / "docs" / "migrating.md").read_text(encoding="utf-8")
TABLE = re.compile(r"^\| (.+?) \|\n\|(?:---\|)+\n((?:\|.*\|\n)+)", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
NAME = re.compile(r"(\*?[A-Za-z_][\w.]*)(?:\((.*)\))?")
UNPACKED = re.compile(r"\*\*\w+: 'Unpack\[(\w+)\]'")
COMMANDS = ("flowloom ", "(ctx", "tool_declarations", "stop_streaming", "_run_async_impl")
"""How what stands in backticks begins that is no name."""


def rows(*heads: str) -> Iterator[list[str]]:
    """The cells of the tables whose columns are headed so."""
    found = [body for head, body in TABLE.findall(PAGE) if head.split(" | ") == list(heads)]
    assert found, heads
    for line in "".join(found).splitlines():
        yield line.strip("| ").split(" | ")


def is_member(owner: Any, name: str) -> bool:
    """Whether an object has an attribute, a field or a parameter of that name."""
    if hasattr(owner, name) or name in getattr(owner, "model_fields", {}) or name in getattr(owner, "__slots__", ()):
        return True
    if name in getattr(owner, "__annotations__", {}):
        return True
    if not callable(owner):
        return False
    signature = inspect.signature(owner)
    unpacked = [getattr(inspect.getmodule(owner), each) for each in UNPACKED.findall(str(signature))]
    return name in signature.parameters or any(name in each.__annotations__ for each in unpacked)


def homes() -> dict[str, str]:
    """The modules of the names of the first table."""
    found = rows("google-adk", "flowloom", "names")
    return {name: module for _, cell, names in found for module in codes(cell) for name in codes(names)}


def is_there(code: str) -> bool:
    """Whether a name of flowloom's, with the parameters in brackets, exists, in its root or where the page says."""
    match = NAME.fullmatch(code)
    assert match is not None, f"`{code}` is no name"
    path, parameters = match.groups()
    owner: Any = flowloom
    names = path.removeprefix("flowloom.").split(".") if path != "flowloom" else []
    if names and names[0] in homes():
        owner = import_module(homes()[names[0]])
    for index, name in enumerate(names):
        if inspect.ismodule(owner) and not hasattr(owner, name):
            try:
                owner = import_module(f"{owner.__name__}.{name}")
            except ImportError:
                return False
        elif not is_member(owner, name):
            return False
        elif index < len(names) - 1 or parameters:
            owner = getattr(owner, name)
    return all(is_member(owner, name.strip(" =")) for name in (parameters or "").split(",") if name)


def codes(cell: str) -> list[str]:
    return [code for code in CODE.findall(cell) if not code.startswith(COMMANDS)]


def named() -> set[str]:
    """All names of google-adk that a row tells of, with and without the class before them."""
    told: set[str] = set()
    for _, _, names in rows("google-adk", "flowloom", "names"):
        told.update(codes(names))
    for heads in (("google-adk", "flowloom"), ("google-adk", "instead")):
        for cell, _ in rows(*heads):
            for code in codes(cell):
                match = NAME.fullmatch(code)
                assert match is not None, code
                path, parameters = match.groups()
                told |= {path, *(f"{path}.{name.strip(' =')}" for name in (parameters or "").split(",") if name)}
    return told


def test_the_same_names_are_where_the_page_says() -> None:
    """Each name of the first table can be imported from the module that stands in its row."""
    for _, module, names in rows("google-adk", "flowloom", "names"):
        [home] = codes(module)
        lacking = [name for name in codes(names) if not hasattr(import_module(home), name)]
        assert lacking == [], home


@pytest.mark.parametrize("heads", [("google-adk", "flowloom"), ("adk-go", "flowloom"), ("asked for", "flowloom")])
def test_what_stands_for_other_names_exists(heads: tuple[str, ...]) -> None:
    """Each name in a column of flowloom's is there, with the parameters in its brackets."""
    assert [code for _, cell in rows(*heads) for code in codes(cell) if not is_there(code)] == []


def test_what_the_page_says_is_not_here_is_not() -> None:
    """What stands in the first column of the last table does not exist, what stands beside it does."""
    for cell, instead in rows("google-adk", "instead"):
        there = [
            code for code in codes(cell) if not code.startswith(("google.", "*", "root_agent.")) and is_there(code)
        ]
        assert there == [], cell
        assert [code for code in codes(instead) if not is_there(code)] == [], cell


def test_the_same_names_are_at_the_paths_of_google_adk() -> None:
    """Each name of the first table can be imported from `flowloom.adk` as it is from `google.adk`."""
    for theirs, _, names in rows("google-adk", "flowloom", "names"):
        paths = [code.replace("google.adk", "flowloom.adk") for code in codes(theirs) if code.startswith("google.adk")]
        found = {name for path in paths for name in import_module(path).__all__}
        found |= {name for path in PATHS for name in PATHS[path] if f"flowloom.adk.{path}".startswith((*paths,))}
        assert set(codes(names)) <= found, theirs


def test_what_is_not_in_flowloom_is_told_by_the_page_as_well() -> None:
    """Each name that an import of it says not to be there has a row."""
    assert [name for name in INSTEAD if name[0].isupper() and name not in named()] == []


def test_every_name_of_google_adk_has_a_row() -> None:
    """No public name and no module is left out; a module is told of with a name in it."""
    modules = {code for cell, *_ in rows("google-adk", "flowloom", "names") for code in codes(cell)}
    assert [name for name in NAMES if name not in named()] == []
    assert [name for name in MODULES if name not in named() | modules] == []


def test_every_member_of_a_class_is_the_same_or_has_a_row() -> None:
    """Fields, methods and parameters that are not those of google-adk's class are told of."""
    told, missing = named(), []
    for owner, members in MEMBERS.items():
        for name in members.split():
            if is_there(f"{owner}.{name}") or (is_there(owner) and is_there(f"{owner}({name}=)")):
                continue
            if not told & {name, f"{owner}.{name}", f"{owner.rpartition('.')[2]}.{name}"}:
                missing.append(f"{owner}.{name}")
    assert missing == []

"""What the reference says of each public name: its docstring is what a reader of the documentation sees."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from test_architecture import PACKAGE, parsed

import flowloom


def test_docstrings_name_the_parameters() -> None:
    """Each parameter of a public function, class or method stands in its docstring, as `name` or below `Args:`.

    The docstring of a class speaks for its methods, that of a method for those that override it, and that of a field
    for the constructor. A parameter that has to be given, the only one of its type, is told by that type if it is a
    class of the package; what overrides a method of a library is told there.
    """
    rooms = [flowloom, *(import_module(f"flowloom.{path.parent.name}") for path in PACKAGE.glob("*/__init__.py"))]
    public = [getattr(room, name) for room in rooms for name in getattr(room, "__all__", ())]
    assert sorted({missing for each in public for missing in untold(each)}) == []


def untold(public: Any) -> Iterator[str]:
    """The parameters of a function, or of a class and its methods, that no docstring names."""
    if inspect.isfunction(public):
        yield from untold_of(public, told_by(public))
    elif inspect.isclass(public) and public.__module__.startswith("flowloom."):
        line = [each for each in public.__mro__ if each.__module__.startswith("flowloom.")]
        classes = "\n".join(each.__doc__ or "" for each in line)
        library = [each for each in public.__mro__ if each not in line]
        for name, member in {name: found for each in reversed(line) for name, found in vars(each).items()}.items():
            made = getattr(member, "__func__", member)
            if not inspect.isfunction(made) or not made.__module__.startswith("flowloom."):
                continue
            if name != "__init__" and (name.startswith(("_", "test_")) or any(name in vars(each) for each in library)):
                continue
            texts = [told_by(vars(each)[name]) for each in line if name in vars(each)]
            fields = [field for each in line for field in told_fields(each)] if name == "__init__" else []
            yield from untold_of(made, "\n".join([classes, *texts, *fields]))


def untold_of(function: Callable[..., Any], told: str) -> Iterator[str]:
    """The parameters that `told` does not name and that their types do not tell."""
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name not in ("self", "cls")]
    types = [type_of(each) for each in parameters]
    for each in parameters:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) and function.__name__ == "__init__":
            continue  # the fields of a model
        kind = type_of(each)
        by_type = each.default is each.empty and types.count(kind) == 1 and kind.partition("[")[0] in own_classes()
        named = re.search(rf"`\**{each.name}\b|^\s+\**{each.name}:", told, re.MULTILINE)
        if not named and not by_type and not each.name.startswith("_"):
            yield f"{function.__module__}.{function.__qualname__}: {each.name}"


def type_of(parameter: inspect.Parameter) -> str:
    """The annotation of a parameter as the source has it, whether that is kept as a text or not."""
    kind = parameter.annotation
    return kind.__name__ if inspect.isclass(kind) else str(kind)


def told_by(member: Any) -> str:
    """The docstring of a function or method."""
    return getattr(member, "__func__", member).__doc__ or ""


def told_fields(kind: type) -> list[str]:
    """The fields of a class that have a docstring below them."""
    tree = parsed(Path(sys.modules[kind.__module__].__file__ or ""))
    body = next((node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__), [])
    return [
        f"`{ast.unparse(field.target)}`"
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    ]


@cache
def own_classes() -> frozenset[str]:
    """The names of the classes of the package that are loaded, which are those of all public names."""
    rooms = [module for name, module in list(sys.modules.items()) if name.startswith("flowloom.")]
    return frozenset(
        name
        for room in rooms
        for name, value in vars(room).items()
        if inspect.isclass(value) and value.__module__.startswith("flowloom.")
    )

"""Names and modules that are loaded when they are used. The package itself loads this, so it loads little else."""

from __future__ import annotations

import sys
from importlib import import_module

from flowloom.objects.no_collection import NoCollection

TYPE_CHECKING = False  # type checkers know it; `typing` itself takes half of the time of `import flowloom`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def homes_of(room: str, modules: Mapping[str, str]) -> dict[str, str]:
    """Each name with the whole path of the module that has it, from a room's modules with their names, in one text."""
    return {name: f"{room}.{module}" for module, names in modules.items() for name in names.split()}


def loaded_on_use(room: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a room whose names have `homes` elsewhere, which are loaded with a first name.

    A name whose home needs an extra that is not installed is a value that says so when it is used.
    """

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module `{room}` has no attribute `{name}`")
        try:
            with NoCollection():
                value = getattr(import_module(home), name)
        except ImportError as error:
            if not hasattr(error, "extra"):  # a `MissingExtraError` has one
                raise
            return import_module("flowloom.extras").absent(error)
        setattr(sys.modules[room], name, value)
        return value

    def names() -> list[str]:
        return [*vars(sys.modules[room]), *homes]

    return load, names


class ModuleOnUse:
    """A module that is loaded when something of it is first asked for: for what few of those who load this one need.

    Type checkers are told of the module itself, by an import under `TYPE_CHECKING`.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        with NoCollection():
            value = getattr(import_module(self._module), name)
        setattr(self, name, value)
        return value

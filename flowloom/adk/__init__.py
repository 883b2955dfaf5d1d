"""google-adk's module paths: what stands in `google.adk.agents.llm_agent` there is in `flowloom.adk.agents.llm_agent`.

Replacing `google.adk` by `flowloom.adk` is the whole change of imports. No code is here: the classes are those of the
other rooms, which `table` names, and each is loaded when it is used. A path or a name that flowloom does not have is a
`NotInFlowloomError`, which says what to use instead. It imports `errors` only. Begin with `table.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from flowloom.adk.table import HOMES, INSTEAD, LEAVES, PATHS
from flowloom.errors import NotInFlowloomError, closest_first, quoted_list

_BELOW = f"{__name__}."
_INSTEAD_OF = {name.lower(): told for name, told in INSTEAD.items() if "." not in name}
"""What stands for a class, by the name that its module has, but for the underscores."""


class _Paths(MetaPathFinder, Loader):
    """Makes the modules below this one, when they are imported, from the table."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_BELOW):
            return None
        where = fullname.removeprefix(_BELOW)
        if where in PATHS:
            return ModuleSpec(fullname, self, is_package=True)
        above, _, name = where.rpartition(".")
        if _has(above, name):
            return None  # there, and no module
        raise NotInFlowloomError(_not_here(above, name))

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        where = module.__name__.removeprefix(_BELOW)
        module.__doc__ = f"What flowloom has of `google.adk.{where}`."
        load, names = _on_use(where)
        for attribute, value in (("__all__", names()), ("__getattr__", load), ("__dir__", names)):
            setattr(module, attribute, value)


def _on_use(where: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the module at a path."""

    def load(name: str) -> Any:
        path = f"{where}.{name}".lstrip(".")
        if _has(where, name):
            home, own_name = HOMES[name]
            value = getattr(import_module(home), own_name)
            setattr(sys.modules[f"{_BELOW}{where}".rstrip(".")], name, value)
            return value
        if path in PATHS:
            return import_module(_BELOW + path)
        raise AttributeError(_not_here(where, name))

    return load, lambda: list(PATHS[where])


def _has(where: str, name: str) -> bool:
    """Whether the module at a path gives a name: one of its own, or of what google-adk's works with."""
    return name in PATHS[where] or (where in LEAVES and name in HOMES)


def _not_here(where: str, name: str) -> str:
    """What is said of a name at a path that flowloom does not have, or does not have there."""
    path = f"{where}.{name}".lstrip(".")
    parts = path.split(".")
    above = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    instead = next((INSTEAD[each] for each in (*above, name) if each in INSTEAD), None)
    instead = instead or _INSTEAD_OF.get(name.replace("_", ""))
    if instead is not None:
        return f"flowloom has no `google.adk.{path}`; in its place: {instead}."
    places = [each for each, names in PATHS.items() if name in names]
    if places:
        return f"`{name}` is not in `{_BELOW}{where}`, but in `{f'{_BELOW}{places[0]}'.rstrip('.')}`."
    below = (each.rpartition(".") for each in PATHS if each)
    names = {*PATHS[where], *(found for above, _, found in below if above == where)}
    told = quoted_list(closest_first(name, names))
    return f"flowloom has no `google.adk.{path}`. In `{f'{_BELOW}{where}'.rstrip('.')}` there is: {told}."


__all__ = list(PATHS[""])  # pyright: ignore[reportUnsupportedDunderAll]
__path__: list[str] = []  # nothing below is looked for among files, where only type checkers find something
__getattr__, __dir__ = _on_use("")
sys.meta_path[:] = [each for each in sys.meta_path if type(each).__module__ != __name__]  # that of before a reload
sys.meta_path.append(_Paths())

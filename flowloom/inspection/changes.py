"""What is different between two trees, as changes that can be applied one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from google.genai import types

from flowloom.inspection.tree import Blocks, Fields

Where = tuple[str | int, ...]
Kind = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference of a `kind`: where, and what stood there `before` and `after` (None where nothing stood)."""

    path: str
    """Such as `contents[3].parts[0].text`; function declarations go by name: `...[get_weather]`. An index counts at the
    moment of the change, all earlier changes made."""
    kind: Kind
    before: Any
    after: Any
    where: Where = field(repr=False, compare=False)
    """The path as keys and indices."""

    def __str__(self) -> str:
        if self.kind == "added":
            return f"{self.path} = {_short(self.after)}"
        if self.kind == "removed":
            return f"{self.path} removed, was {_short(self.before)}"
        return f"{self.path}: {_short(self.before)} -> {_short(self.after)}"


def _short(value: Any, width: int = 60) -> str:
    text = str(value) if isinstance(value, Blocks) else value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def changes_between(old: Any, new: Any) -> list[Change]:
    """The changes that make `new` of `old`, to be applied in order."""
    return list(_compare(old, new, (), ""))


def apply(tree: Any, changes: Iterable[Change]) -> Any:
    """The tree after `changes`; it is changed in place, and should be held nowhere else."""
    for change in changes:
        if not change.where:
            tree = _own(change.after)
            continue
        node = tree
        for depth, key in enumerate(change.where[:-1]):
            node = _enter(node, key, change.where[: depth + 1])
        _write(node, change.where[-1], change)
    return tree


def alignment(old: Sequence[Any], new: Sequence[Any]) -> tuple[int, int]:
    """How many entries at the beginning, and how many at the end, two lists have in common."""
    shorter = min(len(old), len(new))
    ahead = 0
    while ahead < shorter and same(old[ahead], new[ahead]):
        ahead += 1
    behind = 0
    while behind < shorter - ahead and same(old[-1 - behind], new[-1 - behind]):
        behind += 1
    return ahead, behind


def same(old: Any, new: Any) -> bool:
    """Whether two nodes are equal, and of the same type all the way down to the values."""
    return old is new or (type(old) is type(new) and bool(old == new))


def _compare(old: Any, new: Any, where: Where, path: str) -> Iterator[Change]:
    if isinstance(old, Fields) and isinstance(new, Fields) and old.cls is new.cls:
        yield from _compare_keys(old, new, where, path, ".{}".format)
    elif type(old) is dict and type(new) is dict:
        yield from _compare_keys(cast(Any, old), cast(Any, new), where, path, "[{}]".format)
    elif isinstance(old, list) and type(old) is type(new):  # pyright: ignore[reportUnknownArgumentType]
        yield from _compare_lists(cast(list[Any], old), cast(list[Any], new), where, path)
    elif not same(old, new):
        yield Change(path, "changed", old, new, where)


def _compare_keys(
    old: dict[str, Any], new: dict[str, Any], where: Where, path: str, suffix: Callable[[str], str]
) -> Iterator[Change]:
    def at(key: str) -> str:
        return (path + suffix(key)).lstrip(".")

    for key, value in old.items():
        if key not in new:
            yield Change(at(key), "removed", value, None, (*where, key))
    for key, value in new.items():
        below = (*where, key)
        if key in old:
            yield from _compare(old[key], value, below, at(key))
        elif isinstance(value, list) and value and _grows(below):
            yield from _compare_lists([], cast(list[Any], value), below, at(key))
        else:
            yield Change(at(key), "added", None, value, below)


def _compare_lists(old: list[Any], new: list[Any], where: Where, path: str) -> Iterator[Change]:
    ahead, behind = alignment(old, new)
    before, after = old[ahead : len(old) - behind], new[ahead : len(new) - behind]
    common = min(len(before), len(after))
    for index in range(common):
        place = ahead + index
        label = _label(after[index], where, place)
        yield from _compare(before[index], after[index], (*where, place), f"{path}[{label}]")
    for index in range(len(before) - 1, common - 1, -1):
        place = ahead + index
        label = _label(before[index], where, place)
        yield Change(f"{path}[{label}]", "removed", before[index], None, (*where, place))
    for index in range(common, len(after)):
        place = ahead + index
        value, below = after[index], (*where, place)
        if not behind and isinstance(value, Fields) and value.cls is types.Tool and value.get("function_declarations"):
            yield from _compare_keys(Fields(types.Tool, {}), value, below, f"{path}[{place}]", ".{}".format)
        else:
            yield Change(f"{path}[{_label(value, where, place)}]", "added", None, value, below)


def _label(value: Any, where: Where, place: int) -> str | int:
    """What an entry goes by: a function declaration by its name, all else by its index."""
    if where and where[-1] == "function_declarations" and isinstance(value, Fields):
        return value.get("name") or place
    return place


_GROWING: dict[Where, type[list[Any]]] = {("config", "tools"): list, ("config", "system_instruction"): Blocks}


def _grows(where: Where) -> bool:
    """Whether a list comes up entry by entry, and not as a whole."""
    return where in _GROWING or where[-1] == "function_declarations"


def _enter(node: Any, key: str | int, where: Where) -> Any:
    """The node below, made if the first of its entries is about to be added."""
    if isinstance(node, list):
        entries = cast(list[Any], node)
        if key == len(entries) and where[:-1] == ("config", "tools"):
            entries.append(Fields(types.Tool, {}))
        return entries[cast(int, key)]
    if key not in node and _grows(where):
        node[key] = _GROWING.get(where, list)()
    return node[key]


def _write(node: Any, key: str | int, change: Change) -> None:
    if change.kind == "removed":
        del node[key]
    elif change.kind == "added" and isinstance(node, list):
        cast(list[Any], node).insert(cast(int, key), _own(change.after))
    else:
        node[key] = _own(change.after)


def _own(value: Any) -> Any:
    """A copy of a tree that shares no container with it."""
    if isinstance(value, Fields):
        return Fields(value.cls, {key: _own(item) for key, item in value.items()})
    if isinstance(value, Blocks):
        return Blocks(value)
    if isinstance(value, list):
        return [_own(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {key: _own(item) for key, item in cast(dict[Any, Any], value).items()}
    return value

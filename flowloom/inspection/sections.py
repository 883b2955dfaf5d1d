"""The sections of a request: the pieces that have an author each, in the order of the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from flowloom.inspection.canonical import Data, Ordinals, canonical_field
from flowloom.inspection.changes import alignment, same
from flowloom.inspection.tree import Blocks, Fields
from flowloom.models.server_tools import BESIDE

INTERNAL = ("contents", "config", "model", "tools_dict", "dynamic_instructions")
SYSTEM, TOOLS, CONTENTS = "config.system_instruction", "config.tools", "contents"


@dataclass(frozen=True, slots=True)
class Section:
    """A piece of a request, at a `path` such as `config.system_instruction[1]` or
    `config.tools[0].function_declarations[add]`.

    `value` is what stands there, as plain data.
    """

    path: str
    value: Data
    by: str | None = None
    """The processor that wrote it last; None if it was not observed how the request came about."""


@dataclass(slots=True)
class _Piece:
    group: str
    label: str
    value: Any
    by: str | None = None

    @property
    def path(self) -> str:
        return self.group + self.label

    def section(self, ordinals: Ordinals) -> Section:
        name = self.path.rpartition(".")[2]
        return Section(self.path, canonical_field(name, self.value, ordinals), self.by)


class Authors:
    """Which processor wrote which section of a request last."""

    def __init__(self) -> None:
        self._groups: dict[str, list[_Piece]] = {}

    def follow(self, tree: Fields, name: str) -> None:
        """Take note of the request as `name` has left it."""
        groups: dict[str, list[_Piece]] = {}
        for piece in _pieces(tree):
            groups.setdefault(piece.group, []).append(piece)
        for group, pieces in groups.items():
            before = self._groups.get(group, [])
            if group in (CONTENTS, SYSTEM):
                _attribute_places(before, pieces, name)
            else:
                _attribute_names(before, pieces, name)
        self._groups = groups

    def sections(self, ordinals: Ordinals) -> list[Section]:
        """The sections of the request that was followed, with their authors."""
        return [piece.section(ordinals) for group in self._groups.values() for piece in group]


def sections_of(tree: Fields, ordinals: Ordinals) -> list[Section]:
    """The sections of a request of which nothing else is known."""
    return whole_system(piece.section(ordinals) for piece in _pieces(tree))


def ordinals_of(tree: Fields) -> Ordinals:
    """The names of the ids in a request."""
    ordinals = Ordinals()
    ordinals.add_calls(tree["contents"])
    return ordinals


def whole_system(sections: Iterable[Section]) -> list[Section]:
    """The sections, with the blocks of the system instruction as one."""
    kept: list[Section] = []
    blocks: list[str] = []
    at = 0
    for section in sections:
        if section.path.startswith(f"{SYSTEM}[") and isinstance(section.value, str):
            at = at if blocks else len(kept)
            blocks.append(section.value)
        else:
            kept.append(section)
    return [*kept[:at], Section(SYSTEM, str(Blocks(blocks))), *kept[at:]] if blocks else kept


def _attribute_names(before: list[_Piece], pieces: list[_Piece], name: str) -> None:
    known = {piece.label: piece for piece in before}
    for piece in pieces:
        old = known.get(piece.label)
        piece.by = old.by if old is not None and same(old.value, piece.value) else name


def _attribute_places(before: list[_Piece], pieces: list[_Piece], name: str) -> None:
    ahead, behind = alignment([piece.value for piece in before], [piece.value for piece in pieces])
    middle = len(pieces) - ahead - behind
    paired = middle == len(before) - ahead - behind
    for index, piece in enumerate(pieces):
        if index < ahead:
            old: _Piece | None = before[index]
        elif index >= ahead + middle:
            old = before[index - len(pieces)]
        else:
            old = before[index] if paired and same(before[index].value, piece.value) else None
        piece.by = name if old is None else old.by


def _pieces(tree: Fields) -> Iterator[_Piece]:
    config: Fields = tree["config"]
    if tree.get("model") is not None:
        yield _Piece("model", "", tree["model"])
    yield from _system_pieces(config.get("system_instruction"))
    yield from _tool_pieces(config.get("tools"))
    for name in sorted(config):
        if name not in ("system_instruction", "tools"):
            yield _Piece(f"config.{name}", "", config[name])
    for name in sorted(tree):
        if name == BESIDE:
            for index, tool in enumerate(tree[name]):
                yield _Piece(name, f"[{index}]", tool)
        elif name not in INTERNAL:
            yield _Piece(name, "", tree[name])
    for index, content in enumerate(tree["contents"]):
        yield _Piece(CONTENTS, f"[{index}]", content)


def _system_pieces(system: Any) -> Iterator[_Piece]:
    if isinstance(system, Blocks):
        for index, block in enumerate(system):
            yield _Piece(SYSTEM, f"[{index}]", block)
    elif isinstance(system, Fields) and isinstance(system.get("parts"), list):
        if system.get("role") is not None:
            yield _Piece(SYSTEM, ".role", system["role"])
        for index, part in enumerate(system["parts"]):
            yield _Piece(SYSTEM, f".parts[{index}]", part)
    elif system is not None:
        yield _Piece(SYSTEM, "", system)


def _tool_pieces(groups: list[Any] | None) -> Iterator[_Piece]:
    for index, group in enumerate(groups or ()):
        place = f"{TOOLS}[{index}]"
        if not isinstance(group, Fields):
            yield _Piece(place, "", group)
            continue
        declarations: list[Fields] = group.get("function_declarations") or []
        for position, declared in enumerate(declarations):
            yield _Piece(f"{place}.function_declarations", f"[{declared.get('name') or position}]", declared)
        for name in sorted(group):
            if name != "function_declarations":
                yield _Piece(f"{place}.{name}", "", group[name])

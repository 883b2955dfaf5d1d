"""`diff`: what is different between two requests, in the terms of a request; and whether a cache still holds."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, cast, runtime_checkable

from flowloom.errors import InputValidationError
from flowloom.inspection.canonical import Data
from flowloom.inspection.request_view import RequestView
from flowloom.inspection.sections import CONTENTS, SYSTEM, TOOLS, Section, whole_system
from flowloom.inspection.text import read_sections, write_sections
from flowloom.models.request import LlmRequest
from flowloom.objects.given import of_kind
from flowloom.objects.notebook import count


@runtime_checkable
class HasSections(Protocol):
    """A request with its sections: an `Assembly`, or a `RequestView`."""

    @property
    def sections(self) -> Sequence[Section]: ...


Comparable = HasSections | LlmRequest | Mapping[str, Any] | Path | str
"""An `Assembly` or what its `to_dict` gave, a `RequestView`, a request, a stored snapshot (its path or its text)."""

_COMPARED = "A request to compare is an `Assembly` or its `to_dict`, a `RequestView`, an `LlmRequest`, or a snapshot."

Part = Literal["tools", "system", "contents", "settings"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A section that is not the same in both requests.

    `path` is its place in them, `kind` what happened to it, `before` and `after` what stands there in the older and in
    the newer request (None where nothing stands).
    """

    path: str
    by: str | None
    """The processor that wrote it last, in the newer request if it is still there."""
    kind: Literal["added", "removed", "changed"]
    before: Data
    after: Data

    def __str__(self) -> str:
        author = f" (by `{self.by}`)" if self.by else ""
        return "\n".join([f"{self.kind} {self.path}{author}", *self._lines()])

    def _lines(self) -> Iterator[str]:
        before = [] if self.kind == "added" else _value_lines(self.before)
        after = [] if self.kind == "removed" else _value_lines(self.after)
        for line in difflib.ndiff(before, after):
            if not line.startswith(" "):
                yield f"  {line}".rstrip()


def _value_lines(value: Data) -> list[str]:
    if isinstance(value, str):
        return value.split("\n")
    return [line.removeprefix("  ") for line in write_sections([Section("value", value)]).split("\n")[1:]] or [
        repr(value)
    ]


@dataclass(frozen=True, slots=True)
class RequestDiff:
    """What is different in a newer request, section by section (`differences`). False if nothing is.

    `older_contents` is how many contents the older request has.
    """

    differences: list[Difference]
    prefix_broken_by: Difference | None
    """The first difference that makes a provider's cache of the older request's tools, system instruction and earlier
    contents useless; None if they are the same bytes still."""
    contents_kept: int = 0
    """How many of the older request's contents the newer one begins with."""
    older_contents: int = field(default=0, repr=False)
    of_requests: bool = field(default=True, repr=False)
    """False for what no provider caches: events, or chains of changes."""

    @property
    def prefix_stable(self) -> bool:
        """Whether tools, system instruction and all contents before the latest input are the same bytes still."""
        return self.prefix_broken_by is None

    def __bool__(self) -> bool:
        return bool(self.differences)

    def __str__(self) -> str:
        if not self.differences:
            return "The requests are the same."
        lines = [str(difference) for difference in self.differences]
        if not self.of_requests:
            return "\n".join(lines)
        kept = f"{self.contents_kept} of {count(self.older_contents, 'content')} kept"
        broken = self.prefix_broken_by
        if broken is None:
            lines.append(f"The cacheable prefix is stable: {kept}.")
        else:
            author = f", which `{broken.by}` wrote" if broken.by else ""
            if not broken.path.startswith(CONTENTS):  # what is the same stands behind what is not
                kept = "nothing after that is kept"
            lines.append(f"The cacheable prefix is broken at {broken.path}{author}: {kept}.")
        return "\n".join(lines)


def diff(old: Comparable, new: Comparable) -> RequestDiff:
    """What is different between the requests `old` and `new`: each an `Assembly` (or its `to_dict`), a `RequestView`,
    an `LlmRequest`, or a stored snapshot by its path or as text.

    Raises `InputValidationError` for what is none of these; a path is given as a `pathlib.Path`.
    """
    before, after = sections_in(old), sections_in(new)
    if _has_blocks(before) != _has_blocks(after) and _has_system(before) and _has_system(after):
        before, after = whole_system(before), whole_system(after)
    found = [*_named(before, after), *_placed(before, after, SYSTEM), *_placed(before, after, CONTENTS)]
    order = {section.path: index for index, section in enumerate([*before, *after])}
    found.sort(key=lambda difference: order[difference.path])
    old_contents, new_contents = (_values(sections, CONTENTS) for sections in (before, after))
    kept = _shared(old_contents, new_contents)
    of_requests = any(section.path.startswith(("model", "config.", CONTENTS)) for section in (*before, *after))
    return RequestDiff(found, _first_break(found, old_contents, kept), kept, len(old_contents), of_requests)


def assert_prefix_extends(previous: Comparable, next: Comparable) -> None:
    """Raise `AssertionError` unless `next` begins with what a provider may have cached of `previous`: the same tools,
    the same system instruction, and the same contents before the latest input."""
    difference = diff(previous, next)
    broken = difference.prefix_broken_by
    if broken is not None:
        raise AssertionError(
            f"The second request does not extend the first: it differs at {broken.path}, so nothing after that can "
            f"come from a cache. Keep what changes in `instruction` and the rest in `static_instruction`.\n{difference}"
        )


def sections_in(source: Comparable) -> list[Section]:
    """The sections of whatever `diff` takes."""
    if isinstance(source, LlmRequest):
        return list(RequestView(source).sections)
    if isinstance(source, HasSections):
        return list(source.sections)
    if isinstance(source, Path):
        return read_sections(source.read_text(encoding="utf-8"))
    if isinstance(source, str):
        return read_sections(source)
    stored = of_kind(cast("type[Mapping[str, Any]]", Mapping), source, _COMPARED).get("sections")
    if not isinstance(stored, list):
        raise InputValidationError("A stored request has `sections`, as `Assembly.to_dict` gives them; this has none.")
    try:
        return [Section(entry["path"], entry["value"], entry.get("by")) for entry in cast(list[Any], stored)]
    except (TypeError, KeyError, AttributeError) as error:
        raise InputValidationError(
            f"A stored request has `sections` with `path` and `value` each: {error!r}."
        ) from error


def _has_blocks(sections: Iterable[Section]) -> bool:
    return any(section.path.startswith(f"{SYSTEM}[") for section in sections)


def _has_system(sections: Iterable[Section]) -> bool:
    return any(section.path.startswith(SYSTEM) for section in sections)


def _group(path: str) -> str | None:
    """The list that a section is an entry of, if its place in it means nothing more than its order."""
    group = path.partition("[")[0]
    return group if group in (SYSTEM, CONTENTS) and "[" in path else None


def _named(before: list[Section], after: list[Section]) -> Iterator[Difference]:
    """Differences of the sections that have a name."""
    old = {section.path: section for section in before if _group(section.path) is None}
    new = {section.path: section for section in after if _group(section.path) is None}
    order = [path for path in old if path in new]
    moved = order != [path for path in new if path in old]
    for path, section in old.items():
        if path not in new:
            yield Difference(path, section.by, "removed", section.value, None)
    for path, section in new.items():
        known = old.get(path)
        if known is None:
            yield Difference(path, section.by, "added", None, section.value)
        elif known.value != section.value:
            yield Difference(path, section.by, "changed", known.value, section.value)
    if moved:
        names = [path for path in new if path in old]
        first = next(path for path, other in zip(names, order, strict=True) if path != other)
        yield Difference(first, new[first].by, "changed", order, names)


def _placed(before: list[Section], after: list[Section], group: str) -> Iterator[Difference]:
    """Differences of the entries of a list: what was put in, taken out or changed; what only moved up is the same."""
    old = [section for section in before if _group(section.path) == group]
    new = [section for section in after if _group(section.path) == group]
    marks = [[_mark(section) for section in each] for each in (old, new)]
    for tag, a, b, c, d in difflib.SequenceMatcher(None, *marks, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        paired = min(b - a, d - c)
        for index in range(paired):
            section = new[c + index]
            yield Difference(section.path, section.by, "changed", old[a + index].value, section.value)
        for section in old[a + paired : b]:
            yield Difference(section.path, section.by, "removed", section.value, None)
        for section in new[c + paired : d]:
            yield Difference(section.path, section.by, "added", None, section.value)


def _mark(section: Section) -> str:
    return json.dumps(section.value, ensure_ascii=False)


def _values(sections: list[Section], group: str) -> list[Data]:
    return [section.value for section in sections if _group(section.path) == group]


def _shared(old: list[Data], new: list[Data]) -> int:
    kept = 0
    while kept < min(len(old), len(new)) and _mark(Section("", old[kept])) == _mark(Section("", new[kept])):
        kept += 1
    return kept


def _first_break(differences: list[Difference], contents: list[Data], kept: int) -> Difference | None:
    """The first difference in what comes before the older request's latest input."""
    for difference in differences:
        if difference.path == "model" or difference.path.startswith((SYSTEM, TOOLS, "config.tool_config")):
            return difference
    if kept >= _earlier(contents):
        return None
    return next((each for each in differences if _group(each.path) == CONTENTS), None)


def _earlier(contents: list[Data]) -> int:
    """How many contents come before the latest input: the user's words at the end, instructions that go with them."""
    at = len(contents)
    while at and contents[at - 1].get("role") == "user" and not _answers_calls(contents[at - 1]):
        at -= 1
    return at


def _answers_calls(content: Any) -> bool:
    return any("function_response" in part for part in content.get("parts") or ())

"""Snapshots of requests and events: one readable file each, compared in the terms of a request. Needs syrupy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from flowloom.errors import InputValidationError
from flowloom.events import Event
from flowloom.extras import missing_extra
from flowloom.inspection import Assembly, AssemblyStep, EventsView, RequestView, Section, diff, write_sections
from flowloom.inspection.assembly import assembly_of
from flowloom.inspection.canonical import Ordinals, canonical_at
from flowloom.models import LlmRequest
from flowloom.testing.file_names import file_name
from flowloom.testing.secrets import Secrets

try:
    from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
    from syrupy.location import PyTestLocation
    from syrupy.types import SnapshotIndex
except ImportError as error:
    raise missing_extra("Snapshots need syrupy", "test", error) from error

Filter = Callable[..., bool]
Matcher = Callable[..., Any]
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


class _TextSnapshotExtension(SingleFileSnapshotExtension):
    """One text file for each snapshot, whose name no other test has."""

    _write_mode = WriteMode.TEXT

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:
        rest = f"[{index}]" if isinstance(index, str) else f".{index}" if index else ""
        return file_name(test_location.snapshot_name) + (file_name(rest, 60) if rest else "")

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        """Whether a file is of a test: so that it is known which are not used any more."""
        path = Path(snapshot_location)
        rest = path.name.removeprefix(file_name(test_location.snapshot_name))
        if rest != path.name and rest.startswith((".", "[")):
            return path.parent.name == test_location.basename
        return super().matches_test_location(test_location=test_location, snapshot_location=snapshot_location)

    @classmethod
    def sections_of(cls, data: Any) -> list[Section]:
        """What is compared, in sections."""
        raise NotImplementedError

    def serialize(
        self,
        data: Any,
        *,
        exclude: Filter | None = None,
        include: Filter | None = None,
        matcher: Matcher | None = None,
    ) -> str:
        sections = self.sections_of(data)
        if exclude is not None or include is not None or matcher is not None:
            sections = list(_filtered(sections, _Sieve(exclude, include, matcher)))
        return write_sections(_without_secrets(sections)) + "\n"

    def diff_lines(self, serialized_data: Any, snapshot_data: Any) -> Iterator[str]:
        """What a failing test shows: each section that is different, with the processor that wrote it."""
        try:
            difference = diff(str(snapshot_data), str(serialized_data))
        except InputValidationError as error:
            yield str(error)
            difference = None
        if difference:
            yield from str(difference).split("\n")
        else:  # the same sections, written in another way
            yield from super().diff_lines(serialized_data, snapshot_data)


class RequestSnapshotExtension(_TextSnapshotExtension):
    """Snapshots of requests, for the fixture `request_snapshot`.

    Takes an `Assembly` (each section with the processor that wrote it), an `LlmRequest` (likewise, if its run was
    followed, as the fixture does) or `RequestView`, a list of any of them, or the `steps` of an assembly: the chain of
    what each processor changed.
    """

    file_extension = "request.txt"

    @classmethod
    def sections_of(cls, data: Any) -> list[Section]:
        kind = type(data).__name__
        if isinstance(data, Assembly):
            return data.sections
        if isinstance(data, LlmRequest):
            view, known = RequestView(data), assembly_of(data)
            return known.sections if known is not None and known.view == view else view.sections
        if isinstance(data, RequestView):
            return data.sections
        if isinstance(data, list | tuple) and data:  # pyright: ignore[reportUnknownArgumentType]
            several = cast(Sequence[Any], data)
            if all(isinstance(each, AssemblyStep) for each in several):
                return list(_chain(several))
            return [
                Section(f"requests[{index}].{section.path}", section.value, section.by)
                for index, each in enumerate(several)
                for section in cls.sections_of(each)
            ]
        raise InputValidationError(
            f"`request_snapshot` cannot compare {kind}. Give it an `Assembly`, its `steps`, an "
            f"`LlmRequest`, a `RequestView`, or a list of them."
        )


class EventSnapshotExtension(_TextSnapshotExtension):
    """Snapshots of the events of a run, for the fixture `event_snapshot`. Takes events, or an `EventsView`."""

    file_extension = "events.txt"

    @classmethod
    def sections_of(cls, data: Any) -> list[Section]:
        kind = type(data).__name__
        if isinstance(data, EventsView):
            return data.sections
        if isinstance(data, Event):
            return EventsView([data]).sections
        events = list(cast(Iterable[Any], data) if isinstance(data, Iterable) else ())
        if events and all(isinstance(each, Event) for each in events):
            return EventsView(events).sections
        raise InputValidationError(f"`event_snapshot` cannot compare {kind}. Give it the events of a run, as a list.")


def _chain(steps: Iterable[AssemblyStep]) -> Iterator[Section]:
    """The changes of processors as sections."""
    ordinals = Ordinals()
    for step in steps:
        for change in step.changes:
            both = {"before": change.before, "after": change.after}
            shown = {"added": ("after",), "removed": ("before",), "changed": ("before", "after")}[change.kind]
            value = {name: canonical_at(change.where, both[name], ordinals) for name in shown}
            yield Section(f"steps[{step.name}].{change.path}", value, step.name)


class _Sieve:
    """syrupy's `exclude`, `include` and `matcher`, asked as its own serializer asks them."""

    def __init__(self, exclude: Filter | None, include: Filter | None, matcher: Matcher | None) -> None:
        self._exclude = exclude
        self._include = include
        self._matcher = matcher

    def keeps(self, name: str | int, path: tuple[Any, ...]) -> bool:
        if self._exclude is not None and self._exclude(prop=name, path=path):
            return False
        return self._include is None or self._include(prop=name, path=path)

    def matched(self, value: Any, path: tuple[Any, ...]) -> Any:
        if self._matcher is None:
            return value
        return _as_data(self._matcher(data=value, path=path))

    def apply(self, value: Any, path: tuple[Any, ...]) -> Any:
        value = self.matched(value, path)
        if isinstance(value, dict):
            entries = cast(dict[str, Any], value).items()
            return {k: self.apply(v, (*path, (k, type(v)))) for k, v in entries if self.keeps(k, path)}
        if isinstance(value, list):
            places = enumerate(cast(list[Any], value))
            return [self.apply(v, (*path, (i, type(v)))) for i, v in places if self.keeps(i, path)]
        return value


def _filtered(sections: Iterable[Section], sieve: _Sieve) -> Iterator[Section]:
    for section in sections:
        names = [name or _number(index) for name, index in _STEP.findall(section.path)]
        path: tuple[Any, ...] = ()
        for depth, name in enumerate(names):
            if not sieve.keeps(name, path):
                break
            path = (*path, (name, type(section.value) if depth == len(names) - 1 else dict))
        else:
            yield Section(section.path, sieve.apply(section.value, path), section.by)


def _without_secrets(sections: Iterable[Section]) -> list[Section]:
    """What cassettes redact is in no snapshot either."""
    secrets = Secrets.known()
    redacted: list[Section] = []
    for section in sections:
        (value,) = secrets.redact({section.path.rpartition(".")[2]: section.value}).values()
        redacted.append(Section(section.path, value, section.by))
    return redacted


def _number(index: str) -> str | int:
    return int(index) if index.isdigit() else index


def _as_data(value: Any) -> Any:
    """What a matcher gives in a value's place as data: its objects are known by their `repr`."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return repr(value)
    return value

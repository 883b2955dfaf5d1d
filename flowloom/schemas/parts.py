"""The parts of a JSON schema, each of which says whether data fits, and what is wrong with data that does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

MAX_DATA_DEPTH = 200
"""How deep data may be nested that is looked into; JSON text may not be nested deeper either where a model class
reads it."""

TOO_DEEP = PydanticCustomError("too_deep", "Input should be nested less deep")

Location = tuple[int | str, ...]
Seen = dict[tuple[int, int], bool]
"""Whether data fits a part, for both by `id`: all of them live while it is used."""
Problem = tuple[str, dict[str, Any]]
"""pydantic's name of an error, and what its words need."""


class Part:
    """A schema within a schema: which kinds of data it takes, the choices that it leaves, or what it puts together."""

    __slots__ = ("all", "choices", "leaf", "list", "nullable", "object", "reference", "same", "where")

    def __init__(self, where: str) -> None:
        self.where = where
        self.same: list[Part] = []
        """The parts that it asks about the same data."""
        self.reference: Part | None = None
        """The part that it stands for."""
        self.choices: list[Part] | None = None
        self.all: list[Part] | None = None
        """The parts each of which the data has to fit."""
        self.nullable = False
        self.leaf: Callable[[Any], Any] | None = None
        """What raises a `ValidationError` for what is not one of the plain values that it takes."""
        self.list: ListPart | None = None
        self.object: ObjectPart | None = None

    def refer_to(self, part: Part) -> None:
        """Stand for another part."""
        self.reference = part
        self.same.append(part)

    def choose(self, parts: list[Part]) -> None:
        """Take what one of the parts takes."""
        self.choices = parts
        self.same += parts

    def put_together(self, parts: list[Part]) -> None:
        """Take what all of the parts take."""
        self.all = parts
        self.same += parts

    def _referred(self) -> Part:
        part = self
        while part.reference is not None:
            part = part.reference
        return part

    def fits(self, data: Any, seen: Seen, depth: int) -> bool:
        """Whether data, which is this deep inside of all data, is as the schema says."""
        part = self._referred()
        if data is None and part.nullable:
            return True
        if part.choices is None and part.all is None and not isinstance(data, dict | list):
            return part._misfits(data) is None
        key = (id(part), id(cast(Any, data)))
        known = seen.get(key)
        if known is None:
            known = seen[key] = depth < MAX_DATA_DEPTH and part._fits(data, seen, depth)
        return known

    def _fits(self, data: Any, seen: Seen, depth: int) -> bool:
        if self.choices is not None:
            for choice in self.choices:  # noqa: SIM110 - a generator would deepen the stack
                if choice.fits(data, seen, depth):
                    return True
            return False
        if self.all is not None:
            for each in self.all:  # noqa: SIM110 - a generator would deepen the stack
                if not each.fits(data, seen, depth):
                    return False
            return True
        inside = self._inside(data)
        if inside is None:
            return self._misfits(data) is None
        for _, held, part in inside:  # noqa: SIM110 - a generator would deepen the stack
            if not isinstance(part, Part) or not part.fits(held, seen, depth + 1):
                return False
        return True

    def _inside(self, data: Any) -> Iterator[tuple[Location, Any, Part | Problem]] | None:
        """What is in data that the schema looks into, each with its part or what is wrong with it; None for others."""
        if isinstance(data, dict) and self.object is not None:
            return self.object.inside(cast(dict[str, Any], data))
        if isinstance(data, list) and self.list is not None:
            return self.list.inside(cast(list[Any], data))
        return None

    def problems(
        self, data: Any, seen: Seen, location: Location, told: set[tuple[int, Location]]
    ) -> Iterator[InitErrorDetails]:
        """What is wrong with data that does not fit; about each location once for each part."""
        part = self._referred()
        if (id(part), location) in told or part.fits(data, seen, len(location)):
            return
        told.add((id(part), location))
        inside = part._inside(data)
        if len(location) >= MAX_DATA_DEPTH and isinstance(data, dict | list):
            yield InitErrorDetails(type=TOO_DEEP, loc=location, input=data)
        elif part.choices is not None or part.all is not None:
            for each in part.choices or part.all or ():
                yield from each.problems(data, seen, location, told)
            if not part.choices and not part.all:
                yield InitErrorDetails(type="extra_forbidden", loc=location, input=data)
        elif inside is None:
            wrong = [*(part._misfits(data) or ())]
            wrong += [("dict_type", {})] if part.object is not None else []
            wrong += [("list_type", {})] if part.list is not None else []
            for kind, words in wrong:
                yield InitErrorDetails(type=kind, loc=location, input=data, ctx=words)
        else:
            for step, held, found in inside:
                if isinstance(found, Part):
                    yield from found.problems(held, seen, location + step, told)
                else:
                    yield InitErrorDetails(type=found[0], loc=location + step, input=held, ctx=found[1])

    def _misfits(self, data: Any) -> list[Problem] | None:
        """Why data is none of the plain values that the schema takes; None if it is one."""
        if self.leaf is None:
            return []
        try:
            self.leaf(data)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
            return [(each["type"], each.get("ctx") or {}) for each in found]
        return None


class ListPart:
    """What a schema says of lists."""

    __slots__ = ("_first", "_high", "_items", "_low")

    def __init__(self, first: list[Part], items: Part, low: int | None, high: int | None) -> None:
        self._first, self._items, self._low, self._high = first, items, low, high

    def inside(self, data: list[Any]) -> Iterator[tuple[Location, Any, Part | Problem]]:
        """Each item with its part; or the one thing that is wrong, the length."""
        count = len(data)
        if self._low is not None and count < self._low:
            words = {"field_type": "List", "min_length": self._low, "actual_length": count}
            yield (), data, ("too_short", words)
        elif self._high is not None and count > self._high:
            words = {"field_type": "List", "max_length": self._high, "actual_length": count}
            yield (), data, ("too_long", words)
        else:
            for index, item in enumerate(data):
                yield (index,), item, self._first[index] if index < len(self._first) else self._items


class ObjectPart:
    """What a schema says of objects."""

    __slots__ = ("_extra", "_names", "_patterns", "_properties", "_required")

    def __init__(
        self,
        properties: dict[str, Part],
        required: list[str],
        patterns: list[tuple[Callable[[str], bool], Part]],
        names: Part | None,
        extra: Part | None,
    ) -> None:
        self._properties, self._required, self._patterns = properties, required, patterns
        self._names, self._extra = names, extra

    def inside(self, data: dict[str, Any]) -> Iterator[tuple[Location, Any, Part | Problem]]:
        """Each property with the parts it has to fit, or with what is wrong about its being there, or not."""
        for name in self._required:
            if name not in data:
                yield (name,), data, ("missing", {})
        for name, held in data.items():
            part = self._properties.get(name)
            matching = [each for matches, each in self._patterns if matches(name)]
            for each in matching if part is None else (part, *matching):
                yield (name,), held, each
            if self._names is not None:
                yield (name,), name, self._names
            if part is None and not matching:
                yield (name,), held, self._extra or ("extra_forbidden", {})

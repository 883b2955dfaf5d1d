"""`SharedList`: a list that begins as another one does, without a copy of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSequence
from itertools import chain, islice
from typing import Any, SupportsIndex, TypeVar, overload

T = TypeVar("T")
SHORT = 200
"""Up to how many items a copy costs less than sharing them: each look at a shared list is a call."""


def shared(items: list[T], count: int | None = None) -> MutableSequence[T]:
    """The first `count` items (all by default) as a list for another owner; what either appends is its own."""
    length = len(items) if count is None else count
    return items[:length] if length <= SHORT else SharedList(items, length)


class SharedList(MutableSequence[T]):
    """The first `count` items of a list that only grows (all that it has, by default), and what is appended here.

    It reads, compares and changes as a list does. Making one costs the same however long the other is; what is
    appended is its own, and any other change makes a copy first, so that neither ever reaches the other list.
    """

    __slots__ = ("_count", "_own", "_shared")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shared: list[T], count: int | None = None) -> None:
        self._shared = shared
        self._count = len(shared) if count is None else count
        self._own: list[T] = []

    def __len__(self) -> int:
        return self._count + len(self._own)

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> T | list[T]:
        count, own = self._count, self._own
        if type(index) is int and index >= count:
            return own[index - count]
        if isinstance(index, slice):
            start, stop, step = index.indices(count + len(own))
            if step != 1:
                return list(self)[index]
            if start >= count:
                return own[start - count : stop - count]
            return self._shared[start : min(stop, count)] + own[: max(stop - count, 0)]
        position = index.__index__()
        if position < 0:
            position += count + len(own)
            if position < 0:
                raise IndexError("list index out of range")
        return self._shared[position] if position < count else own[position - count]

    def __iter__(self) -> Iterator[T]:
        return chain(islice(self._shared, self._count), self._own)

    def __reversed__(self) -> Iterator[T]:
        return chain(reversed(self._own), map(self._shared.__getitem__, range(self._count - 1, -1, -1)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SharedList | list):
            return NotImplemented
        return len(self) == len(other) and all(a is b or a == b for a, b in zip(self, other, strict=True))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    def __add__(self, other: Iterable[T]) -> list[T]:
        return [*self, *other]

    def __radd__(self, other: Iterable[T]) -> list[T]:
        return [*other, *self]

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)  # a copy, or what is read back, shares nothing

    def copy(self) -> list[T]:
        """All items as an ordinary list."""
        return list(self)

    def append(self, value: T) -> None:
        self._own.append(value)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._detached()[index] = value

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        del self._detached()[index]

    def insert(self, index: SupportsIndex, value: T) -> None:
        self._detached().insert(index, value)

    def clear(self) -> None:
        self._shared, self._count, self._own = [], 0, []

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        """Sort the items in place."""
        self._detached().sort(key=key, reverse=reverse)

    def _detached(self) -> list[T]:
        """The items as a list of this one's own."""
        if self._count:
            self._own = list(self)
            self._shared, self._count = [], 0
        return self._own

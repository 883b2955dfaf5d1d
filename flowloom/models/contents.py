"""`SharedContents`: a request's view of the history, safe to hand to user code.

History is shared between requests and never copied as a whole. A callback or processor that reads an entry of
`request.contents` could write to it, so it gets a private copy of just that entry, made on first access.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, SupportsIndex, overload

from google.genai import types

from flowloom.events.wire import ModelT, fields_of, replace

_PLAIN = (str, bytes, bool, int, float)


def own_copy(model: ModelT) -> ModelT:
    """A copy that shares nothing that could be changed."""
    held = fields_of(model).items()
    own = {name: copy.deepcopy(v) for name, v in held if v is not None and not isinstance(v, _PLAIN)}
    return replace(model, **own)


def copy_content(content: types.Content) -> types.Content:
    """An independent copy of `content`: parts and their data are copied, bytes are shared."""
    new = replace(content)
    if content.parts is not None:
        new.parts = [own_copy(part) for part in content.parts]
    return new


_SPECIAL = ("inline_data", "file_data", "thought", "executable_code", "code_execution_result")
_special_fields, _beside_words = itemgetter(*_SPECIAL), itemgetter("function_call", "function_response", *_SPECIAL)


def is_special(content: types.Content) -> bool:
    """Whether an entry holds what processors rewrite for some models: files, thoughts, code."""
    for fields in map(fields_of, content.parts or ()):  # noqa: SIM110 - a generator costs more than the look
        if any(_special_fields(fields)):
            return True
    return False


def is_words(content: types.Content) -> bool:
    """Whether an entry is texts and nothing else, none of them empty: no model is sent anything else for it."""
    parts = content.parts or ()
    for fields in map(fields_of, parts):
        if not fields["text"] or any(_beside_words(fields)):
            return False
    return bool(parts)


class SharedContents(list[types.Content]):
    """A list of `contents` whose entries belong to the session's history until they are looked at.

    `special` holds the indices of the entries for which `is_special` (None before the first look), as long as `touched`
    is False: any access by user code sets it, because entries may then have moved or changed. `plain()` reads without
    copying.
    """

    __slots__ = ("_private", "special", "touched")

    def __init__(self, contents: Iterable[types.Content] = (), special: Iterable[int] | None = None) -> None:
        super().__init__(contents)
        self.special = None if special is None else tuple(special)
        self.touched = False
        self._private: dict[int, types.Content] = {}

    def plain(self) -> list[types.Content]:
        """The entries as an ordinary list, for code that only reads them."""
        return super().copy()

    def again(self) -> SharedContents:
        """The same entries as they are now, for another request; whoever looks at one there gets a copy of it."""
        return SharedContents(self.plain(), None if self.touched else self.special)

    def places(self) -> Sequence[int]:
        """Where special entries may stand: their places, or all if entries may have moved or changed."""
        return range(len(self)) if self.touched or self.special is None else self.special

    def is_private(self, content: types.Content) -> bool:
        """Whether the entry `content` is this request's own, and not the history's."""
        return id(content) in self._private

    def own(self, index: int) -> types.Content:
        """Entry `index` (not negative) as a private copy, which replaces the shared one."""
        content = super().__getitem__(index)
        if id(content) in self._private:
            return content
        mine = copy_content(content)
        self._private[id(mine)] = mine
        super().__setitem__(index, mine)
        return mine

    def add(self, content: types.Content) -> None:
        """Append an entry, `content`, that is held nowhere else."""
        self._private[id(content)] = content
        super().append(content)

    @overload
    def __getitem__(self, index: SupportsIndex) -> types.Content: ...
    @overload
    def __getitem__(self, index: slice) -> list[types.Content]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> types.Content | list[types.Content]:
        self.touched = True
        if isinstance(index, slice):
            return [self.own(i) for i in range(*index.indices(len(self)))]
        position = index.__index__()
        return self.own(position + len(self) if position < 0 else position)

    def __iter__(self) -> Iterator[types.Content]:
        self.touched = True
        position = 0
        while position < len(self):
            yield self.own(position)
            position += 1

    def __reversed__(self) -> Iterator[types.Content]:
        self.touched = True
        for position in range(len(self) - 1, -1, -1):
            yield self.own(position)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.touched = True
        super().__setitem__(index, value)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        self.touched = True
        super().__delitem__(index)

    def append(self, value: types.Content) -> None:
        self.touched = True
        self.add(value)

    def extend(self, values: Iterable[types.Content]) -> None:
        for value in values:
            self.append(value)

    def __iadd__(self, values: Iterable[types.Content]) -> SharedContents:  # type: ignore[override]
        self.extend(values)
        return self

    def insert(self, index: SupportsIndex, value: types.Content) -> None:
        self.touched = True
        self._private[id(value)] = value
        super().insert(index, value)

    def pop(self, index: SupportsIndex = -1) -> types.Content:
        content = self[index]
        super().pop(index)
        return content

    def remove(self, value: types.Content) -> None:
        self.touched = True
        super().remove(value)

    def clear(self) -> None:
        self.touched = True
        super().clear()

    def reverse(self) -> None:
        self.touched = True
        super().reverse()

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        self.touched = True
        super().sort(key=key, reverse=reverse)

    def copy(self) -> list[types.Content]:
        return self[:]


class UnreadContents(NamedTuple):
    """The contents of a history as it is now, before a request makes a list of them.

    `contents` and `special` (see `SharedContents`) only grow, so that their lengths of now say which are meant.
    """

    contents: list[types.Content]
    length: int
    special: list[int]
    special_length: int
    plain: bool = False
    """Whether they are only read, so that nothing has to be copied."""

    def only_read(self) -> UnreadContents:
        """The same for code that only reads."""
        return UnreadContents(self.contents, self.length, self.special, self.special_length, True)

    def read(self) -> list[types.Content]:
        """The list."""
        contents = self.contents[: self.length]
        return contents if self.plain else SharedContents(contents, self.special[: self.special_length])


def only_read(contents: list[types.Content]) -> list[types.Content]:
    """The entries of a request for code that only reads them: none is copied."""
    return contents.plain() if isinstance(contents, SharedContents) else contents


def special_contents(contents: list[types.Content]) -> Iterator[tuple[int, types.Content]]:
    """The entries of a request that may be special, with their places. To be read only: the history is not copied."""
    if not isinstance(contents, SharedContents):
        yield from enumerate(contents)
        return
    get = super(SharedContents, contents).__getitem__
    for index in contents.places():
        yield index, get(index)


def own_content(contents: list[types.Content], index: int) -> types.Content:
    """An entry of a request as the request's own, to be changed; the session's stays as it is."""
    if isinstance(contents, SharedContents):
        return contents.own(index)
    contents[index] = copy_content(contents[index])
    return contents[index]

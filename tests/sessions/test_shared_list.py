"""A shared list reads and changes as a list does, and never reaches the list that it begins with."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowloom.sessions.shared_list import SharedList

SHARED = [10, 11, 12, 13, 14]
NUMBERS = st.integers(-7, 7)


def both(count: int, appended: list[int]) -> tuple[SharedList[int], list[int]]:
    mine = SharedList(SHARED, count)
    mine.extend(appended)
    return mine, SHARED[:count] + appended


@given(st.integers(0, 5), st.lists(NUMBERS, max_size=3), NUMBERS, st.slices(9))
def test_it_reads_as_a_list(count: int, appended: list[int], index: int, part: slice) -> None:
    """Items, slices, both directions and comparisons are a list's, over the seam too."""
    mine, plain = both(count, appended)
    assert mine == plain
    assert plain == mine
    assert [len(mine), list(mine), list(reversed(mine)), repr(mine)] == [len(plain), plain, plain[::-1], repr(plain)]
    assert mine[part] == plain[part]
    if -len(plain) <= index < len(plain):
        assert mine[index] == plain[index]
    else:
        with pytest.raises(IndexError):
            mine[index]
    assert mine + [1] == [*plain, 1]  # noqa: RUF005 - the operator is what is checked
    assert [1] + mine == [1, *plain]  # noqa: RUF005
    for copied in (copy.copy(mine), copy.deepcopy(mine), pickle.loads(pickle.dumps(mine)), mine.copy()):
        assert copied == plain
        assert type(copied) is list


@pytest.mark.parametrize(
    "change",
    [
        lambda items: items.append(1),
        lambda items: items.insert(1, 1),
        lambda items: items.pop(0),
        lambda items: items.remove(11),
        lambda items: items.__setitem__(0, 1),
        lambda items: items.__delitem__(slice(0, 2)),
        lambda items: items.sort(reverse=True),
        lambda items: items.reverse(),
        lambda items: items.clear(),
        lambda items: items.__iadd__([1, 2]),
    ],
)
def test_a_change_is_its_own(change: Callable[[Any], object]) -> None:
    """The same comes of a change as for a list; the list that was shared stays as it is."""
    mine, plain = both(3, [20])
    change(mine)
    change(plain)
    assert mine == plain
    assert SHARED == [10, 11, 12, 13, 14]


def test_what_the_shared_list_gets_later_is_not_seen() -> None:
    """The beginning is what was there when it was made."""
    shared = [1, 2]
    mine = SharedList(shared)
    shared.append(3)
    mine.append(4)
    assert mine == [1, 2, 4]

"""How far a log was read."""

from __future__ import annotations

from kit import event

from flowloom.log.cursor import LogCursor

A, B, C, D = (event("root", each) for each in "abcd")


def test_a_reader_is_given_what_is_new() -> None:
    cursor = LogCursor()
    assert cursor.advance([]) == []
    assert cursor.advance([A, B]) == [A, B]
    assert cursor.advance([A, B]) == []
    assert cursor.advance([A, B, C]) == [C]
    assert cursor.advance([A, B, C, D]) == [D]


def test_a_log_that_does_not_begin_with_what_was_read_is_read_anew() -> None:
    """It is shorter, or begins or goes on with another event; from then on its news are told."""
    for other in ([A], [D, B], [A, D], [A, D, B]):
        cursor = LogCursor()
        cursor.advance([A, B])
        assert cursor.advance(other) is None
        assert cursor.advance([*other, C]) == [C]

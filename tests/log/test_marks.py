"""What events tell beside their contents, and what errors say first."""

from __future__ import annotations

import pytest
from kit import event

from flowloom.log.answers import first_line
from flowloom.log.marks import RUN_ENDED, tells_of_end


@pytest.mark.parametrize(
    ("mark", "tells"), [(None, False), ({}, False), ({"x": 1}, False), ({RUN_ENDED: "limit"}, True)]
)
def test_an_event_tells_of_the_end_of_a_run_by_its_mark(mark: dict[str, object] | None, tells: bool) -> None:
    """Whatever else it says."""
    assert tells_of_end(event("root", "bye", custom_metadata=mark)) is tells


def test_the_first_line_of_an_error_is_shortened() -> None:
    """To two hundred characters."""
    assert first_line(ValueError("short\nand more")) == "short"
    assert first_line(ValueError("x" * 201)) == "x" * 200

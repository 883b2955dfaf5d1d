"""What events tell beside their contents, and what errors say first."""

from __future__ import annotations

import pytest
from kit import event

from flowloom.log.answers import first_line
from flowloom.log.marks import AGENT_TOOL_CALL, RUN_ENDED, is_from_agent_tool, tells_of_end


@pytest.mark.parametrize(
    ("mark", "tells"), [(None, False), ({}, False), ({"x": 1}, False), ({RUN_ENDED: "limit"}, True)]
)
def test_an_event_tells_of_the_end_of_a_run_by_its_mark(mark: dict[str, object] | None, tells: bool) -> None:
    """Whatever else it says."""
    assert tells_of_end(event("root", "bye", custom_metadata=mark)) is tells


@pytest.mark.parametrize(
    ("scope", "mark", "kept"),
    [
        ("c1", {AGENT_TOOL_CALL: "c1"}, True),
        ("c1", {"x": 1}, False),
        ("c1", None, False),
        (None, {AGENT_TOOL_CALL: "c1"}, False),
    ],
)
def test_an_event_of_an_agent_that_runs_as_a_tool_has_a_mark_and_stands_in_the_scope_of_a_call(
    scope: str | None, mark: dict[str, object] | None, kept: bool
) -> None:
    assert is_from_agent_tool(event("inner", "hm", isolation_scope=scope, custom_metadata=mark)) is kept


def test_the_first_line_of_an_error_is_shortened() -> None:
    """To two hundred characters."""
    assert first_line(ValueError("short\nand more")) == "short"
    assert first_line(ValueError("x" * 201)) == "x" * 200

"""Merging the actions of parallel calls (cases, area 2; spec §14.8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowloom import EventActions, ToolConfirmation
from flowloom.events.actions import merge_actions


def merged(*actions: EventActions | None) -> EventActions | None:
    total: EventActions | None = None
    for each in actions:
        total = merge_actions(total, each)
    return total


def test_both_none_is_none_and_one_none_is_the_other() -> None:
    """Both none / one none | none / the other one."""
    some = EventActions(escalate=True)
    assert merged(None, None) is None
    assert merged(some, None) == merged(None, some) == some


STATES: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("disjoint | union", [{"a": 1}, {"b": 2}], {"a": 1, "b": 2}),
    ("overlapping | later wins", [{"a": 1}, {"a": 2}], {"a": 2}),
    ("nested dict | deep merge", [{"a": {"x": 1, "y": 1}}, {"a": {"y": 2}}], {"a": {"x": 1, "y": 2}}),
    ("several tools | all keys", [{"a": 1}, {"b": 2}, {"c": 3}], {"a": 1, "b": 2, "c": 3}),
    ("a dict and something else | later wins", [{"a": {"x": 1}}, {"a": 5}], {"a": 5}),
    ("base has none | other's used", [{}, {"a": 1}], {"a": 1}),
]


@pytest.mark.parametrize(("deltas", "expected"), [s[1:] for s in STATES], ids=[s[0] for s in STATES])
def test_state_is_merged_deeply(deltas: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    total = merged(*(EventActions(state_delta=delta) for delta in deltas))
    assert total is not None
    assert total.state_delta == expected


ARTIFACTS: list[tuple[str, list[dict[str, int]], dict[str, int]]] = [
    ("other none | kept", [{"a": 1}, {}], {"a": 1}),
    ("base none | other's", [{}, {"a": 1}], {"a": 1}),
    ("disjoint | union", [{"a": 1}, {"b": 0}], {"a": 1, "b": 0}),
    ("overlapping | maximum", [{"a": 3}, {"a": 1}], {"a": 3}),
    ("partial overlap | maximum for each file", [{"a": 1, "b": 1}, {"b": 2}], {"a": 1, "b": 2}),
    ("negative version | preserved", [{"a": -1}, {}], {"a": -1}),
]


@pytest.mark.parametrize(("deltas", "expected"), [a[1:] for a in ARTIFACTS], ids=[a[0] for a in ARTIFACTS])
def test_artifact_versions_are_merged_by_maximum(deltas: list[dict[str, int]], expected: dict[str, int]) -> None:
    total = merged(*(EventActions(artifact_delta=delta) for delta in deltas))
    assert total is not None
    assert total.artifact_delta == expected


@given(flags=st.lists(st.sampled_from([None, False, True]), min_size=2, max_size=5))
def test_flags_are_true_if_any_is(flags: list[bool | None]) -> None:
    """SkipSummarization, escalate | true if any."""
    total = merged(*(EventActions(skip_summarization=flag, escalate=flag) for flag in flags))
    assert total is not None
    assert bool(total.skip_summarization) == bool(total.escalate) == any(flags)


def test_the_last_transfer_wins() -> None:
    """TransferToAgent | last non-empty."""
    total = merged(*(EventActions(transfer_to_agent=name) for name in ("a", "b", None, "")))
    assert total is not None
    assert total.transfer_to_agent == "b"


def test_all_fields_together_each_by_its_rule() -> None:
    first = EventActions(
        state_delta={"a": 1}, artifact_delta={"f": 1}, requested_tool_confirmations={"c1": ToolConfirmation(hint="1")}
    )
    second = EventActions(
        state_delta={"b": 2},
        artifact_delta={"f": 0},
        escalate=True,
        requested_tool_confirmations={"c2": ToolConfirmation(hint="2")},
    )
    total = merged(first, second)
    assert total is not None
    assert (total.state_delta, total.artifact_delta, total.escalate) == ({"a": 1, "b": 2}, {"f": 1}, True)
    assert set(total.requested_tool_confirmations) == {"c1", "c2"}


def test_what_is_merged_is_not_changed() -> None:
    first, second = EventActions(state_delta={"a": {"x": 1}}), EventActions(state_delta={"a": {"y": 2}})
    before = (first.to_wire(), second.to_wire())
    merged(first, second)
    assert (first.to_wire(), second.to_wire()) == before

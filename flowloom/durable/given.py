"""What clients and schedules are given, checked where it is given: a worker could not say what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from flowloom.context import RunConfig
from flowloom.durable.records import MOST_LABELS, STATES, are_labels
from flowloom.durable.retrying import RetryPolicy
from flowloom.errors import ConfigurationError, InputValidationError, closest_first, quoted_list

MOST_PRIORITY = 1_000_000


def check_times(**seconds: Any) -> None:
    """Raise `InputValidationError` for what is no number of seconds; None is none."""
    for name, value in seconds.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (number and math.isfinite(value)):
            raise InputValidationError(f"`{name}` is a number of seconds, not {value!r:.60}.")


def check_priority(priority: Any) -> None:
    """Raise `InputValidationError` for a priority that no run has."""
    if type(priority) is not int or abs(priority) > MOST_PRIORITY:
        raise InputValidationError(
            f"A `priority` is a whole number from {-MOST_PRIORITY} to {MOST_PRIORITY}, not {priority!r:.60}."
        )


def check_labels(labels: Any) -> None:
    """Raise `InputValidationError` for labels that no worker has."""
    if not are_labels(labels):
        raise InputValidationError(
            f"`labels` are at most {MOST_LABELS} words without a comma, in a list, not {labels!r}: no worker has "
            f"others."
        )


def check_settings(run_config: Any, retry: Any) -> None:
    """Raise `ConfigurationError` for settings of a run that are none."""
    for name, kind, value in (("run_config", RunConfig, run_config), ("retry", RetryPolicy, retry)):
        if value is not None and not isinstance(value, kind):
            raise ConfigurationError(f"`{name}` takes a `{kind.__name__}`, not a `{type(value).__name__}`.")


def check_state(state_delta: Any) -> None:
    """Raise `InputValidationError` for what is no change of a state."""
    if state_delta is not None and not isinstance(state_delta, Mapping):
        raise InputValidationError(f"`state_delta` takes a dict of names and values, not {state_delta!r:.60}.")


def check_states(states: Any) -> None:
    """Raise `InputValidationError` for a status that no run has."""
    for state in states:
        if state not in STATES:
            known = quoted_list(closest_first(str(state), STATES))
            raise InputValidationError(f"No run has the `status` {state!r:.60}; there are {known}.")

"""How the tests of suites try single rules."""

from __future__ import annotations

from typing import Any

import pytest

from flowloom.testing.suites.loop import Suite


def rules_of(suite: type[Suite]) -> set[str]:
    """The names of a suite's rules."""
    return {name.removeprefix("test_") for name in dir(suite) if name.startswith("test_")}


def breaks(suite: type[Suite], rule: str, **case: Any) -> str:
    """Check that a rule fails in a case for the part of `suite`, and says which rule it is; what it says."""
    with pytest.raises(AssertionError) as caught:
        getattr(suite(), f"test_{rule}")(**case)
    assert len(str(caught.value)) > 30, "a failure has to tell what is wrong"
    assert any(note.startswith("The rule: ") for note in caught.value.__notes__)
    return str(caught.value)

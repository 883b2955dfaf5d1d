"""The garbage collector is left as it was, whatever happens while it waits."""

from __future__ import annotations

import gc

from flowloom.objects.no_collection import NoCollection


def test_the_collector_waits_until_the_last_user_is_done() -> None:
    """It runs again after the outermost of nested users."""
    with NoCollection():
        with NoCollection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()

"""What a compaction may be set to."""

from __future__ import annotations

from typing import Any

import pytest

from flowloom import ConfigurationError, EventsCompactionConfig


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "Nothing would ever set off this compaction"),
        ({"overlap_size": 1, "token_threshold": 5}, "`overlap_size` counts turns before those of"),
        ({"event_retention_size": 1, "compaction_interval": 5}, "`event_retention_size` goes with"),
        ({"token_threshold": 0}, "`token_threshold`"),
        ({"interval": 3}, "the closest is `compaction_interval`"),
    ],
)
def test_what_cannot_work_is_refused_at_once(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        EventsCompactionConfig(**fields)


def test_settings_of_google_adk_are_taken_as_they_are() -> None:
    config = EventsCompactionConfig(
        compaction_interval=5, overlap_size=1, token_threshold=9000, event_retention_size=20, summarizer=None
    )
    assert config.retention == 20

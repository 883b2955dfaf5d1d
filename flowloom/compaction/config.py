"""`EventsCompactionConfig`: when a conversation is summarised, and how much of it stays as it was."""

from __future__ import annotations

from pydantic import Field

from flowloom.compaction.summarizer import BaseEventsSummarizer
from flowloom.errors import ConfigurationError
from flowloom.objects.settings import Settings


class EventsCompactionConfig(Settings):
    """When a conversation is summarised, and how much of it stays as it was.

    Four things set it off, each alone; at least one has to be given: `compaction_interval` (by turns),
    `event_threshold` (by events), `token_threshold` (by tokens) and `max_age_seconds` (by time). All but the first
    are also looked at within a run, before each model call, by the `Compaction` processor.

    Raises `ConfigurationError` for values that do not fit, or fields that mean nothing without another.
    """

    summarizer: BaseEventsSummarizer | None = None
    """Who writes the summary; None for the agent's own model."""
    compaction_interval: int | None = Field(default=None, gt=0)
    """After how many new turns (invocations) all complete ones are summarised."""
    overlap_size: int | None = Field(default=None, ge=0)
    """How many turns before the new ones the summariser reads again in full; 0 by default."""
    token_threshold: int | None = Field(default=None, gt=0)
    """From how many tokens of the latest prompt on; estimated, where the model does not count them."""
    event_threshold: int | None = Field(default=None, gt=0)
    """From how many events on that no summary stands for."""
    max_age_seconds: float | None = Field(default=None, gt=0)
    """At which age of the oldest event that no summary stands for; what is half as old or more is summarised then."""
    event_retention_size: int | None = Field(default=None, ge=0)
    """How many of the latest events stay as they are, where tokens or events set it off; 10 by default."""

    def _when_made(self) -> None:
        if self.compaction_interval is None and self.overlap_size is not None:
            raise ConfigurationError(
                "`overlap_size` counts turns before those of a `compaction_interval`. Set that, too, or leave it out."
            )
        if not self.within_runs and self.event_retention_size is not None:
            raise ConfigurationError(
                "`event_retention_size` goes with `token_threshold` or `event_threshold`. Set one, or leave it out."
            )
        if self.compaction_interval is None and self.max_age_seconds is None and not self.within_runs:
            raise ConfigurationError(
                "Nothing would ever set off this compaction. Set `compaction_interval`, `token_threshold`, "
                "`event_threshold` or `max_age_seconds`."
            )

    @property
    def within_runs(self) -> bool:
        """Whether the size of the prompt sets it off, which may pass its threshold in the middle of a run."""
        return self.token_threshold is not None or self.event_threshold is not None

    @property
    def retention(self) -> int:
        """How many of the latest events stay as they are."""
        return 10 if self.event_retention_size is None else self.event_retention_size

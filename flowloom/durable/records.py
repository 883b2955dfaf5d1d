"""What the registry knows of runs and workers."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from flowloom.sessions.leases import Key

Status = Literal["waiting", "ready", "running", "paused", "final", "failed", "limit", "cancelled"]
"""In what state a run is (durable design, section 5)."""
STATES: tuple[str, ...] = get_args(Status)
OVER: frozenset[str] = frozenset(("final", "failed", "limit", "cancelled"))
"""The states of runs that are over."""
MOST_LABELS = 6
"""How many labels a worker has at most, and so a run that one is to take."""
Wish = Literal["cancel", "cancel_after_step", "pause"]
"""What is asked of a run that a worker has."""


def are_labels(given: Collection[str]) -> bool:
    """Whether a worker may have the labels that a run is `given`: words without a comma, and a text is no list."""
    if isinstance(given, str) or not isinstance(given, Collection):  # pyright: ignore[reportUnnecessaryIsInstance]
        return False
    words = all(isinstance(each, str) and each and "," not in each for each in given)  # pyright: ignore[reportUnnecessaryIsInstance]
    return words and len(set(given)) <= MOST_LABELS


class Row(NamedTuple):
    """A row of `flowloom_runs`, in the order of `COLUMNS`."""

    seq: int
    run_id: str
    app_name: str
    user_id: str
    session_id: str
    shard: int
    status: Status
    priority: int
    due: float
    rank: float
    wakes: float | None
    awaits: str | None
    expires: float | None
    labels: str
    leg: int
    attempts: int
    takeovers: int
    worker: str | None
    epoch: int | None
    wish: Wish | None
    spec: str
    message: str | None
    answers: str | None
    created: float
    started: float | None
    ended: float | None
    outcome: str | None

    @property
    def key(self) -> Key:
        """App, user and session."""
        return self.app_name, self.user_id, self.session_id


COLUMNS = ", ".join(Row._fields)


class Changed(NamedTuple):
    """A run after something was asked of it: its `row`, the runs that are `ready` now because of it, and whether some
    were `woken`, for a worker to look at: now, or when their time comes."""

    row: Row
    ready: tuple[str, ...] = ()
    woken: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run has ended, as the registry keeps it: what was said is in the log.

    `status` is how; `usage` has tokens by kind, as `Usage` names them; `model_calls` and `tool_calls` are how many
    there were; `error_code` and `error_message` say what ended it, if something did.
    """

    status: Status
    usage: dict[str, int] = field(default_factory=dict[str, int])
    model_calls: int = 0
    tool_calls: int = 0
    error_code: str | None = None
    error_message: str | None = None
    output_event: str | None = None
    """The id of the event whose text is the answer as data, if the agent has a schema of answers."""

    def dumps(self) -> str:
        """The JSON text."""
        said = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({name: value for name, value in said.items() if value}, ensure_ascii=False)

    @classmethod
    def loads(cls, text: str) -> Outcome:
        """What `dumps` has written, the `text`; fields of newer releases are left out."""
        said: dict[str, Any] = json.loads(text)
        return cls(**{name: value for name, value in said.items() if name in cls.__slots__})


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What the registry says of a run.

    `run_id` is its id, `app_name`, `user_id` and `session_id` say where its log is, `status` in what state it is.
    `awaits` tells what a waiting run waits for: `time`, `session`, or the name of a limit. `priority` and `labels` are
    those it was submitted with. `due` is when it was to begin, `created`, `started` and `ended` when it was submitted,
    begun first, and over: seconds since the epoch by the database's clock. `leg` counts its legs, each of which begins
    with the message, an answer or a resumption; `attempts` are those of the leg at hand, `takeovers` how often a worker
    died that had it. `worker` is the one that has it, `wish` what is asked of that; `outcome` is how it has ended.
    """

    run_id: str
    app_name: str
    user_id: str
    session_id: str
    status: Status
    priority: int = 0
    labels: tuple[str, ...] = ()
    awaits: str | None = None
    due: float = 0.0
    leg: int = 1
    attempts: int = 0
    takeovers: int = 0
    worker: str | None = None
    wish: Wish | None = None
    created: float = 0.0
    started: float | None = None
    ended: float | None = None
    outcome: Outcome | None = None

    @property
    def over(self) -> bool:
        """Whether the run is over."""
        return self.status in OVER

    @classmethod
    def of(cls, row: Row) -> RunInfo:
        """What a row says."""
        awaits = row.awaits.partition("\x1f")[0] if row.awaits else None
        if row.status == "waiting" and row.wakes is not None:
            awaits = "time"
        return cls(
            row.run_id,
            row.app_name,
            row.user_id,
            row.session_id,
            row.status,
            row.priority,
            tuple(row.labels.split(",")) if row.labels else (),
            awaits,
            row.due,
            row.leg,
            row.attempts,
            row.takeovers,
            row.worker,
            row.wish,
            row.created,
            row.started,
            row.ended,
            None if row.outcome is None else Outcome.loads(row.outcome),
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, without what is not there."""
        said: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        said["labels"] = list(self.labels)
        if self.outcome is not None:
            said["outcome"] = json.loads(self.outcome.dumps())
        return {name: value for name, value in said.items() if value is not None}


class WorkerRow(NamedTuple):
    """A row of `flowloom_workers`."""

    worker: str
    app_name: str
    beat: float
    patience: float
    holder: str | None
    started: float
    version: str
    labels: str
    capacity: int
    running: int
    draining: int
    address: str | None
    token: str | None


WORKER_COLUMNS = ", ".join(WorkerRow._fields)


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker of the fleet, which the registry knows as `worker`, for the app `app_name`.

    `silent` is for how many seconds it was not heard of; it counts as dead after `dead_after`. It `started` at that
    time, runs flowloom `version`, has `labels`, `running` runs of `capacity`, and takes no more while `draining`.
    """

    worker: str
    app_name: str
    silent: float
    dead_after: float
    started: float
    version: str
    labels: tuple[str, ...]
    capacity: int
    running: int
    draining: bool

    @classmethod
    def of(cls, row: WorkerRow, now: float) -> WorkerInfo:
        """What a row says at the time `now`."""
        labels = tuple(row.labels.split(",")) if row.labels else ()
        silent = max(now - row.beat, 0.0)
        return cls(
            row.worker,
            row.app_name,
            silent,
            row.patience,
            row.started,
            row.version,
            labels,
            row.capacity,
            row.running,
            bool(row.draining),
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "labels": list(self.labels)}

"""`Schedule`: runs that are due at certain times (durable design, section 4). Needs the extra `schedules`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from flowloom.durable.given import check_priority
from flowloom.durable.records import OVER, RunInfo, are_labels
from flowloom.durable.specs import Spec, message_data
from flowloom.durable.sql_runs import Setting, find
from flowloom.durable.sql_submit import Submission, submit
from flowloom.errors import AlreadyExistsError, ConfigurationError, MissingExtraError
from flowloom.events.ids import new_id
from flowloom.extras import absent, missing_extra
from flowloom.runner.message import Message, content_of_message
from flowloom.sessions.admission import check_texts
from flowloom.sessions.sql_workers import now
from flowloom.sql import Connection

try:
    from croniter import croniter
except ImportError as error:
    if TYPE_CHECKING:
        raise
    croniter = absent(missing_extra("Schedules need croniter", "schedules", error))

_log = logging.getLogger("flowloom.durable")
_MOST_AT_ONCE = 100
"""How many times that have passed are caught up with in one go."""
_LOOKS_BACK = (60.0, 3600.0, 86_400.0, 32 * 86_400.0, 366 * 86_400.0, float("inf"))
"""The seconds before a moment in which the latest time that has passed is looked for, one after the other."""
_UNREADABLE = 60.0
"""Seconds for which a schedule that cannot be read leaves those alone that are due after it."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A message that the fleet is to answer again and again.

    `name` is unique in the app. `cron` says when, in five fields (`0 7 * * mon-fri`; a sixth one for seconds), by the
    clock of `timezone` (`Europe/Berlin`): a time that the clock leaves out in spring comes right after it, one that it
    shows twice in autumn counts once, unless it is due every hour. `message` is submitted for the user `user_id`, in
    the session `session_id`, with `priority` and `labels`; without a session, each run has one of its own.

    `overlap` says what happens if the run before is not over: `skip` leaves this one out, `queue` submits it, too.
    `catch_up`: whether all times are made good that passed while no worker lived; otherwise the latest of them is.

    Raises `ConfigurationError` for a `cron`, a `timezone` or labels that cannot be read, `InputValidationError` for a
    message, a name or a priority that is none, `MissingExtraError` without the extra `schedules`.
    """

    name: str
    cron: str
    timezone: str
    message: Message
    user_id: str
    session_id: str = ""
    overlap: Literal["skip", "queue"] = "skip"
    catch_up: bool = False
    priority: int = 0
    labels: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        check_texts(name=self.name, cron=self.cron, timezone=self.timezone, user_id=self.user_id)
        check_texts(session_id=self.session_id)
        check_priority(self.priority)
        if not self.name or not self.user_id:
            raise ConfigurationError("A schedule needs a name and a user id; one of them is empty.")
        if self.overlap not in ("skip", "queue"):
            raise ConfigurationError(f"The `overlap` of a schedule is `skip` or `queue`, not {self.overlap!r}.")
        try:
            ZoneInfo(self.timezone)
        except (OSError, ValueError, LookupError) as error:
            raise ConfigurationError(
                f"`{self.timezone}` is no time zone of this machine. Give one as `Europe/Berlin`, or `UTC`."
            ) from error
        try:
            if len(self.cron.split()) > 6:
                raise ValueError("there are more than six fields")
            next(self.times(0.0))
        except MissingExtraError:
            raise
        except (ValueError, IndexError, StopIteration) as error:
            raise ConfigurationError(
                f"`{self.cron}` does not say when: {error}. Give five fields (minute, hour, day of the month, month, "
                f"day of the week), as `0 7 * * mon-fri`."
            ) from error
        if not are_labels(self.labels):
            raise ConfigurationError(f"The `labels` of a schedule are words without a comma, not {self.labels!r}.")
        content_of_message(self.message)
        object.__setattr__(self, "labels", tuple(self.labels))

    def times(self, after: float) -> Iterator[float]:
        """When it is due `after` a time, in seconds since the epoch."""
        zone, every_hour = ZoneInfo(self.timezone), self.cron.split()[1].startswith("*")
        for moment in croniter(self.cron, datetime.fromtimestamp(after, zone), ret_type=datetime):
            if not moment.fold or every_hour:  # the second time that the clock shows it
                yield moment.timestamp()

    def next_after(self, after: float) -> float:
        """When it is due next `after` a time; both in seconds since the epoch."""
        return next(self.times(after))

    def latest(self, first: float, moment: float) -> float:
        """When it was due last, of `first`, when it was, and the times after that up to a `moment`."""
        # from all of them on would be too many, where they are minutes and the worker was away for long
        for back in _LOOKS_BACK:
            passed = [*takewhile(lambda due: due <= moment, self.times(max(first, moment - back)))]
            if passed:
                return passed[-1]
        return first

    def dumps(self) -> str:
        """The JSON text."""
        said = {each: getattr(self, each) for each in self.__slots__}
        said["message"] = message_data(content_of_message(self.message))
        return json.dumps(said, ensure_ascii=False)

    @classmethod
    def loads(cls, text: str) -> Schedule:
        """What `dumps` has written, the `text`."""
        return cls(**json.loads(text))


class ScheduleInfo(NamedTuple):
    """A `schedule`, when it is due next (`next_due`, seconds since the epoch), and its latest run."""

    schedule: Schedule
    next_due: float
    last_run: RunInfo | None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        said: dict[str, Any] = json.loads(self.schedule.dumps())
        last = None if self.last_run is None else self.last_run.to_dict()
        return {**said, "next_due": self.next_due, "last_run": last}


# -- on a connection -------------------------------------------------------------------------------------


def put(connection: Connection, setting: Setting, app_name: str, schedule: Schedule) -> float:
    """Keep a schedule, in the place of one of the same name; when it is due first."""
    due = schedule.next_after(now(connection, setting.dialect))
    sql = (
        "INSERT INTO flowloom_schedules (app_name, name, schedule, next_due) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (app_name, name) DO UPDATE SET schedule = excluded.schedule, next_due = excluded.next_due"
    )
    connection.execute(sql, (app_name, schedule.name, schedule.dumps(), due))
    return due


def delete(connection: Connection, app_name: str, name: str) -> bool:
    """Forget a schedule; whether there was one. Its runs stay."""
    sql = "DELETE FROM flowloom_schedules WHERE app_name = ? AND name = ?"
    return connection.execute(sql, (app_name, name)).rowcount > 0


def listed(connection: Connection, setting: Setting, app_name: str) -> list[ScheduleInfo]:
    """The schedules of an app, by name."""
    sql = "SELECT schedule, next_due, last_run FROM flowloom_schedules WHERE app_name = ? ORDER BY name"
    found: list[ScheduleInfo] = []
    for text, due, last in connection.execute(sql, (app_name,)).fetchall():
        row = None if last is None else find(connection, last, setting.dialect)
        found.append(ScheduleInfo(Schedule.loads(text), due, None if row is None else RunInfo.of(row)))
    return found


def next_due(connection: Connection, setting: Setting, app_name: str) -> float | None:
    """In how many seconds the next schedule of an app is due; None if there is none."""
    sql = "SELECT MIN(next_due) FROM flowloom_schedules WHERE app_name = ?"
    found = connection.execute(sql, (app_name,)).fetchone()[0]
    return None if found is None else max(found - now(connection, setting.dialect), 0.0)


def submit_due(connection: Connection, setting: Setting, app_name: str) -> tuple[str, ...] | None:
    """Submit what is due first, once, whoever comes first; the runs that are ready then. None if there is nothing."""
    moment = now(connection, setting.dialect)
    lock = " FOR UPDATE SKIP LOCKED" if setting.dialect == "postgres" else ""
    sql = (
        "SELECT name, schedule, next_due, last_run FROM flowloom_schedules WHERE app_name = ? AND next_due <= ? "
        f"ORDER BY next_due LIMIT 1{lock}"
    )
    row = connection.execute(sql, (app_name, moment)).fetchone()
    if row is None:
        return None
    name, text, first, last = row
    try:
        schedule = Schedule.loads(text)
    except Exception:  # whatever another release, or another machine, has written
        _log.exception("Schedule `%s` cannot be read here; it is looked at again in a minute.", name)
        sql = "UPDATE flowloom_schedules SET next_due = ? WHERE app_name = ? AND name = ?"
        connection.execute(sql, (moment + _UNREADABLE, app_name, name))
        return ()
    if schedule.catch_up:
        due, passed = first, list[float]()
        times = schedule.times(first)
        while due <= moment and len(passed) < _MOST_AT_ONCE:
            passed.append(due)
            due = next(times)
    else:
        passed, due = [schedule.latest(first, moment)], schedule.next_after(moment)
    ready: list[str] = []
    for each in passed:
        before = None if last is None else find(connection, last, setting.dialect)
        if schedule.overlap == "skip" and before is not None and before.status not in OVER:
            continue
        run_id = f"{app_name}:{name}:{int(each)}"
        try:
            ready += submit(connection, setting, _submission(app_name, schedule, run_id)).ready
            last = run_id
        except AlreadyExistsError as error:  # the times that follow are due all the same
            _log.warning("Schedule `%s` leaves out a time: %s", name, error)
    sql = "UPDATE flowloom_schedules SET next_due = ?, last_run = ? WHERE app_name = ? AND name = ?"
    connection.execute(sql, (due, last, app_name, name))
    return tuple(ready)


def _submission(app_name: str, schedule: Schedule, run_id: str) -> Submission:
    return Submission(
        run_id=run_id,
        key=(app_name, schedule.user_id, schedule.session_id or f"{schedule.name}-{new_id()}"),
        message=message_data(content_of_message(schedule.message)),
        spec=Spec(schedule=schedule.name).to_dict(),
        priority=schedule.priority,
        labels=schedule.labels,
    )

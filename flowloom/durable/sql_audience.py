"""Who reads a run that a server has begun, on a connection, within a transaction.

Its clients may come and go at any of the processes that serve it: so their number is in the row of the run.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from flowloom.durable.records import Changed, Row
from flowloom.durable.specs import Audience, Spec, audience_in
from flowloom.durable.sql_runs import Setting, cancel, locked
from flowloom.sql import Connection

_GOES_ON = ("waiting", "ready", "running")


def audience_of(row: Row) -> Audience:
    """Who reads a run; no one reads a run that no server has begun, or read."""
    return audience_in(json.loads(row.spec)) or Audience(readers=0)


def count(connection: Connection, setting: Setting, run_id: str, more: int, given: Spec | None) -> Changed | None:
    """Note that there are `more` readers of a run, or fewer; `given` says how it is run for them from now on."""
    row = locked(connection, run_id, setting)
    if row is None:
        return None
    known = audience_of(row)
    asked = known if given is None or given.audience is None else given.audience
    now = replace(asked, readers=max(known.readers + more, 0))
    said = {**json.loads(row.spec), **({} if given is None else given.to_dict()), "audience": asdict(now)}
    spec = json.dumps(said, ensure_ascii=False)
    connection.execute("UPDATE flowloom_runs SET spec = ? WHERE run_id = ?", (spec, run_id))
    return Changed(row._replace(spec=spec))


def desert(connection: Connection, setting: Setting, run_id: str, leg: int) -> Changed | None:
    """Cancel a run in its `leg` that has no reader, unless it is over, or waits for a person."""
    row = locked(connection, run_id, setting)
    if row is None:
        return None
    if row.status not in _GOES_ON or row.leg != leg or audience_of(row).readers:
        return Changed(row)
    return cancel(connection, setting, run_id, "cancel")

"""`Schema`: the numbered steps that bring a room's tables to what this release knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flowloom.errors import StorageError
from flowloom.sql.database import Connection, Database, Dialect

Step = Sequence[str]
"""Statements that are done together. A step that was released never changes."""

_TABLE = (
    "CREATE TABLE IF NOT EXISTS flowloom_schemas "
    "(name TEXT NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (name, version))"
)
_LOCK = 7_305_011_946_518_257  # of PostgreSQL's advisory locks; any number will do, as long as it stays


class Schema:
    """The tables of one room: its `name`, and for each dialect the `steps` from the first to the latest.

    Several processes may ask for it at once; the steps are done by whoever comes first.
    """

    def __init__(self, name: str, steps: Mapping[Dialect, Sequence[Step]]) -> None:
        self.name = name
        self.steps = steps

    async def ensure(self, database: Database) -> None:
        """Return when the tables are there. Raises `StorageError` if a newer release has changed them."""
        if self.name in database.schemas:
            return
        await database.write(lambda connection: self._apply(connection, database))
        database.schemas.add(self.name)

    def _apply(self, connection: Connection, database: Database) -> None:
        if database.dialect == "postgres":
            connection.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
        connection.execute(_TABLE)
        row = connection.execute("SELECT max(version) FROM flowloom_schemas WHERE name = ?", (self.name,)).fetchone()
        found: int = row[0] or 0
        steps = self.steps[database.dialect]
        if found > len(steps):
            raise StorageError(
                f"The tables `{self.name}` of {database.name} are of version {found}, but this release of flowloom "
                f"knows them up to version {len(steps)}. Use the release that wrote them, or a newer one."
            )
        for number in range(found, len(steps)):
            for statement in steps[number]:
                connection.execute(statement)
            connection.execute("INSERT INTO flowloom_schemas (name, version) VALUES (?, ?)", (self.name, number + 1))

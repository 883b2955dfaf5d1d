"""Numbered steps: done once, by whoever comes first, and never backwards."""

from __future__ import annotations

import asyncio

import pytest

from flowloom.errors import StorageError
from flowloom.sql import Schema
from sql.kinds import Open, open_database

__all__ = ["open_database"]

FIRST = ("CREATE TABLE things (n INTEGER)", "INSERT INTO things VALUES (1)")
SECOND = ("ALTER TABLE things ADD COLUMN m INTEGER", "UPDATE things SET m = 2")


def schema(*steps: tuple[str, ...]) -> Schema:
    return Schema("things", {"sqlite": steps, "postgres": steps})


async def test_steps_are_done_once_and_in_order(open_database: Open) -> None:
    for steps in ((FIRST,), (FIRST, SECOND), (FIRST, SECOND)):
        database = open_database()
        await schema(*steps).ensure(database)
        await schema(*steps).ensure(database)
        await database.close()
    database = open_database()
    assert await database.read(lambda connection: connection.execute("SELECT n, m FROM things").fetchall()) == [(1, 2)]
    await database.close()


async def test_those_who_start_at_once_do_the_steps_once(open_database: Open) -> None:
    databases = [open_database() for _ in range(6)]
    await asyncio.gather(*(schema(FIRST, SECOND).ensure(each) for each in databases))
    found = await databases[0].read(lambda connection: connection.execute("SELECT n, m FROM things").fetchall())
    assert found == [(1, 2)]
    for each in databases:
        await each.close()


async def test_a_step_that_fails_is_not_half_done(open_database: Open) -> None:
    database = open_database()
    broken = schema(FIRST, ("CREATE TABLE more (n INTEGER)", "INSERT INTO nope VALUES (1)"))
    with pytest.raises(StorageError, match="nope"):
        await broken.ensure(database)
    await schema(FIRST, SECOND).ensure(database)
    with pytest.raises(StorageError, match="more"):
        await database.read(lambda connection: connection.execute("SELECT * FROM more"))
    await database.close()


async def test_tables_of_a_newer_release_are_refused(open_database: Open) -> None:
    newer, older = open_database(), open_database()
    await schema(FIRST, SECOND).ensure(newer)
    with pytest.raises(StorageError, match=r"`things`.*version 2.*up to version 1"):
        await schema(FIRST).ensure(older)
    await newer.close()
    await older.close()


async def test_rooms_share_a_database(open_database: Open) -> None:
    """Each has steps of its own."""
    database = open_database()
    await schema(FIRST).ensure(database)
    steps = (("CREATE TABLE others (n INTEGER)",),)
    await Schema("others", {"sqlite": steps, "postgres": steps}).ensure(database)
    assert await database.read(lambda connection: connection.execute("SELECT * FROM others").fetchall()) == []
    await database.close()

"""What works may rely on, on SQLite and on PostgreSQL: order, transactions, errors, loops and threads."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flowloom.errors import InputValidationError, StorageError
from flowloom.sql import Connection, Database
from flowloom.sql.sqlite import SqliteDatabase
from sql.kinds import Open, open_database

__all__ = ["open_database"]


@pytest.fixture
async def database(open_database: Open) -> AsyncIterator[Database]:
    opened = open_database()
    await opened.write(lambda connection: connection.execute("CREATE TABLE t (n INTEGER)"))
    yield opened
    await opened.close()


class Insert:
    """A work that inserts a number, and remembers how often it ran."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, connection: Connection) -> int:
        connection.execute("INSERT INTO t (n) VALUES (?)", (self.number,))
        return self.number


def numbers(connection: Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT n FROM t").fetchall()]


def fail(connection: Connection) -> None:
    connection.execute("INSERT INTO t (n) VALUES (99)")
    raise KeyError("a work's own")


async def test_what_was_written_is_read(database: Database) -> None:
    assert await database.write(Insert(1)) == 1
    assert await database.read(numbers) == [1]


async def test_writes_of_a_lane_keep_their_order(database: Database) -> None:
    for number in range(0, 50, 2):
        database.write_buffered(Insert(number), lane="a")
        await asyncio.gather(database.write(Insert(number + 1), lane="a"))
    assert await database.read(numbers) == list(range(50))


async def test_many_writes_at_once_all_happen(database: Database) -> None:
    await asyncio.gather(*(database.write(Insert(number), lane=number % 7) for number in range(200)))
    assert sorted(await database.read(numbers)) == list(range(200))


async def test_a_work_that_fails_leaves_no_trace(database: Database) -> None:
    """Neither its own, nor in the works that shared its transaction."""
    works = [database.write(Insert(1)), database.write(fail), database.write(Insert(2))]
    done = await asyncio.gather(*works, return_exceptions=True)
    assert (done[0], repr(done[1]), done[2]) == (1, repr(KeyError("a work's own")), 2)
    assert await database.read(numbers) == [1, 2]


async def test_an_error_of_sql_says_where_it_happened(database: Database) -> None:
    with pytest.raises(StorageError, match="nope") as raised:
        await database.write(lambda connection: connection.execute("INSERT INTO nope VALUES (1)"))
    assert database.name.partition("`")[2] in str(raised.value)
    with pytest.raises(StorageError, match="nope"):
        await database.read(lambda connection: connection.execute("SELECT * FROM nope"))
    assert await database.read(numbers) == []


async def test_what_a_database_cannot_hold_is_the_callers_error(database: Database) -> None:
    for done in (database.write, database.read):
        with pytest.raises(InputValidationError, match=r"cannot hold .*half\\ud800"):
            await done(lambda connection: connection.execute("SELECT ?", ("half\ud800",)))


async def test_an_error_of_a_write_buffered_is_raised_in_its_lane_once(database: Database) -> None:
    """The next write of the lane is not done, others are."""
    database.write_buffered(fail, lane="a")
    database.write_buffered(Insert(7), lane="a")
    await database.write(Insert(1), lane="b")
    with pytest.raises(KeyError):
        await database.write(Insert(2), lane="a")
    await database.write(Insert(3), lane="a")
    await database.flush()
    assert sorted(await database.read(numbers)) == [1, 3]


async def test_an_error_of_what_may_get_lost_is_told_to_nobody(database: Database) -> None:
    """Neither to who writes next in its lane, nor to a flush."""
    for _ in range(2):
        database.write_buffered(lambda connection: connection.execute("INSERT INTO nowhere VALUES (1)"), durable=False)
        await database.write(lambda connection: None)
    await database.flush()


async def test_a_flush_waits_and_raises(database: Database) -> None:
    database.write_buffered(Insert(1), lane="a")
    await database.flush()
    assert await database.read(numbers) == [1]
    database.write_buffered(fail, lane="a")
    database.write_buffered(Insert(2), lane="b")
    await database.flush(lane="b")
    with pytest.raises(KeyError):
        await database.flush()
    await database.flush()
    assert await database.read(numbers) == [1, 2]


async def test_what_was_written_soon_is_there_after_some_time(open_database: Open, database: Database) -> None:
    """Nobody has to ask for it."""
    database.write_buffered(Insert(1))
    other = open_database()
    for _ in range(2000):
        if await other.read(numbers):
            break
        await asyncio.sleep(0.002)
    assert await other.read(numbers) == [1]
    await other.close()


async def test_a_read_sees_one_moment(database: Database) -> None:
    """What is committed between two statements of one read is not in the second."""
    begun, written = threading.Event(), threading.Event()

    def count_twice(connection: Connection) -> list[int]:
        first = connection.execute("SELECT count(*) FROM t").fetchone()[0]
        begun.set()
        assert written.wait(60)
        return [first, connection.execute("SELECT count(*) FROM t").fetchone()[0]]

    reading = asyncio.ensure_future(database.read(count_twice))
    assert await asyncio.to_thread(begun.wait, 60)
    await database.write(lambda connection: connection.execute("INSERT INTO t VALUES (1)"))
    written.set()
    assert await reading == [0, 0]


async def test_closing_finishes_what_was_asked_for(open_database: Open, database: Database) -> None:
    for number in range(5):
        database.write_buffered(Insert(number), lane=number)
    await database.close()
    await database.close()
    with pytest.raises(StorageError, match="closed"):
        await database.read(numbers)
    again = open_database()
    assert sorted(await again.read(numbers)) == list(range(5))
    await again.close()


async def test_no_thread_outlives_a_database(open_database: Open) -> None:
    before = set(threading.enumerate())
    opened = open_database()
    await asyncio.gather(*(opened.read(lambda connection: connection.execute("SELECT 1")) for _ in range(9)))
    await opened.write(lambda connection: connection.execute("CREATE TABLE u (n INTEGER)"))
    assert set(threading.enumerate()) > before
    await opened.close()
    assert set(threading.enumerate()) <= before


async def test_an_unused_database_has_no_thread(open_database: Open) -> None:
    before = set(threading.enumerate())
    opened = open_database()
    await opened.flush()
    await opened.close()
    assert set(threading.enumerate()) == before


async def test_a_write_whose_waiter_was_cancelled_is_done_all_the_same(database: Database) -> None:
    waiting = asyncio.ensure_future(database.write(Insert(1)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await database.write(Insert(2))
    assert await database.read(numbers) == [1, 2]


def test_a_database_serves_several_loops_and_threads(open_database: Open) -> None:
    database = open_database()
    asyncio.run(_create(database))
    threads = [threading.Thread(target=lambda n=n: asyncio.run(_insert(database, n)), args=()) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(asyncio.run(_numbers(database))) == sorted(list(range(4)) * 10)
    asyncio.run(database.close())


async def _create(database: Database) -> None:
    await database.write(lambda connection: connection.execute("CREATE TABLE t (n INTEGER)"))


async def _insert(database: Database, number: int) -> None:
    for _ in range(10):
        await database.write(Insert(number), lane=number)


async def _numbers(database: Database) -> list[int]:
    return await database.read(numbers)


def test_a_database_that_is_dropped_ends_by_itself(open_database: Open) -> None:
    """No thread stays, nothing is warned of, and what was asked for is written."""
    before = set(threading.enumerate())

    async def use() -> None:
        dropped = open_database()
        await _create(dropped)
        dropped.write_buffered(Insert(5))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(use())
        gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert set(threading.enumerate()) <= before
    database = open_database()
    assert asyncio.run(_numbers(database)) == [5]
    asyncio.run(database.close())


def test_a_program_that_never_closes_ends(tmp_path: Path) -> None:
    """With what it asked for on the disk."""
    program = (
        "import asyncio\n"
        "from flowloom.sql.sqlite import SqliteDatabase\n"
        f"database = SqliteDatabase({str(tmp_path / 'a.db')!r})\n"
        "async def main():\n"
        "    await database.write(lambda c: c.execute('CREATE TABLE t (n INTEGER)') and None)\n"
        "    database.write_buffered(lambda c: c.execute('INSERT INTO t VALUES (1)'))\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    database = SqliteDatabase(tmp_path / "a.db")
    assert asyncio.run(_numbers(database)) == [1]
    asyncio.run(database.close())

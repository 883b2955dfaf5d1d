"""What is particular to PostgreSQL: reaching the server, lost connections, transactions in each other's way."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from functools import partial

import pytest

from flowloom import ConfigurationError
from flowloom.errors import InputValidationError, StorageError
from flowloom.sql import Connection, postgres
from flowloom.sql.postgres import PostgresDatabase


@pytest.fixture
async def database(postgres_dsn: str) -> AsyncIterator[PostgresDatabase]:
    opened = PostgresDatabase(postgres_dsn, max_connections=4)
    await opened.write(lambda connection: connection.execute("CREATE TABLE t (key TEXT PRIMARY KEY, n INTEGER)"))
    yield opened
    await opened.close()


async def test_a_server_that_cannot_be_reached_is_named_without_the_password() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        database = PostgresDatabase(f"postgresql://ann:secret@127.0.0.1:{port}/shop")
        with pytest.raises(StorageError, match=f"`shop` at 127.0.0.1:{port}.*efused") as raised:
            await database.read(lambda connection: connection.execute("SELECT 1"))
        await database.close()
    assert "secret" not in str(raised.value)


def test_a_dsn_that_cannot_be_read_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigurationError, match="postgresql://user@host") as raised:
        PostgresDatabase("secret what is this")
    assert "secret" not in str(raised.value)
    with pytest.raises(ConfigurationError, match="max_connections"):
        PostgresDatabase("dbname=a", max_connections=0)


@pytest.mark.parametrize("missing", ["psycopg", "psycopg_pool"])
def test_a_missing_extra_is_named(missing: str) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import flowloom\n"
        "kind = flowloom.PostgresSessionService\n"
        "try:\n    kind('dbname=a')\n"
        "except flowloom.errors.MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert 'pip install "flowloom[postgres]"' in done.stdout


async def test_lost_connections_are_made_anew(database: PostgresDatabase) -> None:
    """A read or write whose connection the server has ended is done again on another."""

    def insert(connection: Connection) -> None:
        connection.execute("INSERT INTO t VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET n = t.n + 1", ("a",))

    def end_others(connection: Connection) -> None:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    for round in range(1, 4):
        await asyncio.gather(*(database.read(lambda c: c.execute("SELECT pg_sleep(0.005)")) for _ in range(4)))
        await database.write(end_others)
        await asyncio.gather(*(database.write(insert, lane=lane) for lane in range(5)))
        found = await database.read(lambda connection: connection.execute("SELECT n FROM t").fetchone()[0])
        assert found == 5 * round


async def test_transactions_in_each_others_way_are_done_again(database: PostgresDatabase) -> None:
    """Two that lock the same rows in opposite order both happen."""
    await database.write(lambda connection: connection.execute("INSERT INTO t VALUES ('a', 0), ('b', 0)"))
    both = threading.Barrier(2, timeout=60)
    met = threading.Event()

    def add(first: str, second: str, connection: Connection) -> None:
        connection.execute("UPDATE t SET n = n + 1 WHERE key = ?", (first,))
        if not met.is_set():
            both.wait()
            met.set()
        connection.execute("UPDATE t SET n = n + 1 WHERE key = ?", (second,))

    await asyncio.gather(
        database.write(lambda connection: add("a", "b", connection), lane=1),
        database.write(lambda connection: add("b", "a", connection), lane=2),
    )
    assert await database.read(lambda connection: connection.execute("SELECT n FROM t").fetchall()) == [(2,), (2,)]


async def test_lanes_do_not_wait_for_each_other(database: PostgresDatabase) -> None:
    together = threading.Barrier(3, timeout=60)
    await asyncio.gather(*(database.write(lambda connection: together.wait(), lane=lane) for lane in range(3)))


async def test_a_work_that_has_not_begun_can_be_taken_back(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its lane is idle or at work; not once it has begun."""
    monkeypatch.setattr(postgres, "BUFFERED_SECONDS", 60.0)
    began, go_on = threading.Event(), threading.Event()

    def hold(connection: Connection) -> None:
        began.set()
        assert go_on.wait(60)

    def insert(connection: Connection) -> None:
        connection.execute("INSERT INTO t VALUES ('a', 0)")

    assert database.withdraw(database.write_buffered(insert, lane=1))
    holding = asyncio.ensure_future(database.write(hold, lane=1))
    await asyncio.to_thread(began.wait, 60)
    behind = database.write_buffered(insert, lane=1)
    assert database.withdraw(behind)
    assert not database.withdraw(behind)
    go_on.set()
    await holding
    await database.flush()
    assert await database.read(lambda connection: connection.execute("SELECT count(*) FROM t").fetchone()[0]) == 0
    done = database.write_buffered(insert, lane=1)
    await database.flush()
    assert not database.withdraw(done)


@pytest.mark.parametrize(("key", "why"), [("a\0b", "NUL"), (random.Random(1).randbytes(3000).hex(), "maximum")])
async def test_what_a_table_has_no_room_for_harms_no_neighbour(key: str, why: str, database: PostgresDatabase) -> None:
    """It is the caller's error, which is not tried again, and the others of its lane are written."""
    tries: list[str] = []

    def insert(key: str, connection: Connection) -> None:
        tries.append(key)
        connection.execute("INSERT INTO t VALUES (?, 0)", (key,))

    works = [partial(insert, each) for each in ("x", key, "y")]
    done = await asyncio.gather(*(database.write(work, lane=1) for work in works), return_exceptions=True)
    assert [type(each) for each in done] == [type(None), InputValidationError, type(None)]
    assert why in str(done[1])
    assert tries.count(key) <= 2
    assert await database.read(lambda connection: connection.execute("SELECT count(*) FROM t").fetchone()[0]) == 2


async def test_a_percent_sign_is_a_percent_sign(database: PostgresDatabase) -> None:
    found = await database.read(lambda connection: connection.execute("SELECT 7 % 4, ?::text", ("%s ?",)).fetchone())
    assert found == (3, "%s ?")


async def test_a_transaction_of_a_process_that_was_stopped_holds_no_locks_for_long(
    database: PostgresDatabase, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends it, so that others go on; it is done again when the process is woken."""
    monkeypatch.setattr(postgres, "STOPPED_AFTER", 1.0)
    stopped, woken, tries = threading.Event(), threading.Event(), list[int]()
    await database.write(lambda connection: connection.execute("INSERT INTO t VALUES ('a', 0)"))
    zombie = PostgresDatabase(postgres_dsn, max_connections=1)

    def write(connection: Connection) -> None:
        connection.execute("UPDATE t SET n = n + 1")
        tries.append(1)
        stopped.set()
        woken.wait(60)

    writing = asyncio.create_task(zombie.write(write))
    await asyncio.to_thread(stopped.wait, 60)
    await asyncio.wait_for(database.write(lambda connection: connection.execute("UPDATE t SET n = n + 10")), 60)
    woken.set()
    await writing
    rows = await database.read(lambda connection: connection.execute("SELECT n FROM t").fetchall())
    assert (rows, len(tries)) == ([(11,)], 2)
    await zombie.close()

"""What is particular to SQLite: the file, its directory, other processes, and what is synced."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowloom.errors import StorageError
from flowloom.sql import Connection
from flowloom.sql import sqlite as module
from flowloom.sql.sqlite import SqliteDatabase


def create(connection: Connection) -> None:
    connection.execute("CREATE TABLE t (n INTEGER)")


def insert(connection: Connection) -> None:
    connection.execute("INSERT INTO t (n) VALUES (1)")


def count(connection: Connection) -> int:
    return connection.execute("SELECT count(*) FROM t").fetchone()[0]


def no_file(tmp_path: Path) -> tuple[Path, str]:
    return tmp_path / "nowhere" / "a.db", "no directory.*Make `"


def a_directory(tmp_path: Path) -> tuple[Path, str]:
    return tmp_path, "could not be opened|unable to open"


def a_text(tmp_path: Path) -> tuple[Path, str]:
    (tmp_path / "a.txt").write_text("x" * 4096)
    return tmp_path / "a.txt", "use another path"


@pytest.mark.parametrize("where", [no_file, a_directory, a_text])
async def test_a_file_that_cannot_be_used_is_named(where: Callable[[Path], tuple[Path, str]], tmp_path: Path) -> None:
    path, reason = where(tmp_path)
    database = SqliteDatabase(path)
    for _ in range(2):
        with pytest.raises(StorageError, match=reason) as raised:
            await database.write(create)
        assert str(path) in str(raised.value)
    await database.close()


async def test_in_memory_reads_see_what_was_written() -> None:
    database = SqliteDatabase(":memory:")
    await database.write(create)
    database.write_buffered(insert)
    assert await database.read(count) == 1
    await database.close()


async def test_durable_writes_are_synced_and_others_are_not(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "a.db")

    def level(connection: Connection) -> int:
        return connection.execute("PRAGMA synchronous").fetchone()[0]

    levels = [await database.write(level, durable=durable) for durable in (True, False, True)]
    assert levels == [2, 1, 2]  # FULL, NORMAL, FULL
    assert await database.write(lambda c: c.execute("PRAGMA journal_mode").fetchone()[0]) == "wal"
    await database.close()


async def test_writes_that_wait_share_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that nobody waits for is committed with the one that comes next."""
    monkeypatch.setattr(module, "BUFFERED_SECONDS", 60.0)
    database = SqliteDatabase(tmp_path / "a.db")
    await database.write(create)
    seen: list[int] = []

    def look(connection: Connection) -> None:
        reader = sqlite3.connect(tmp_path / "a.db")
        seen.append(reader.execute("SELECT count(*) FROM t").fetchone()[0])
        reader.close()

    database.write_buffered(insert)
    await database.write(look)
    assert seen == [0]
    assert await database.read(count) == 1
    await database.close()


async def test_a_writer_waits_for_other_programs(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "a.db")
    await database.write(create)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(database.write(insert))
    for _ in range(10):
        await asyncio.sleep(0.001)
    assert not waiting.done()
    assert await database.read(count) == 0
    other.execute("COMMIT")
    await waiting
    other.close()
    await database.close()


async def test_a_writer_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_TIMEOUT", 0.02)
    database = SqliteDatabase(tmp_path / "a.db")
    await database.write(create)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="Another program has locked it"):
        await database.write(insert)
    other.execute("COMMIT")
    other.close()
    await database.write(insert)
    assert await database.read(count) == 1
    await database.close()


async def test_reads_run_side_by_side(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "a.db")
    await database.write(create)
    together = threading.Barrier(3, timeout=60)

    def meet(connection: Connection) -> int:
        together.wait()
        return count(connection)

    assert await asyncio.gather(*(database.read(meet) for _ in range(3))) == [0, 0, 0]
    await database.close()


async def test_closing_tidies_up_the_files(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "a.db")
    await database.write(create)
    await database.read(count)
    await database.close()
    assert [each.name for each in tmp_path.iterdir()] == ["a.db"]  # noqa: ASYNC240


def deleted(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    path.with_suffix(".new").write_bytes(path.read_bytes())
    path.with_suffix(".new").rename(path)


def its_log_deleted(path: Path) -> None:
    Path(f"{path}-wal").unlink()


@pytest.mark.parametrize("change", [deleted, replaced, its_log_deleted])
async def test_a_file_that_was_deleted_or_replaced_is_never_written_to(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    """The next write raises `StorageError` with the path, and so does each one that follows."""
    database = SqliteDatabase(tmp_path / "a.db")
    await database.write(create)
    change(tmp_path / "a.db")
    for _ in range(2):
        with pytest.raises(StorageError, match=r"a\.db.*(deleted|replaced).*while it was open"):
            await database.write(insert)
    await database.close()


async def test_a_file_that_is_reached_by_a_link_is_looked_after_as_well(tmp_path: Path) -> None:
    """Its log of writes lies beside the file, not beside the link."""
    (tmp_path / "a.db").touch()
    (tmp_path / "link.db").symlink_to("a.db")
    database = SqliteDatabase(tmp_path / "link.db")
    await database.write(create)
    its_log_deleted(tmp_path / "a.db")
    with pytest.raises(StorageError, match=r"a\.db-wal.*deleted"):
        await database.write(insert)
    await database.close()


async def test_a_log_of_writes_that_was_replaced_is_seen_when_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which file it is costs too much to look at each time; that it is there is looked at each time."""
    looked: list[str] = []
    stat = os.stat

    def look(path: Any, **options: Any) -> os.stat_result:
        looked.append(str(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", look)
    monkeypatch.setattr(module, "LOG_LOOKS", 600.0)
    database = SqliteDatabase(tmp_path / "a.db")
    await database.write(create)
    for _ in range(5):
        await database.write(insert)
    log = f"{tmp_path / 'a.db'}-wal"
    assert looked.count(log) == 1
    await database.close()
    looked.clear()
    monkeypatch.setattr(module, "LOG_LOOKS", 0.0)
    database = SqliteDatabase(tmp_path / "a.db")
    await database.write(insert)
    shutil.copy(log, tmp_path / "new")
    os.replace(tmp_path / "new", log)
    with pytest.raises(StorageError, match=r"a\.db-wal.*replaced"):
        await database.write(insert)
    await database.close()


@pytest.mark.parametrize("change", [deleted, replaced])
async def test_a_file_that_was_deleted_or_replaced_is_not_read(change: Callable[[Path], None], tmp_path: Path) -> None:
    """Neither by a connection that was open, nor by one that would be opened now, nor in passing."""
    database = SqliteDatabase(tmp_path / "a.db")
    await database.write(create)
    change(tmp_path / "a.db")
    for _ in range(2):
        with pytest.raises(StorageError, match=r"a\.db"):
            await database.read(count)
        with pytest.raises(StorageError, match=r"a\.db"):
            database.glance(count)
    assert (tmp_path / "a.db").exists() == (change is replaced)
    await database.close()


async def test_a_full_disk_is_told_as_such_and_only_to_those_that_it_hits(tmp_path: Path) -> None:
    """SQLite takes a whole transaction back then: what waited for the same one is written all the same."""
    database = SqliteDatabase(tmp_path / "a.db")
    await database.write(create)
    await database.write(lambda connection: connection.execute("PRAGMA max_page_count=3").fetchall())

    def fill(connection: Connection) -> None:
        connection.execute("INSERT INTO t (n) VALUES (zeroblob(20000))")

    for expected in (1, 2):
        database.write_buffered(insert, lane=1)
        with pytest.raises(StorageError, match="disk is full: make room"):
            await database.write(fill, lane=2)
        with pytest.raises(StorageError, match="disk is full: make room"):
            await database.write(fill, lane=1)
        assert await database.read(count) == expected
    await database.close()


async def test_an_error_that_a_flush_has_told_is_not_told_again(tmp_path: Path) -> None:
    """Who writes next has nothing to do with it."""
    database = SqliteDatabase(tmp_path / "a.db")
    await database.write(create)
    (tmp_path / "a.db").rename(tmp_path / "b.db")
    database.write_buffered(insert, lane=1)
    with pytest.raises(StorageError, match="deleted"):
        await database.flush()
    (tmp_path / "b.db").rename(tmp_path / "a.db")
    await database.write(insert, lane=1)
    await database.close()


async def test_a_file_that_is_put_back_goes_on(tmp_path: Path) -> None:
    """As long as it is the same file, nothing was lost."""
    database = SqliteDatabase(tmp_path / "a.db")
    await database.write(create)
    (tmp_path / "a.db").rename(tmp_path / "b.db")
    with pytest.raises(StorageError):
        await database.write(insert)
    (tmp_path / "b.db").rename(tmp_path / "a.db")
    await database.write(insert)
    assert await database.read(count) == 1
    await database.close()


async def test_a_relative_path_is_that_of_the_folder_it_was_named_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may change its working folder while it has a file open."""
    monkeypatch.chdir(tmp_path)
    database = SqliteDatabase("a.db")
    await database.write(create)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    await database.write(insert)
    assert await database.read(count) == 1
    await database.close()

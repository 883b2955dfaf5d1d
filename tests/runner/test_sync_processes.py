"""The sync forms where a process ends or is forked: nothing is printed, nothing hangs, and histories are legal."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flowloom import PostgresSessionService, SqliteSessionService
from runner.situations import legal

BEGINNING = """
import os, sys, weakref
class Early: pass
early = Early()
weakref.finalize(early, int)  # so that weakref's own end of the program is not the last that was asked for
from flowloom import ConfigurationError, LlmAgent, PostgresSessionService, Runner, SqliteSessionService
from flowloom.errors import StorageError
from flowloom.testing import FunctionModel, call
where = sys.argv[1]
def look():
    "Look."
    return "x"
def runner():
    said = lambda request: "done" if request.contents[-1].parts[0].function_response else [call("look"), call("look")]
    service = (PostgresSessionService if "://" in where else SqliteSessionService)(where)
    agent = LlmAgent(name="root", model=FunctionModel(said), tools=[look])
    return Runner(app_name="app", agent=agent, session_service=service, auto_create_session=True)
def go(session_id):
    return dict(user_id="ann", session_id=session_id, new_message="go")
"""
LEFT_OPEN = """
mine = runner()
run, stream, cycle = mine.run(**go("run")), mine.run_stream_sync(**go("stream")), mine.run(**go("cycle"))
for left in (run, stream, cycle):
    next(left)
while type(next(stream)).__name__ != "ToolCallStarted":
    pass
around = [cycle]
around.append(around)
del cycle, around
"""
FORKED = """
mine = runner()
print(mine.run_to_result_sync(**go("one")).status, flush=True)
open_run = mine.run(**go("two"))
next(open_run)
child = os.fork()
if child == 0:
    print(runner().run_to_result_sync(**go("three")).status, flush=True)
    for use, error in ((lambda: mine.run_to_result_sync(**go("two")), StorageError),
                       (lambda: next(open_run), ConfigurationError)):
        try:
            use()
        except error as refused:
            assert "forked" in str(refused), refused
        else:
            raise AssertionError(error)
    sys.exit()
print(os.waitpid(child, 0)[1], len(list(open_run)), mine.run_to_result_sync(**go("one")).status)
"""

BESIDE = """
import asyncio
async def main():
    mine = runner()
    print(mine.run_to_result_sync(**go("one")).status, flush=True)
    child = os.fork()
    if child == 0:
        os._exit(0)
    print(os.waitpid(child, 0)[1], mine.run_to_result_sync(**go("two")).status)
asyncio.run(main())
"""


def output_of(program: str, where: str) -> str:
    """What a program prints, errors and warnings included; it is over soon."""
    command = [sys.executable, "-W", "error", "-c", BEGINNING + program, where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "a.db") if request.param == "sqlite" else request.getfixturevalue("postgres_dsn")


def logs(where: str, *session_ids: str) -> list[list[Any]]:
    async def read() -> list[list[Any]]:
        async with (PostgresSessionService if "://" in where else SqliteSessionService)(where) as service:
            found = [await service.get_session(app_name="app", user_id="ann", session_id=each) for each in session_ids]
            return [[] if session is None else session.events for session in found]

    return asyncio.run(read())


def test_a_program_that_ends_with_runs_left_open_ends_quietly(where: str) -> None:
    """Each run is closed as if its consumer had left it, while the store still takes what it has to say."""
    assert output_of(LEFT_OPEN, where) == ""
    for events in logs(where, "run", "stream", "cycle"):
        assert len(events) >= 2
        legal(events)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_and_its_parent_do_not_get_in_each_others_way(where: str) -> None:
    """The child has a loop of its own, and is told that the parent's stores and runs are the parent's."""
    assert output_of(FORKED, where).split() == ["final", "final", "0", "2", "final"]
    for events in logs(where, "one", "two", "three"):
        legal(events)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_the_loop_of_another_thread_is_not_ended_by_a_forked_process(where: str) -> None:
    """A child has no other thread of its parent's: what ends with that thread leaves the loop that it shares alone."""
    assert output_of(BESIDE, where).split() == ["final", "0", "final"]

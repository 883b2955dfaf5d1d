"""The limits of code that runs on this machine: whatever it does, a run goes on, is told of them, and nothing stays."""

from __future__ import annotations

import asyncio
import glob
import os
import tempfile
import time
from pathlib import Path

import pytest
from processors.test_code_executors import _context

from flowloom import InputValidationError, LocalCodeExecutor
from flowloom.processors.code_executors import CodeExecutionInput, CodeExecutionResult, File
from flowloom.processors.code_process import MAX_FILES, CodePlace, Output


async def run(code: str, **settings: object) -> CodeExecutionResult:
    return await LocalCodeExecutor(**settings).execute_code(_context(), CodeExecutionInput(code))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the directories of code are made; a test ends with none of them left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def is_empty(directory: Path) -> bool:
    return not os.listdir(directory)


FIFOS = """
import os
for name in ("../stdout", "../stderr", "out.txt", "../code.py"):
    if os.path.exists(name): os.unlink(name)
    os.mkfifo(name)
print("done", flush=True)
"""


async def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(temporary: Path) -> None:
    """Neither what is printed nor the output files can be made to wait for a writer."""
    async with asyncio.timeout(10):
        result = await run(FIFOS)
    assert (result.stdout, result.output_files) == ("done\n", [])
    assert is_empty(temporary)


async def test_a_cancel_ends_code_that_waits_for_a_pipe(temporary: Path) -> None:
    """The process and its directory are gone when the cancelled run is."""
    running = asyncio.ensure_future(run(FIFOS + "open('out.txt').read()", timeout_seconds=None))
    while not glob.glob(f"{temporary}/*/work/out.txt"):  # noqa: ASYNC110 - it is another process that makes it
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert is_empty(temporary)


async def test_output_is_limited_while_it_comes(temporary: Path) -> None:
    """Of more than the limit, which is 1 MiB, the beginning and the end are kept, and none of it is on disk."""
    result = await run("print('a' * 3_000_000 + 'b' * 10)\nimport os; print(os.listdir('..'))")
    assert len(result.stdout) < (1 << 20) + 100
    assert result.stdout.startswith("aaa")
    assert "bytes left out]" in result.stdout
    assert "stdout" not in result.stdout.splitlines()[-1]
    output = Output(10)
    for _ in range(1000):
        output.data_received(b"x" * 65_536)
        assert len(output._head) + len(output._tail) < 3 * 65_536
    assert output.text == f"xxxxx\n[{65_536_000 - 10} bytes left out]\nxxxxx"


async def test_what_never_stops_printing_is_stopped_at_the_time_limit() -> None:
    """The event loop serves others meanwhile: no turn of it takes its thread long."""
    worst, ended = 0.0, asyncio.ensure_future(run("while True: print('x' * 1000)", timeout_seconds=0.5))
    while not ended.done():
        before = time.thread_time()
        await asyncio.sleep(0)
        worst = max(worst, time.thread_time() - before)
    assert ended.result().timed_out
    assert worst < 0.25


async def test_memory_is_limited() -> None:
    """Code that asks for more than its address space fails, and the model is told why; the limit can be set."""
    result = await run("x = bytearray(2 << 30)")
    assert result.failed
    assert "MemoryError" in result.stderr
    assert "The code may use 1024 MiB of memory." in result.stderr
    assert "256 MiB" in (await run("x = bytearray(300 << 20)", memory_limit=256 << 20)).stderr
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_AS)[0])"
    assert (await run(code)).stdout == f"{1 << 30}\n"
    assert (await run(code, memory_limit=None)).stdout != f"{1 << 30}\n"


async def test_no_more_than_a_thousand_files_are_looked_at(temporary: Path) -> None:
    """The model is told that there are others; to look at them and to clear them up does not stall the event loop."""
    code = f"for n in range({MAX_FILES + 1}): open(f'{{n:04}}', 'w').write('x')"
    worst, running = 0.0, asyncio.ensure_future(run(code))
    while not running.done():
        before = time.thread_time()
        await asyncio.sleep(0.001)
        worst = max(worst, time.thread_time() - before)
    result = running.result()
    assert len(result.output_files) == MAX_FILES
    assert "more than 1,000 files" in result.stderr
    assert not result.failed
    assert is_empty(temporary)
    assert worst < 0.25


DEEP = """
import os
for n in range(1100):
    os.mkdir("folder-with-a-long-name"); os.chdir("folder-with-a-long-name")
os.chmod(".", 0)
"""


async def test_deep_folders_are_removed(temporary: Path) -> None:
    """1,100 of them, one in the other, deeper than a path can be long; and what is in them cannot be read."""
    result = await run(DEEP)
    assert result.exit_code == 0
    assert is_empty(temporary)


def test_clearing_up_goes_on_where_something_cannot_be_removed(temporary: Path) -> None:
    """Links are removed and not followed; a place that is gone is no error."""
    outside = temporary / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    place = CodePlace(temporary / "place")
    place.root.mkdir()
    place.prepare("1", [])
    (place.work / "link").symlink_to(outside)
    (place.work / "flowloom-1").mkdir()
    (place.work / "flowloom-1" / "flowloom-1").mkdir()
    place.remove()
    place.remove()
    assert [each.name for each in temporary.iterdir()] == ["outside"]
    assert (outside / "kept").exists()


async def test_what_the_code_puts_in_the_place_of_its_folder_is_not_looked_into(temporary: Path) -> None:
    """A link where the working directory was leads nowhere: no file behind it is read."""
    (temporary / "other").mkdir()
    (temporary / "other" / "secret.txt").write_text("secret")
    result = await run(
        f"import os\nos.rename('../work', '../old')\nos.symlink({str(temporary / 'other')!r}, '../work')"
    )
    assert (result.exit_code, result.output_files) == (0, [])
    assert os.listdir(temporary) == ["other"]


def test_only_the_folder_of_the_code_is_emptied(tmp_path: Path) -> None:
    """If the code has put a link in its place, the link is removed, and what it leads to stays."""
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    (other / "kept.txt").write_text("kept")
    place = CodePlace(root)
    root.rmdir()
    root.symlink_to(other)
    place.remove()
    assert (os.listdir(tmp_path), os.listdir(other)) == (["other"], ["kept.txt"])


def test_files_that_are_too_large_are_not_read(tmp_path: Path) -> None:
    """A thousand of them take no longer than their names."""
    place = CodePlace(tmp_path)
    place.prepare("", [])
    for number in range(50):
        with open(place.work / f"{number}", "wb") as file:
            file.truncate(1 << 40)
    begun = time.thread_time()
    assert (place.output_files(50_000_000)[0], len(place.output_files(50_000_000)[1])) == ([], 50)
    assert time.thread_time() - begun < 0.5


@pytest.mark.parametrize("name", ["a" * 300, ".", "\udc80" * 300])
async def test_an_input_file_that_cannot_be_written_is_named(name: str) -> None:
    """The error tells of no folder of this machine."""
    with pytest.raises(InputValidationError, match="cannot be written") as caught:
        await LocalCodeExecutor().execute_code(_context(), CodeExecutionInput("", [File(name, b"x")]))
    assert "flowloom-code" not in str(caught.value)

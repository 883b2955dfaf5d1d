"""The directory in which code runs, what is kept of what it prints and writes, and what the model is told of limits."""

from __future__ import annotations

import ast
import asyncio
import os
import resource
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from processors.test_code_executors import _context, _run

from flowloom import InputValidationError, LocalCodeExecutor
from flowloom.processors import code_process, local_code_executor
from flowloom.processors.code_executors import CodeExecutionInput, CodeExecutionResult, File
from flowloom.processors.code_process import CodePlace, Ended, Output


@pytest.fixture
def place(tmp_path: Path) -> CodePlace:
    """Where code is to run, without any input file."""
    made = CodePlace(tmp_path / "place")
    made.root.mkdir()
    made.prepare("", [])
    return made


# -- what is printed ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 10, 11])
@pytest.mark.parametrize("piece", [1, 3, 65_536, 200_000])
def test_of_more_than_the_limit_the_two_ends_are_kept_in_whatever_pieces_it_comes(limit: int, piece: int) -> None:
    """Both together are as long as the limit; the note between them says how much is missing."""
    whole = b"".join(b"%03d" % (n % 1000) for n in range(100))
    if piece > 1000:
        whole *= 1000
    for size in (0, 1, limit // 2, limit, limit + 1, 2 * limit + 1, len(whole)):
        output = Output(limit)
        for at in range(0, size, piece):
            output.data_received(whole[at : min(at + piece, size)])
        head, tail = whole[: limit // 2].decode(), whole[size - (limit - limit // 2) : size].decode()
        cut = f"{head}\n[{size - limit} bytes left out]\n{tail}"
        assert output.text == (whole[:size].decode() if size <= limit else cut)


def test_what_is_no_text_is_kept_as_replacement_characters() -> None:
    """Where a character was cut in two as well."""
    output = Output(4)
    output.data_received("éé".encode())
    assert output.text == "éé"
    output.data_received(b"\xff")
    assert output.text == "é\n[1 bytes left out]\n\ufffd\ufffd"


# -- what is put into the directory ------------------------------------------------------------------------------------


def test_a_place_has_the_code_a_home_and_the_input_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in folders of their own; of this process's variables the code sees those that programs need to start."""
    monkeypatch.setattr(os, "environ", {"PATH": "/bin", "TZ": "UTC", "API_KEY": "k", "HOME": "/home/me", "TMP": "/x"})
    place = CodePlace(tmp_path)
    place.prepare("print('\ud800é')", [("a.txt", b"1"), ("d/e/b.txt", b"2"), ("d/e/c.txt", b"3")])
    files = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert files.pop("code.py") == "print('\ud800é')".encode(errors="surrogatepass")
    assert files == {"work/a.txt": b"1", "work/d/e/b.txt": b"2", "work/d/e/c.txt": b"3"}
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"work", "home", "tmp"}
    temporary = str(tmp_path / "tmp")
    own = {"HOME": str(tmp_path / "home"), "TMPDIR": temporary, "TEMP": temporary, "TMP": temporary}
    assert place.environment() == {"PATH": "/bin", "TZ": "UTC", **own}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a" * 300, "cannot be written: File name too long"),
        ("\udc80\ud800", "cannot be written: it is no text that a file can be named by"),
        (".", "cannot be written: Is a directory"),
        ("given/below", "cannot be written: (File exists|Not a directory)"),
        ("", "does not lie in the working directory"),
        ("a\0b", "does not lie in the working directory"),
        ("/a", "does not lie in the working directory"),
        ("a/..", "does not lie in the working directory"),
    ],
)
def test_an_input_file_that_cannot_be_is_named_with_the_reason(tmp_path: Path, name: str, why: str) -> None:
    place = CodePlace(tmp_path)
    with pytest.raises(InputValidationError, match=why) as caught:
        place.prepare("", [("given", b""), (name, b"")])
    assert repr(name[:100]) in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


# -- what is taken out of it -------------------------------------------------------------------------------------------


def write(place: CodePlace, **files: bytes) -> None:
    for name, content in files.items():
        path = place.work / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_files_are_kept_in_the_order_of_their_names_folder_by_folder(place: CodePlace) -> None:
    """With the type that their names tell."""
    write(place, b=b"1", d__z=b"2", **{"a.csv": b"3", "d__a.png": b"4", "c__d__e.txt": b"5", "z.unknown": b"6"})
    assert place.output_files(100) == (
        [
            ("a.csv", b"3", "text/csv"),
            ("b", b"1", "application/octet-stream"),
            ("z.unknown", b"6", "application/octet-stream"),
            ("c/d/e.txt", b"5", "text/plain"),
            ("d/a.png", b"4", "image/png"),
            ("d/z", b"2", "application/octet-stream"),
        ],
        [],
        False,
    )


@pytest.mark.parametrize(
    ("limit", "kept", "too_large"),
    [(0, [], ["a", "b", "c"]), (3, ["a"], ["b", "c"]), (6, ["a", "c"], ["b"]), (7, ["a", "b"], ["c"]), (10, "abc", [])],
)
def test_files_are_kept_as_long_as_all_of_them_stay_within_the_limit(
    place: CodePlace, limit: int, kept: list[str], too_large: list[str]
) -> None:
    """Each whole, or not at all."""
    contents = {"a": b"123", "b": b"1234", "c": b"123"}
    write(place, **contents)
    files, left_out, _ = place.output_files(limit)
    assert [(name, content) for name, content, _ in files] == [(name, contents[name]) for name in kept]
    assert left_out == too_large


@pytest.mark.parametrize("size", [0, 1, 4, 5, 1 << 40])
def test_a_file_that_grows_while_it_is_read_is_kept_within_the_limit(
    place: CodePlace, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(os, "fstat", lambda _: SimpleNamespace(st_mode=stat.S_IFREG, st_size=0))
    write(place, a=b"x" * min(size, 5))
    os.truncate(place.work / "a", size)
    files, left_out, _ = place.output_files(4)
    assert ([content for _, content, _ in files], left_out) == (([b"x" * size], []) if size <= 4 else ([], ["a"]))


def test_an_input_file_that_the_code_left_alone_is_no_output_however_large_it_is(tmp_path: Path) -> None:
    """One that it has changed is, within the limit."""
    place = CodePlace(tmp_path)
    place.prepare("", [("a", b"x" * 10), ("b", b"x" * 10), ("c", b"x" * 10), ("d", b"12")])
    write(place, b=b"y" * 10, c=b"x" * 11, d=b"1")
    assert place.output_files(4) == ([("d", b"1", "application/octet-stream")], ["b", "c"], False)


@pytest.mark.parametrize(
    "entries", ["a", "abc", "abcd", ["a", "d__x"], ["a", "b", "d__x"], ["a", "d__x", "d__y", "d__z"]]
)
def test_no_more_entries_are_looked_at_than_allowed(
    place: CodePlace, monkeypatch: pytest.MonkeyPatch, entries: Sequence[str]
) -> None:
    """Folders count; one more is looked for, to tell that there are others."""
    monkeypatch.setattr(code_process, "MAX_FILES", 3)
    write(place, **dict.fromkeys(entries, b"x"))
    files, left_out, more = place.output_files(100)
    folders = any("__" in name for name in entries)
    assert (len(files), left_out, files[0][0]) == (min(len(entries), 3 - folders), [], "a")
    assert more is (len(entries) + folders > 3)
    assert len(list(place._entries())) == min(len(entries) + folders, 4)


def test_folders_that_cannot_be_read_are_passed_over(place: CodePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    scan: Callable[[Any], Any] = os.scandir

    def scandir(path: Any) -> Iterator[Any]:
        if str(path).endswith("/b"):
            raise PermissionError
        return scan(path)

    write(place, a__x=b"1", b__x=b"2", c__x=b"3")
    monkeypatch.setattr(os, "scandir", scandir)
    assert [name for name, _, _ in place.output_files(100)[0]] == ["a/x", "c/x"]


def test_nothing_is_taken_from_where_a_link_leads_that_is_in_the_place_of_the_folder(
    place: CodePlace, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a").write_text("secret")
    place.work.rmdir()
    place.work.symlink_to(tmp_path / "other")
    assert place.output_files(100) == ([], [], False)


def test_folders_are_moved_nowhere_but_within_the_place(
    place: CodePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that lies in another is not left where this process works."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    write(place, a__b__c__d=b"1", a__e__f=b"2")
    place.remove()
    assert (os.listdir(tmp_path), os.listdir(elsewhere)) == (["elsewhere"], [])


@pytest.mark.parametrize("refused", ["rename", "rmdir", "unlink", "chmod"])
def test_what_cannot_be_removed_is_left_without_an_error(
    place: CodePlace, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """Something may go on writing there that has left the process group."""

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError

    write(place, a__b__c=b"1", d=b"2")
    with monkeypatch.context() as patch:
        patch.setattr(os, refused, refuse)
        place.remove()
    place.remove()
    assert not place.root.exists()


def test_a_file_in_the_place_of_the_folder_is_no_error(tmp_path: Path) -> None:
    place = CodePlace(tmp_path / "place")
    place.root.write_text("x")
    place.remove()


# -- what is told ------------------------------------------------------------------------------------------------------

SCRIPT = "Traceback: {place}/code.py"
MEMORY = "The code may use 1 MiB of memory.\n"
MANY = "There are more than 1,000 files and folders. The others were not looked at, nor kept.\n"


@pytest.mark.parametrize(
    ("ended", "files", "limit", "told"),
    [
        ((0, "out", "", False), [], 1 << 20, ""),
        ((1, "", SCRIPT, False), [], 1 << 20, "Traceback: code.py"),
        ((1, "", "MemoryError", False), [], 1 << 20, "MemoryError\n" + MEMORY),
        ((0, "", "MemoryError", False), [], 1 << 20, "MemoryError"),
        ((1, "", "KeyError", False), [], 1 << 20, "KeyError"),
        ((0, "", "X", False), [], 1 << 20, "X"),
        ((0, "", "\n  X", False), [], 1 << 20, "  X"),
        ((1, "", "MemoryError", False), [], None, "MemoryError"),
        ((0, "", "", False), ["f0"], 1 << 20, "Output files that were not kept, because they are too large: `f0`\n"),
        (
            (None, "", "w", True),
            [f"f{n}" for n in range(10, 31)],
            None,
            "w\nOutput files that were not kept, because they are too large: "
            + ", ".join(f"`f{n}`" for n in range(10, 30))
            + " and 1 more\n",
        ),
        (
            (0, "", "", False),
            [f"f{n}" for n in range(10, 30)],
            None,
            "Output files that were not kept, because they are too large: "
            + ", ".join(f"`f{n}`" for n in range(10, 30))
            + "\n",
        ),
    ],
)
async def test_the_limits_that_the_code_has_met_are_told_behind_its_own_errors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ended: Any, files: list[str], limit: int | None, told: str
) -> None:
    async def run(place: CodePlace, **options: Any) -> Ended:
        assert options == {"seconds": 3.0, "memory": limit, "output_limit": 5}
        write(place, **dict.fromkeys(files, b"12345"))
        exit_code, stdout, stderr, timed_out = ended
        return Ended(exit_code, stdout, stderr.replace("{place}", str(place.root)), timed_out)

    monkeypatch.setattr(local_code_executor, "run_python", run)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    executor = LocalCodeExecutor(timeout_seconds=3, memory_limit=limit, output_limit=5, file_limit=4)
    result = await executor.execute_code(_context(), CodeExecutionInput(""))
    exit_code, stdout, _, timed_out = ended
    assert result == CodeExecutionResult(stdout, told, [], exit_code, timed_out)
    assert os.listdir(tmp_path) == []


async def test_that_there_were_too_many_files_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(place: CodePlace, **options: Any) -> Ended:
        write(place, a=b"1", b=b"2")
        return Ended(0, "", "", False)

    monkeypatch.setattr(local_code_executor, "run_python", run)
    monkeypatch.setattr(code_process, "MAX_FILES", 1)
    result = await LocalCodeExecutor().execute_code(_context(), CodeExecutionInput(""))
    assert (result.stderr, result.output_files) == (MANY, [File("a", b"1", "application/octet-stream")])


# -- the process -------------------------------------------------------------------------------------------------------


PROBE = """
import os, resource, sys
flags = sys.flags.isolated, sys.flags.utf8_mode, sys.flags.interactive, sys.stdout.write_through
core, memory = (resource.getrlimit(each)[0] for each in (resource.RLIMIT_CORE, resource.RLIMIT_AS))
leads = os.getsid(0) == os.getpid()
where = [os.path.relpath(each, os.getcwd()) for each in (*sys.argv, os.environ["TMP"])]
print((flags, core, memory, leads, where, sys.executable))
print("w", file=sys.stderr)
"""


@pytest.mark.parametrize("memory", [None, (1 << 30) + 1023])
async def test_code_runs_by_the_same_interpreter_alone_within_its_limits(memory: int | None) -> None:
    """In a session of its own; without a limit of memory those of this process hold."""
    result = await _run(PROBE, LocalCodeExecutor(memory_limit=memory))
    flags, core, limit, leads, where, executable = ast.literal_eval(result.stdout)
    assert (flags, leads, where, executable) == ((1, 1, 0, True), True, ["../code.py", "../tmp"], sys.executable)
    own = resource.getrlimit(resource.RLIMIT_CORE)[0], resource.getrlimit(resource.RLIMIT_AS)[0]
    assert (core, limit) == (own if memory is None else (0, 1 << 30))
    assert (result.stderr, result.exit_code, result.timed_out) == ("w\n", 0, False)


async def test_code_does_not_read_what_is_typed_to_this_process() -> None:
    """Its input is at its end, whatever this process has there."""
    ours, its = os.pipe()
    kept = os.dup(0)
    try:
        os.write(its, b"typed\n")
        os.dup2(ours, 0)
        assert "EOFError" in (await _run("print(input())")).stderr
    finally:
        os.dup2(kept, 0)
        for each in (ours, its, kept):
            os.close(each)


@pytest.mark.parametrize("pipes", [0, 1])
async def test_without_pipes_or_a_process_the_error_is_told_and_nothing_stays_open(
    place: CodePlace, monkeypatch: pytest.MonkeyPatch, pipes: int
) -> None:
    """The system's own error; the pipes that were made are closed again."""
    left, pipe = [pipes], os.pipe

    def made() -> tuple[int, int]:
        if not left[0]:
            raise OSError(24, "Too many open files")
        left[0] -= 1
        return pipe()

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(os, "pipe", made)
    with pytest.raises(OSError, match="Too many open files"):
        await code_process.run_python(place, seconds=1, memory=None, output_limit=10)
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", "/nowhere")
    with pytest.raises(OSError, match="nowhere"):
        await code_process.run_python(place, seconds=1, memory=None, output_limit=10)
    await asyncio.sleep(0)
    assert os.listdir("/proc/self/fd") == before


async def test_a_program_that_leaves_the_group_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although it holds what the code prints to: what was printed until then is kept."""
    monkeypatch.setattr(code_process, "_END_SECONDS", 0.05)
    leaves = "import subprocess\nprint(subprocess.Popen(['/bin/sleep', '60'], start_new_session=True).pid)"
    async with asyncio.timeout(30):
        result = await _run(leaves, LocalCodeExecutor(timeout_seconds=20))
    os.kill(int(result.stdout), 9)
    assert (result.exit_code, result.timed_out) == (0, False)

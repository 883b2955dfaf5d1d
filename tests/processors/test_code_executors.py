"""The code executors that come with the engine."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowloom.context import InvocationContext
from flowloom.errors import ConfigurationError, InputValidationError, NotSupportedError
from flowloom.models.request import LlmRequest
from flowloom.processors.code_executors import (
    BuiltInCodeExecutor,
    CodeExecutionInput,
    CodeExecutionResult,
    File,
)
from flowloom.processors.local_code_executor import LocalCodeExecutor


class _Agent:
    """An agent that is only there to be named."""

    name = "coder"
    description = ""
    sub_agents = ()
    is_llm_agent = False


def _context() -> InvocationContext:
    return InvocationContext(agent=_Agent())  # type: ignore[arg-type]


async def _run(code: str, executor: LocalCodeExecutor | None = None, *files: File) -> CodeExecutionResult:
    ctx = _context()
    return await (executor or LocalCodeExecutor()).execute_code(ctx, CodeExecutionInput(code, list(files)))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory where nothing may be left behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _is_empty(directory: Path) -> bool:
    return not list(directory.iterdir())


@contextmanager
def _line_from_code() -> Iterator[tuple[str, socket.socket]]:
    """Code that starts a process, waits until it is connected to this test, and leaves it sleeping."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        child = (
            f"import socket, time; s = socket.create_connection(('127.0.0.1', {server.getsockname()[1]})); "
            f"print(flush=True); time.sleep(60)"
        )
        code = (
            f"from subprocess import PIPE, Popen; import sys\n"
            f"p = Popen([sys.executable, '-c', {child!r}], stdout=PIPE)\n"
            f"p.stdout.readline()\n"
        )
        yield code, server


async def _is_cut(connection: socket.socket) -> bool:
    """Whether the other end of a connection, which never says anything, goes away."""
    connection.settimeout(10)
    with connection:
        try:
            return await asyncio.to_thread(connection.recv, 1) == b""
        except ConnectionResetError:
            return True


class TestLocalExecutor:
    async def test_what_the_code_prints_is_captured(self, temporary: Path) -> None:
        result = await _run("import sys\nprint('é')\nprint('w', file=sys.stderr)")
        assert result == CodeExecutionResult(stdout="é\n", stderr="w\n", exit_code=0)

    async def test_an_error_is_told_with_its_line_and_without_the_place_it_ran_in(self, temporary: Path) -> None:
        result = await _run("x = 1\nprint(y)")
        assert result.failed
        assert result.exit_code == 1
        assert 'File "code.py", line 2' in result.stderr
        assert "NameError: name 'y' is not defined" in result.stderr
        assert str(temporary) not in result.stderr

    async def test_the_exit_status_is_the_codes_own(self) -> None:
        result = await _run("raise SystemExit(3)")
        assert (result.exit_code, result.failed) == (3, True)

    async def test_input_is_at_its_end(self) -> None:
        assert "EOFError" in (await _run("input()")).stderr

    async def test_input_files_are_in_the_working_directory(self) -> None:
        result = await _run("print(open('in/a.txt').read())", None, File("in/a.txt", b"hello"))
        assert result.stdout == "hello\n"

    async def test_new_and_changed_files_are_output(self) -> None:
        code = "import os; os.mkdir('d'); open('d/b.csv', 'w').write('b'); open('a.txt', 'a').write('!')"
        result = await _run(code, None, File("a.txt", b"a"), File("same.txt", b"s"))
        assert result.output_files == [File("a.txt", b"a!", "text/plain"), File("d/b.csv", b"b", "text/csv")]

    @pytest.mark.skipif(os.name == "nt", reason="links need privileges")
    async def test_links_are_not_output(self) -> None:
        result = await _run("import os; os.symlink('/etc/hostname', 'x'); os.symlink('/etc', 'd')")
        assert result.output_files == []

    async def test_output_files_that_are_too_large_are_named_and_left_out(self) -> None:
        code = "open('a', 'w').write('12345'); open('b', 'w').write('123456'); open('c', 'w').write('123456')"
        result = await _run(code, LocalCodeExecutor(file_limit=11))
        assert [file.name for file in result.output_files] == ["a", "b"]
        assert "`c`" in result.stderr
        assert not result.failed

    async def test_the_middle_of_long_output_is_left_out(self) -> None:
        result = await _run("print('a' * 50 + 'b' * 50, end='')", LocalCodeExecutor(output_limit=10))
        assert result.stdout == "aaaaa\n[90 bytes left out]\nbbbbb"

    @pytest.mark.parametrize("name", ["", "/etc/x", "../x", "a/../../x"])
    async def test_an_input_file_outside_the_working_directory_is_refused(self, name: str, temporary: Path) -> None:
        with pytest.raises(InputValidationError, match="working directory"):
            await _run("1", None, File(name, b""))
        assert _is_empty(temporary)

    async def test_environment_variables_are_not_passed_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SECRET_KEY", "s3cret")
        assert (await _run("import os; print(os.environ.get('SECRET_KEY'))")).stdout == "None\n"

    async def test_nothing_is_left_behind(self, temporary: Path) -> None:
        code = (
            "import os, tempfile; open('a', 'w').write('x'); tempfile.mkstemp(); "
            "open(os.path.expanduser('~/.rc'), 'w').write('x'); os.mkdir('d'); open('d/f', 'w'); os.chmod('d', 0)"
        )
        assert (await _run(code)).exit_code == 0
        assert _is_empty(temporary)

    async def test_code_is_stopped_at_the_time_limit_and_what_it_printed_is_kept(self, temporary: Path) -> None:
        result = await _run("import time\nprint('before')\ntime.sleep(60)", LocalCodeExecutor(timeout_seconds=0.3))
        assert (result.timed_out, result.failed) == (True, True)
        assert result.stdout in ("before\n", "")  # a slow machine may not have come to it
        assert _is_empty(temporary)

    async def test_what_the_code_started_ends_with_it(self) -> None:
        with _line_from_code() as (code, server):
            result = await _run(code)
            connection, _ = server.accept()
            assert result.exit_code == 0
            assert await _is_cut(connection)

    async def test_cancellation_kills_the_code_and_what_it_started(self, temporary: Path) -> None:
        with _line_from_code() as (code, server):
            running = asyncio.ensure_future(_run(code + "p.wait()"))
            connection, _ = await asyncio.to_thread(server.accept)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert await _is_cut(connection)
        assert _is_empty(temporary)

    def test_it_cannot_be_stateful(self) -> None:
        with pytest.raises(ValueError, match="cannot be stateful"):
            LocalCodeExecutor(stateful=True)

    def test_an_unknown_setting_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="time_limit"):
            LocalCodeExecutor(time_limit=3)  # type: ignore[call-arg]


class TestBuiltInExecutor:
    def test_it_runs_no_code_itself(self) -> None:
        with pytest.raises(NotSupportedError):
            BuiltInCodeExecutor().execute_code(_context(), CodeExecutionInput("1"))

    @pytest.mark.parametrize("model", ["gemini-1.5-pro", "gemini-pro", "models/gemini-pro-vision@001"])
    def test_gemini_before_version_2_is_an_error_that_names_it(self, model: str) -> None:
        with pytest.raises(ConfigurationError, match=f"`{model}` cannot run code"):
            BuiltInCodeExecutor().process_llm_request(LlmRequest(model=model))


class TestInstruction:
    def test_the_model_is_told_of_every_form_that_is_run(self) -> None:
        text = LocalCodeExecutor().code_instruction() or ""
        assert "```tool_code\nprint(6 * 7)\n```" in text
        assert "`" + "```python`" in text

    def test_without_delimiters_there_is_nothing_to_tell(self) -> None:
        assert LocalCodeExecutor(code_block_delimiters=[]).code_instruction() is None


class TestFile:
    def test_a_files_str_content_is_base64(self) -> None:
        assert File("a", base64.b64encode(b"x").decode()).data == b"x"

    def test_a_files_str_content_that_is_not_base64_is_an_error_that_names_the_file(self) -> None:
        with pytest.raises(InputValidationError, match=r"`a\.csv`"):
            _ = File("a.csv", "x,y").data

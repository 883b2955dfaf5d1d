"""Code executors: they run the code that a model writes (spec §11c)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
import os
import re
import shutil
import signal
import sys
import tempfile
from abc import abstractmethod
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from google.genai import types
from pydantic import BaseModel, ConfigDict, Field, field_validator

from flowloom.context import InvocationContext
from flowloom.errors import ConfigurationError, InputValidationError, NotSupportedError
from flowloom.models.request import LlmRequest


@dataclass(frozen=True)
class File:
    """A file that code reads or writes. `content` is its bytes, or, if it is a str, their base64 form."""

    name: str
    content: str | bytes
    mime_type: str = "text/plain"

    @property
    def data(self) -> bytes:
        """The bytes. Raises `InputValidationError` for a str that is not base64."""
        if isinstance(self.content, bytes):
            return self.content
        try:
            return base64.b64decode(self.content, validate=True)
        except binascii.Error as error:
            raise InputValidationError(
                f"The content of file `{self.name}` is a str that is not base64. Give plain content as bytes."
            ) from error


@dataclass
class CodeExecutionInput:
    """What is to be run: the code, the files in its working directory, and for a stateful executor whose state."""

    code: str
    input_files: list[File] = field(default_factory=list[File])
    execution_id: str | None = None


@dataclass
class CodeExecutionResult:
    """What came of it.

    `exit_code` is the status of the process, or None where there is none to tell; without one, any text in
    `stderr` counts as a failure. `timed_out` says that the code was stopped at its time limit.
    """

    stdout: str = ""
    stderr: str = ""
    output_files: list[File] = field(default_factory=list[File])
    exit_code: int | None = None
    timed_out: bool = False

    @property
    def failed(self) -> bool:
        """Whether the code did not run to a good end."""
        if self.timed_out:
            return True
        return bool(self.stderr) if self.exit_code is None else self.exit_code != 0


class BaseCodeExecutor(BaseModel):
    """Runs code that a model writes into its answers. Set one as an agent's `code_executor`.

    Subclasses implement `execute_code`, sync (it is then run in a thread) or async.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", defer_build=True)

    optimize_data_file: bool = False
    """Whether CSV and TSV files in the user's messages are given to the code, and in the request only named."""
    stateful: bool = False
    """Whether blocks of one session see each other's variables; they then have the same `execution_id`."""
    error_retry_attempts: int = Field(default=2, ge=0)
    """After so many failures in a row (at least one), code is left unrun until the next invocation."""
    code_block_delimiters: list[tuple[str, str]] = [("```tool_code\n", "\n```"), ("```python\n", "\n```")]
    """What stands before and after code in a model's text. The model is shown the first pair."""
    execution_result_delimiters: tuple[str, str] = ("```tool_output\n", "\n```")
    """What stands before and after a result when the model is shown it."""
    timeout_seconds: float | None = Field(default=None, gt=0)
    """How long one block may run, None without limit. Keeping it is up to the executor."""

    @abstractmethod
    def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult | Awaitable[CodeExecutionResult]:
        """Run code. What it raises is told to the model as a failure, a `TimeoutError` as a time limit reached."""
        raise NotImplementedError

    def code_instruction(self) -> str | None:
        """What the model is told about running code; None for nothing, if the agent's instruction does that."""
        if not self.code_block_delimiters:
            return None
        (before, after), *others = self.code_block_delimiters
        also = ", ".join(f"`{other.strip()}`" for other, _ in others)
        memory = (
            "Variables and imports of earlier blocks are still there."
            if self.stateful
            else "Each block starts from nothing: repeat the imports and values that it needs."
        )
        return (
            f"You can have Python code run. Write it into your answer in exactly this form:\n"
            f"{before}print(6 * 7){after}\n"
            f"Stop after the block. It is run, and you are told what it printed, so print all that you need to see. "
            f"{memory} Do not call a tool to run code, and do not make up a result. "
            + (f"Code that begins with {also} is run as well. " if also else "")
            + "Write code that is only to be shown to the user in another form."
        )


class BuiltInCodeExecutor(BaseCodeExecutor):
    """Lets the model run code on its own side; for Gemini models from version 2 on."""

    def process_llm_request(self, llm_request: LlmRequest) -> None:
        """Put the code-execution tool into a request. Raises `ConfigurationError` for a model that has none."""
        if not _runs_code(llm_request.model or ""):
            raise ConfigurationError(
                f"Model `{llm_request.model}` cannot run code by itself; Gemini models from version 2 on can. Use one "
                f"of those, or another code executor than {type(self).__name__}."
            )
        tools: list[Any] = list(llm_request.config.tools or ())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        if not any(isinstance(tool, types.Tool) and tool.code_execution is not None for tool in tools):
            tools.append(types.Tool(code_execution=types.ToolCodeExecution()))
        llm_request.config.tools = tools

    def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """Not possible: the model runs the code. Raises `NotSupportedError`."""
        raise NotSupportedError("BuiltInCodeExecutor runs no code here: the model does, on its own side.")

    def code_instruction(self) -> str | None:
        """Nothing: the model knows its own tool."""
        return None


def _runs_code(model: str) -> bool:
    """Whether a model, by any form of its name (`models/...`, `projects/.../models/...`), is Gemini 2 or later."""
    name = model.rsplit("/", 1)[-1]
    version = re.match(r"gemini-(\d+)", name)
    if version is not None:
        return int(version[1]) >= 2
    # names without a version are aliases of the latest model, save for two that mean version 1
    return name.startswith("gemini-") and not re.match(r"gemini-(pro|pro-vision)(@.*)?$", name)


class LocalCodeExecutor(BaseCodeExecutor):
    """Runs code in a Python process on this machine. THIS IS NO SANDBOX.

    The code can do whatever the user of this process can: read files, use the network, start programs. Use it where
    you trust the model and everything that it reads, or inside a container of your own.

    What it does for tidiness, not for safety: a fresh process (`python -I`) and working directory for every block; no
    environment variables but those that programs need to start; at the time limit, on cancellation, and when the code
    ends, the whole process group is killed and the directory removed. A program that leaves its process group lives on.
    """

    timeout_seconds: float | None = Field(default=10.0, gt=0)
    output_limit: int = Field(default=100_000, ge=0)
    """Bytes kept of standard output and of standard error each; the middle of longer ones is left out."""
    file_limit: int = Field(default=50_000_000, ge=0)
    """Bytes kept of all output files together."""

    @field_validator("stateful")
    @classmethod
    def _has_no_state(cls, stateful: bool) -> bool:
        if stateful:
            raise ConfigurationError("LocalCodeExecutor cannot be stateful: it runs every block in a new process.")
        return stateful

    async def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """Run code in a process of its own. Raises `InputValidationError` for an unusable input file."""
        place = _Place(Path(tempfile.mkdtemp(prefix="flowloom-code-")))
        try:
            place.prepare(code_execution_input)
            exit_code, timed_out = await self._run(place)
            # reading may take a while; if it is given up, it fails on files that are gone, and nobody hears of it
            result = await invocation_context.run.threads.call("code_execution", self._collect, place)
            result.exit_code, result.timed_out = exit_code, timed_out
            return result
        finally:
            place.remove()

    async def _run(self, place: _Place) -> tuple[int | None, bool]:
        """The exit status, and whether the time ran out."""
        # Output goes to files: a pipe would stay open, and be waited for, as long as any descendant holds it.
        with place.outputs() as outputs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-u",  # what was printed before a time limit is not lost in a buffer
                "-X",
                "utf8",
                str(place.script),
                cwd=place.work,
                env=place.environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=outputs.stdout,
                stderr=outputs.stderr,
                start_new_session=True,
            )
        timed_out = False
        try:
            async with asyncio.timeout(self.timeout_seconds):
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            _kill_group(process)
            await process.wait()
        return process.returncode, timed_out

    def _collect(self, place: _Place) -> CodeExecutionResult:
        stdout = _text_of(place.stdout, self.output_limit)
        # a random directory name would make equal runs differ
        stderr = _text_of(place.stderr, self.output_limit).replace(str(place.script), place.script.name)
        files, too_large = place.output_files(self.file_limit)
        if too_large:
            names = ", ".join(f"`{name}`" for name in too_large)
            stderr = f"{stderr}\nOutput files that were not kept, because they are too many or too large: {names}\n"
        return CodeExecutionResult(stdout=stdout, stderr=stderr.lstrip("\n"), output_files=files)


_MAX_FILES = 100
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")


@dataclass
class _Outputs:
    """Open files for what a process prints."""

    stdout: int
    stderr: int

    def __enter__(self) -> _Outputs:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.stdout)
        os.close(self.stderr)


class _Place:
    """The temporary directory of one execution. Blocking; all of it is short."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()  # as tracebacks show it
        self.script = self.root / "code.py"
        self.work = self.root / "work"
        self.stdout = self.root / "stdout"
        self.stderr = self.root / "stderr"
        self._given: dict[str, bytes] = {}

    def prepare(self, given: CodeExecutionInput) -> None:
        """Write the code and its input files."""
        for directory in (self.work, self.root / "home", self.root / "tmp"):
            directory.mkdir()
        self.script.write_text(given.code, encoding="utf-8", errors="surrogatepass")
        for file in given.input_files:
            path = PurePosixPath(file.name)
            if not file.name or path.is_absolute() or ".." in path.parts or "\0" in file.name:
                raise InputValidationError(f"The input file name {file.name!r} does not lie in the working directory.")
            self._given[str(path)] = file.data
            target = self.work / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.data)

    def environment(self) -> dict[str, str]:
        """The variables that the code sees: keys and tokens of this process are none of its business."""
        variables = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        temporary = str(self.root / "tmp")
        return variables | {
            "HOME": str(self.root / "home"),
            "TMPDIR": temporary,
            "TEMP": temporary,
            "TMP": temporary,
        }

    def outputs(self) -> _Outputs:
        """Open the files for standard output and error."""
        flags = os.O_WRONLY | os.O_CREAT
        return _Outputs(os.open(self.stdout, flags, 0o600), os.open(self.stderr, flags, 0o600))

    def output_files(self, limit: int) -> tuple[list[File], list[str]]:
        """The files that the code made or changed, and the names of those that were too large or too many."""
        files: list[File] = []
        left_out: list[str] = []
        for path in self._files():
            name = path.relative_to(self.work).as_posix()
            try:
                size = path.stat().st_size
                if size > limit or len(files) == _MAX_FILES:
                    left_out.append(name)
                    continue
                content = path.read_bytes()
            except OSError:
                continue  # the code made it unreadable, or the run is being cancelled
            if self._given.get(name) == content:
                continue
            limit -= len(content)
            files.append(File(name, content, mimetypes.guess_type(name)[0] or "application/octet-stream"))
        return files, left_out[:_MAX_FILES]

    def _files(self) -> Iterator[Path]:
        for directory, below, names in os.walk(self.work):
            below.sort()
            for name in sorted(names):
                path = Path(directory, name)
                if path.is_file() and not path.is_symlink():  # a link may lead to any file of the machine
                    yield path

    def remove(self) -> None:
        """Remove all of it, even what the code made unremovable."""
        shutil.rmtree(self.root, ignore_errors=True)
        if not self.root.exists():
            return
        self.root.chmod(0o700)
        for directory, below, _ in os.walk(self.root):
            for name in below:
                path = Path(directory, name)
                if not path.is_symlink():
                    path.chmod(0o700)
        shutil.rmtree(self.root, ignore_errors=True)


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill a process and what it started, also when the process itself has ended."""
    try:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in the group


def _text_of(path: Path, limit: int) -> str:
    """What was printed; of more than `limit` bytes the beginning and the end, where errors are."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size <= limit:
            return file.read().decode("utf-8", "replace")
        head = file.read(limit // 2)
        file.seek(size - (limit - len(head)))
        tail = file.read(limit - len(head))
    note = f"\n[{size - limit} bytes left out]\n"
    return head.decode("utf-8", "replace") + note + tail.decode("utf-8", "replace")

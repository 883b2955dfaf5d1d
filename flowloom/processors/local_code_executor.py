"""`LocalCodeExecutor`: code runs in a process on this machine (spec §11c)."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field, field_validator

from flowloom.context import InvocationContext
from flowloom.context.ending import all_ended
from flowloom.errors import ConfigurationError, NotSupportedError
from flowloom.processors.code_executors import BaseCodeExecutor, CodeExecutionInput, CodeExecutionResult, File
from flowloom.processors.code_process import MAX_FILES, CodePlace, Ended, run_python

_NAMES = 20
"""How many of the files that were not kept are named."""


class LocalCodeExecutor(BaseCodeExecutor):
    """Runs code in a Python process on this machine. THIS IS NO SANDBOX.

    The code can do whatever the user of this process can: read files, use the network, start programs. Use it where
    you trust the model and everything that it reads, or inside a container of your own.

    What it does for tidiness, not for safety: a fresh process (`python -I`) and working directory for every block; no
    environment variables but those that programs need to start; limits of time, memory, output and files; at the time
    limit, on cancellation, and when the code ends, the whole process group is killed and the directory removed. A
    program that leaves its process group lives on. It needs a POSIX system.
    """

    timeout_seconds: float | None = Field(default=10.0, gt=0)
    output_limit: int = Field(default=1 << 20, ge=0)
    """Bytes kept of standard output and of standard error each; the middle of longer ones is left out as it comes."""
    file_limit: int = Field(default=50_000_000, ge=0)
    """Bytes kept of all output files together. No more than 1,000 files and folders are looked at."""
    memory_limit: int | None = Field(default=1 << 30, gt=0)
    """Bytes of address space that each process of the code may have; None for no limit."""

    @field_validator("stateful")
    @classmethod
    def _has_no_state(cls, stateful: bool) -> bool:
        if stateful:
            raise ConfigurationError("LocalCodeExecutor cannot be stateful: it runs every block in a new process.")
        return stateful

    async def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """Run code in a process of its own. Raises `InputValidationError` for an unusable input file,
        `NotSupportedError` where there are no POSIX processes."""
        if os.name != "posix":
            raise NotSupportedError("LocalCodeExecutor needs a POSIX system: it limits and ends groups of processes.")
        place = CodePlace(Path(tempfile.mkdtemp(prefix="flowloom-code-")))
        call = invocation_context.run.threads.call
        try:
            files = [(file.name, file.data) for file in code_execution_input.input_files]
            preparing = asyncio.ensure_future(call("code_execution", place.prepare, code_execution_input.code, files))
            await all_ended((preparing,))  # what is written is not removed meanwhile
            preparing.result()
            ended = await run_python(
                place, seconds=self.timeout_seconds, memory=self.memory_limit, output_limit=self.output_limit
            )
            # reading may take a while; if it is given up, it fails on files that are gone, and the error goes nowhere
            made, too_large, too_many = await call("code_execution", place.output_files, self.file_limit)
        finally:
            await all_ended((asyncio.ensure_future(call("code_execution", place.remove)),))
        notes = self._notes(ended, too_large, too_many)
        # a random directory name would make equal runs differ
        told = "\n".join([ended.stderr.replace(str(place.script), place.script.name), *notes]).lstrip("\n")
        output = [File(name, content, kind) for name, content, kind in made]
        return CodeExecutionResult(ended.stdout, told, output, ended.exit_code, ended.timed_out)

    def _notes(self, ended: Ended, too_large: list[str], too_many: bool) -> Iterator[str]:
        """Which limits the code has met."""
        if ended.exit_code and self.memory_limit is not None and "MemoryError" in ended.stderr:
            yield f"The code may use {self.memory_limit >> 20} MiB of memory.\n"
        if too_large:
            names = ", ".join(f"`{name}`" for name in too_large[:_NAMES])
            more = f" and {len(too_large) - _NAMES} more" if len(too_large) > _NAMES else ""
            yield f"Output files that were not kept, because they are too large: {names}{more}\n"
        if too_many:
            yield f"There are more than {MAX_FILES:,} files and folders. The others were not looked at, nor kept.\n"

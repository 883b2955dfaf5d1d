"""Code executors: they run the code that a model writes (spec §11c)."""

from __future__ import annotations

import base64
import binascii
import re
from abc import abstractmethod
from collections.abc import Awaitable
from dataclasses import dataclass, field

from google.genai import types
from pydantic import Field

from flowloom.context import InvocationContext
from flowloom.errors import ConfigurationError, InputValidationError, NotSupportedError
from flowloom.models.request import LlmRequest
from flowloom.models.server_tools import asked_of
from flowloom.objects.settings import Settings


@dataclass(frozen=True)
class File:
    """A file that code reads or writes, by its `name` and `mime_type`.

    `content` is its bytes, or, if it is a str, their base64 form.
    """

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
    """What is to be run: the `code`, the `input_files` in its working directory, and for a stateful executor whose
    state.

    Runs with the same `execution_id` see each other's variables; None where there is no state.
    """

    code: str
    input_files: list[File] = field(default_factory=list[File])
    execution_id: str | None = None


@dataclass
class CodeExecutionResult:
    """What came of it: what was printed (`stdout`), and the files that the code has written (`output_files`).

    `exit_code` is the status of the process, or None where there is none to tell; without one, any text in `stderr`
    counts as a failure. `timed_out` says that the code was stopped at its time limit.
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
        return bool(self.stderr.strip()) if self.exit_code is None else self.exit_code != 0


class BaseCodeExecutor(Settings):
    """Runs code that a model writes into its answers. Set one as an agent's `code_executor`.

    Subclasses implement `execute_code`, sync (it is then run in a thread) or async.
    """

    optimize_data_file: bool = False
    """Whether CSV and TSV files in the user's messages are given to the code, and in the request only named."""
    stateful: bool = False
    """Whether blocks of one session see each other's variables; they then have the same `execution_id`."""
    error_retry_attempts: int = Field(default=2, ge=0)
    """After so many failures in a row (at least one), code is left unrun until the next invocation."""
    code_block_delimiters: list[tuple[str, str]] = Field(
        default_factory=lambda: [("```tool_code\n", "\n```"), ("```python\n", "\n```")]
    )
    """What stands before and after code in a model's text. The model is shown the first pair."""
    execution_result_delimiters: tuple[str, str] = ("```tool_output\n", "\n```")
    """What stands before and after a result when the model is shown it."""
    timeout_seconds: float | None = Field(default=None, gt=0)
    """How long one block may run, None without limit. Keeping it is up to the executor."""

    @abstractmethod
    def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult | Awaitable[CodeExecutionResult]:
        """Run the code of `code_execution_input`, for the agent of `invocation_context`. What it raises is told to the
        model as a failure, a `TimeoutError` as a time limit reached."""
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
    """Lets the model run code on its provider's side, as the tool `code_execution` does.

    Its adapter raises `UnsupportedFeatureError` if the provider has no such tool.
    """

    def process_llm_request(self, llm_request: LlmRequest) -> None:
        """Put the code-execution tool into a request. Raises `ConfigurationError` for Gemini before version 2."""
        if _is_too_old(llm_request.model or ""):
            raise ConfigurationError(
                f"Model `{llm_request.model}` cannot run code by itself; Gemini models from version 2 on can. Use one "
                f"of those, or another code executor than {type(self).__name__}."
            )
        if all(asked.kind != "code_execution" for asked in asked_of(llm_request)):
            tool = types.Tool(code_execution=types.ToolCodeExecution())
            llm_request.config.tools = [*(llm_request.config.tools or ()), tool]  # pyright: ignore[reportUnknownMemberType]

    def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """Not possible: the model runs the code. Raises `NotSupportedError`."""
        raise NotSupportedError("BuiltInCodeExecutor runs no code here: the model does, on its own side.")

    def code_instruction(self) -> str | None:
        """Nothing: the model knows its own tool."""
        return None


def _is_too_old(model: str) -> bool:
    """Whether a model, by any form of its name (`models/...`, `projects/.../models/...`), is Gemini 1."""
    name = model.rsplit("/", 1)[-1]
    version = re.match(r"gemini-(\d+)", name)
    if version is not None:
        return int(version[1]) < 2
    # names without a version are aliases of the latest model, save for two that mean version 1
    return re.match(r"gemini-(pro|pro-vision)(@.*)?$", name) is not None

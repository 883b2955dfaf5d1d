"""`BaseTool`: something a model can call (contract "Tool" of the house)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from google.genai import types

from flowloom.context import Context
from flowloom.context.protocols import CallOptions
from flowloom.errors import ConfigurationError
from flowloom.models.request import LlmRequest

T = TypeVar("T")


class _Unless(Generic[T]):
    """Read from the tool, unless a subclass keeps something of its own by that name."""

    def __init__(self, read: Callable[[BaseTool], T]) -> None:
        self._read = read

    def __get__(self, tool: BaseTool, kind: type[BaseTool]) -> T:
        return self._read(tool)


class BaseTool:
    """Something a model can call by name.

    Subclasses implement `run_async` and `_get_declaration`. A tool's failure is a result that the model sees:
    raise, and the engine answers the call with `{"error": text}`.

    Parameters: `name` and `description` are what the model knows it by; `custom_metadata` is the application's own;
    `is_long_running` marks a tool whose result may come after the run; `timeout` is the seconds one
    call may take; `retries` how often a call that raised is made again; `idempotent=False` says that a second call is
    not the same as one: such a call is repeated once at most when a run that was cut off is resumed. They are
    given once: a subclass may have attributes of its own by these names, and by any others but google-adk's.
    """

    defers_response: bool = False
    """Whether a result of None means that the call is answered later, by a client or a person."""
    reports_progress: bool = False
    """Whether calls may tell how far they are (`Context.report_progress`)."""
    # what the engine reads, by names that no subclass takes for something else
    __options__: CallOptions = CallOptions()
    __declared__: tuple[str, types.FunctionDeclaration | None] | None = None

    def __init__(
        self,
        *,
        name: str,
        description: str,
        is_long_running: bool = False,
        custom_metadata: dict[str, Any] | None = None,
        timeout: float | None = None,
        retries: int = 0,
        idempotent: bool = True,
    ) -> None:
        if not name:
            raise ConfigurationError(f"A {type(self).__name__} needs a name.")
        if timeout is not None and timeout <= 0:
            raise ConfigurationError(f"Tool `{name}`: `timeout` is {timeout}, but must be more than 0 seconds.")
        if retries < 0:
            raise ConfigurationError(f"Tool `{name}`: `retries` is {retries}, but must be 0 or more.")
        self.name = name
        self.description = description
        self.is_long_running = is_long_running
        self.custom_metadata = custom_metadata
        self.__options__ = CallOptions(timeout, retries, idempotent)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def __declare__(self) -> types.FunctionDeclaration | None:
        made = self.__declared__
        if made is None or made[0] != self.name:
            made = self.__declared__ = self.name, self._get_declaration()
        return made[1]

    declaration = _Unless(lambda tool: tool.__declare__())
    """How the tool is described to a model, made once for its name; None for a tool that is run but not declared."""
    timeout = _Unless(lambda tool: tool.__options__.timeout)
    """The seconds that one call may take; None for any time."""
    retries = _Unless(lambda tool: tool.__options__.retries)
    """How often a call that raised is made again."""
    idempotent = _Unless(lambda tool: tool.__options__.idempotent)
    """Whether a second call is as good as one."""

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        """Make the declaration. Override it; the default declares nothing."""
        return None

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Do the work for one call: `args` are the model's, `tool_context` is the call's place in the run.

        The result is JSON data; anything but a dict reaches the model as `{"result": ...}`. What is raised reaches it
        as `{"error": text}`.
        """
        raise NotImplementedError(f"Tool `{self.name}` is declared to the model but cannot be run here.")

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        """Change `llm_request` before it is sent. The default registers and declares the tool."""
        llm_request.append_tools([self])

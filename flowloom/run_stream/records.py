"""The typed events of a run, for user interfaces. `RunStreamMapper` makes them.

Ids: `message_id`, `call_id`, `request_id` and `agent_id` are the same from the first event that names one to the last.
`parent_call_id` is the tool call that an agent runs for (`AgentTool`); `branch` names a parallel branch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, cast

from pydantic_core import to_jsonable_python

from flowloom.events.requests import RequestKind

RunStatus = Literal["final", "paused", "limit", "cancelled", "failed"]
"""Why a run ended: with its answer, to wait for an answer, at a limit, because it was told to stop, by an error."""

_PLAIN = (str, int, float, bool)
_names: dict[type[RunStreamEvent], list[tuple[str, str]]] = {}


def _plain_value(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, RunStreamRecord):
        return value.to_dict()
    return to_jsonable_python(value, by_alias=True, exclude_none=True, bytes_mode="base64", fallback=repr)


class RunStreamRecord:
    """What has a JSON form in camelCase, without nulls."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form as plain data. A value that JSON cannot hold is given by its `repr`."""
        names = _names.get(type(self))  # pyright: ignore[reportArgumentType] - events, and what they are made of
        if names is None:
            names = [(each.name, _camel(each.name)) for each in fields(cast(Any, self))]
            _names[type(self)] = names  # pyright: ignore[reportArgumentType]
        data: dict[str, Any] = {}
        for name, key in names:
            value = getattr(self, name)
            if value is not None:
                data[key] = _plain_value(value)
        return data


class RunStreamEvent(RunStreamRecord):
    """One event of a run. `type` tells which; the class does too.

    Fields that several have: `invocation_id`, `agent_id` (of one turn of an agent), `message_id`, `call_id` (of a tool
    call) and `request_id` (which an answer names) are ids, the same from the first event that names one to the last.
    `agent` and `author` are names of agents, `name` is that of a tool, `args` are the arguments of its call and
    `result` is what it gave. `parent_call_id` is the tool call that the agent runs for, None for the agents of the run
    itself; `branch` names a parallel branch, None outside of one. `payload` is what a tool shows with its request.
    `error_code` and `error_message` say what went wrong.
    """

    __slots__ = ()
    type: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form as plain data: `type`, and the fields in camelCase, without nulls."""
        return {"type": self.type, **super().to_dict()}


def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


@dataclass(frozen=True, slots=True)
class TokenUsage(RunStreamRecord):
    """Tokens of one model call, or of several: `input_tokens`, `output_tokens` and `total_tokens`.

    Reasoning (`reasoning_tokens`) is part of the output, cached tokens (`cached_tokens`) are part of the input;
    `tool_tokens` are those of what the provider's own tools gave; `searches` is how often one of them searched.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    tool_tokens: int = 0
    total_tokens: int = 0
    searches: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.tool_tokens + other.tool_tokens,
            self.total_tokens + other.total_tokens,
            self.searches + other.searches,
        )


# -- the run ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunStarted(RunStreamEvent):
    """A run begins, or goes on after a pause; then the invocation is the same."""

    type: ClassVar[str] = "run_started"
    invocation_id: str


@dataclass(frozen=True, slots=True)
class RunFailed(RunStreamEvent):
    """An error ends the run; `RunFinished` follows."""

    type: ClassVar[str] = "run_failed"
    error_code: str
    error_message: str


@dataclass(frozen=True, slots=True)
class RunFinished(RunStreamEvent):
    """The run is over; nothing of it comes after this.

    `status` says why it ended; `usage` is what it took, as far as it was reported.
    """

    type: ClassVar[str] = "run_finished"
    invocation_id: str
    status: RunStatus
    usage: TokenUsage
    error_code: str | None = None
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorReported(RunStreamEvent):
    """Something went wrong and the run goes on."""

    type: ClassVar[str] = "error_reported"
    error_code: str
    error_message: str
    agent: str
    parent_call_id: str | None = None


# -- agents ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentStarted(RunStreamEvent):
    """An agent's turn begins. `parent_id` is the turn that it belongs to, which finishes later."""

    type: ClassVar[str] = "agent_started"
    agent_id: str
    agent: str
    parent_id: str | None = None
    branch: str | None = None
    parent_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class AgentFinished(RunStreamEvent):
    """An agent's turn is over. It is known when another agent speaks, or the run ends."""

    type: ClassVar[str] = "agent_finished"
    agent_id: str
    agent: str


@dataclass(frozen=True, slots=True)
class AgentTransferred(RunStreamEvent):
    """An agent, `from_agent`, hands the conversation over to another, `to_agent`."""

    type: ClassVar[str] = "agent_transferred"
    from_agent: str
    to_agent: str
    parent_call_id: str | None = None


# -- messages --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThoughtDelta(RunStreamEvent):
    """The next piece of a message's thoughts: `text`."""

    type: ClassVar[str] = "thought_delta"
    message_id: str
    text: str
    author: str
    branch: str | None = None
    parent_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class TextDelta(RunStreamEvent):
    """The next piece of a message's text: `text`."""

    type: ClassVar[str] = "text_delta"
    message_id: str
    text: str
    author: str
    branch: str | None = None
    parent_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class MessageCompleted(RunStreamEvent):
    """A message as a whole: its `text`, and the `thoughts` before it. Its text is what counts, if the deltas were
    others.

    `parts` holds what is neither text nor call (images, files, executed code), in ADK's JSON form. `event_id` is the
    stored event; None for a message that broke off (`interrupted`), whose text is what was streamed. `signature` is
    what the provider has signed its last words or thoughts with, in base64.
    """

    type: ClassVar[str] = "message_completed"
    message_id: str
    text: str
    thoughts: str
    author: str
    event_id: str | None = None
    branch: str | None = None
    parent_call_id: str | None = None
    parts: list[dict[str, Any]] | None = None
    interrupted: bool = False
    signature: str | None = None


# -- tool calls ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolCallStarted(RunStreamEvent):
    """A tool is called. `long_running` says that the result may come after the run, `provider` that the provider of the
    model runs the tool, as a part of its answer."""

    type: ClassVar[str] = "tool_call_started"
    call_id: str
    name: str
    agent: str
    long_running: bool = False
    branch: str | None = None
    parent_call_id: str | None = None
    provider: bool = False


@dataclass(frozen=True, slots=True)
class ToolCallArgumentsDelta(RunStreamEvent):
    """A piece of a call's arguments, for models that stream them.

    `path` is the JSON path that `value` belongs to. A text goes on with the text that is there; any other value stands
    alone. Pieces of the path `$` are the JSON text of all arguments.
    """

    type: ClassVar[str] = "tool_call_arguments_delta"
    call_id: str
    path: str
    value: str | float | bool | None


@dataclass(frozen=True, slots=True)
class ToolCallArgumentsCompleted(RunStreamEvent):
    """A call's arguments are known, streamed or not; the tool runs now, unless a person has to be asked.

    `signature` is what the provider has signed the call with, in base64.
    """

    type: ClassVar[str] = "tool_call_arguments_completed"
    call_id: str
    name: str
    args: dict[str, Any]
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCallProgress(RunStreamEvent):
    """What a tool that is not done yet says."""

    type: ClassVar[str] = "tool_call_progress"
    call_id: str
    name: str
    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCallFinished(RunStreamEvent):
    """A call is over. `error` is set if it failed, or never ran; `provider` is that of its beginning.

    Result and error are None for a call of an agent behind another call that has finished without telling what came of
    it.
    """

    type: ClassVar[str] = "tool_call_finished"
    call_id: str
    name: str
    result: dict[str, Any] | None = None
    error: str | None = None
    provider: bool = False


# -- a person in the loop --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfirmationRequested(RunStreamEvent):
    """A person is to approve a tool call. The answer goes to `request_id`; `call_id` is the call it is about.

    `hint` is what the person is told.
    """

    type: ClassVar[str] = "confirmation_requested"
    request_id: str
    call_id: str
    name: str
    args: dict[str, Any]
    hint: str
    agent: str
    payload: Any = None
    branch: str | None = None
    parent_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class InputRequested(RunStreamEvent):
    """A person is asked something: `message`. `schema` is the JSON schema of the answer, if it has one."""

    type: ClassVar[str] = "input_requested"
    request_id: str
    message: str
    agent: str
    schema: Any = None
    payload: Any = None
    branch: str | None = None
    parent_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class CredentialRequested(RunStreamEvent):
    """A tool needs a credential. `auth_uri` is where the person logs in; secrets are left out of `auth_config`."""

    type: ClassVar[str] = "credential_requested"
    request_id: str
    call_id: str
    agent: str
    auth_config: dict[str, Any]
    auth_uri: str | None = None
    branch: str | None = None
    parent_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class RequestAnswered(RunStreamEvent):
    """A person has answered a request.

    `response` is the answer; a credential is not shown.
    """

    type: ClassVar[str] = "request_answered"
    request_id: str
    kind: RequestKind
    response: dict[str, Any] | None = None


# -- effects ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateChanged(RunStreamEvent):
    """The session's state changed: the new values by key (`delta`), and the new versions of `artifacts` by name."""

    type: ClassVar[str] = "state_changed"
    delta: dict[str, Any]
    artifacts: dict[str, int]


@dataclass(frozen=True, slots=True)
class UsageReported(RunStreamEvent):
    """What a model call took (`usage`), and the run so far (`total`).

    `model` is the name of the model, None if the response did not tell it.
    """

    type: ClassVar[str] = "usage_reported"
    usage: TokenUsage
    total: TokenUsage
    agent: str
    model: str | None = None
    parent_call_id: str | None = None

"""Every exception that a user of flowloom can meet, in one hierarchy, from `FlowloomError` on.

Where the standard library has a fitting class (`ValueError`), an error derives from that, too, so that its code works.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, get_args

from pydantic import BaseModel, ValidationError


def closest_of(name: str, available: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The one of `available` that was probably meant by `name`; None if none is near (1 is the same)."""
    return next(iter(import_module("difflib").get_close_matches(name, sorted(available), 1, cutoff)), None)


def closest_first(name: str, available: Iterable[str]) -> list[str]:
    """`available`, sorted, with the best match for `name` moved to the front."""
    match = closest_of(name, names := sorted(available))
    return sorted(names, key=lambda each: each != match)


def quoted_list(names: Iterable[str]) -> str:
    """`a`, `b`, `c` for error texts; "none" for no names."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def error_text(error: BaseException) -> str:
    """What a model or a person is told about an error: its message, and its type where that says no more than a value.

    `KeyError: 'customer_7'`, `TimeoutError`, `IndexError: 7`; but `no such customer` as it is.
    """
    kind = type(error)
    try:
        message = "" if str(error) == "None" else str(error)
    except Exception:  # a message that cannot be made hides no error
        message = ""
    if kind.__str__ is not KeyError.__str__ and any(map(str.isalpha, message)):
        return message
    return f"{kind.__name__}: {message}" if message else kind.__name__


class FlowloomError(Exception):
    """Base of all errors that flowloom raises itself. `message` is what went wrong, where, and what to do."""


# -- how things are put together ---------------------------------------------------------------


class ConfigurationError(FlowloomError, ValueError):
    """Something was put together in a way that cannot run. Raised when it is built, not when it runs."""


def bad_fields(kind: type[BaseModel], given: Mapping[str, Any], error: ValidationError) -> ConfigurationError:
    """The error for values `given` to a pydantic model that refused them: which field, why, what was probably meant."""
    what = f"{kind.__name__} `{name}`" if isinstance(name := given.get("name"), str) else kind.__name__
    problems: list[str] = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(map(str, problem["loc"]))
        if place.endswith(".0") and isinstance(given.get(place[:-2]), BaseModel):  # its fields made a list
            return ConfigurationError(f"{what} cannot be made: `{place[:-2]}`: Input should be a valid list.")
        if problem["type"] == "extra_forbidden":
            names = _fields_at(kind, problem["loc"][:-1])
            close = closest_of(str(problem["loc"][-1]), names)
            meant = f"the closest is `{close}`" if close else f"the fields are {quoted_list(names)}"
            problems.append(f"`{place}` is no field; {meant}")
        else:
            problems.append(f"`{place}`: {problem['msg'].removeprefix('Value error, ').rstrip('.')}")
    return ConfigurationError(f"{what} cannot be made: {'; '.join(problems)}.")


def _fields_at(kind: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """The fields of the object at a place within a model. Keys, indices and names of types lead no deeper."""
    kinds = [kind]
    for step in place:
        held = [each.model_fields[step].annotation for each in kinds if step in each.model_fields]  # type: ignore[index]
        kinds = [model for annotation in held for model in _models_in(annotation)] or kinds
    own = [(*each.model_fields, *(getattr(each.__init__, "__kwdefaults__", None) or ())) for each in kinds]
    return sorted({name for names in own for name in names})


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


class MissingExtraError(ConfigurationError, ImportError):
    """What needs an extra is used, and the extra is not installed; the text has the command that installs it.

    Attributes: `extra`, and `name`, the module that is missing.
    """

    def __init__(self, message: str, *, extra: str, name: str | None = None) -> None:
        ImportError.__init__(self, message, name=name)
        self.extra = extra


class AgentNameError(ConfigurationError):
    """An agent's name is empty, reserved, or has characters that a name may not have."""


class DuplicateAgentError(ConfigurationError):
    """Two agents of one tree have the same name, or one agent is listed twice."""


class AgentNotFoundError(FlowloomError, LookupError):
    """No agent of that name can be reached from here."""


class ToolSignatureError(ConfigurationError):
    """A function's signature cannot be described to a model."""


class DuplicateToolError(ConfigurationError):
    """Two tools of one agent have the same name."""


class PipelineError(ConfigurationError):
    """A processor is unknown, duplicate, or not callable."""


class TemplateError(ConfigurationError):
    """An instruction template is malformed, or could not be filled."""


class MissingVariableError(TemplateError, KeyError):
    """An instruction names a variable or artifact that is not there.

    Attributes: `agent` (name), `variable` (as written), `line` (1-based line of the instruction).
    """

    def __init__(self, message: str, *, variable: str, agent: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.variable = variable
        self.agent = agent
        self.line = line

    def __str__(self) -> str:  # KeyError would show the repr of its argument
        return self.message


class InputValidationError(FlowloomError, ValueError):
    """A caller's message, state or file name is not acceptable."""


class JsonDataError(FlowloomError, ValueError):
    """What user code gave cannot be kept as JSON, as all that is in a session is: its text says why."""


class ChatMessageError(InputValidationError):
    """A chat message, or a conversation of them, is not of the form that it has to have.

    Attribute: `index` (the place of the message in its conversation, from 0; None for a message by itself).
    """

    def __init__(self, message: str, *, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class AlreadyAnsweredError(InputValidationError):
    """A decision was made already, or by the same message, and this is another one. Nothing of the message is stored.

    Attribute: `call_id` (the id of the request, or of the call that has its result).
    """

    def __init__(self, message: str, *, call_id: str) -> None:
        super().__init__(message)
        self.call_id = call_id


class UnreadableAnswerError(InputValidationError):
    """An answer to a call cannot be read, or has another name. Nothing of the message is stored, and the call waits on.

    Attribute: `call_id` (the id of the call, which may be a request to a person).
    """

    def __init__(self, message: str, *, call_id: str) -> None:
        super().__init__(message)
        self.call_id = call_id


# -- models ------------------------------------------------------------------------------------


class ModelError(FlowloomError):
    """A model call failed.

    Attributes: `model` (name), `status` (the provider's HTTP status, or None), `code` (the provider's
    error code, or None), `retryable` (whether the same call may succeed later), `retry_after` (the seconds that the
    provider asked to wait before it, or None).
    """

    def __init__(
        self,
        message: str,
        *,
        model: str | None = None,
        status: int | None = None,
        code: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.model = model
        self.status = status
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after


class ModelRateLimitError(ModelError):
    """The provider refused the call for its rate or quota (HTTP 429)."""


class ModelUnavailableError(ModelError):
    """The provider could not be reached or failed on its side (HTTP 5xx, network, time-out)."""


class ModelRequestError(ModelError):
    """The provider rejected the request as it is (HTTP 4xx)."""


class UnsupportedFeatureError(ModelRequestError):
    """A request holds something that the provider's API cannot express, and that may not be left out.

    Attribute: `field` (where it is in the request, such as `config.response_schema` or `contents[2].parts[0]`).
    """

    def __init__(self, message: str, *, field: str, model: str | None = None) -> None:
        super().__init__(message, model=model)
        self.field = field


class ModelResponseError(ModelError):
    """A model's answer could not be understood, or is not of the form that was asked for."""


class ModelStreamError(ModelError):
    """A streamed answer broke off or carried an error."""


class IncompleteStreamError(ModelStreamError):
    """A model's stream ended on a partial response: its complete one never came."""


class ModelNotConfiguredError(ConfigurationError):
    """An agent has no model, and neither has any of its ancestors."""


class ModelNotFoundError(ConfigurationError, LookupError):
    """No registered model adapter answers to that name, or more than one does."""


# -- runs --------------------------------------------------------------------------------------


class LimitExceededError(FlowloomError):
    """A run reached one of its limits. Its history is kept; a new message continues from there.

    Attributes: `limit` (which one), `allowed`, `used`, `agent` (whose limit it is; None for the run's), `on_limit`
    (what is to happen: `raise`, `stop` or `summarise`).
    """

    def __init__(
        self,
        message: str,
        *,
        limit: str,
        allowed: float,
        used: float,
        agent: str | None = None,
        on_limit: Literal["raise", "stop", "summarise"] = "raise",
    ) -> None:
        super().__init__(message)
        self.limit = limit
        self.allowed = allowed
        self.used = used
        self.agent = agent
        self.on_limit: Literal["raise", "stop", "summarise"] = on_limit


class LlmCallsLimitExceededError(LimitExceededError):
    """A run made as many model calls as `RunConfig.max_llm_calls` or `Limits.model_calls` allows."""


class NotSupportedError(FlowloomError):
    """The operation exists by name only in this release."""


class NotInFlowloomError(NotSupportedError, ModuleNotFoundError):
    """google-adk has it, and flowloom does not, or has it elsewhere; the text says what to use."""


class PlaceholderError(NotSupportedError):
    """A tool was run of which only the declaration is there. Attribute: `tool` (its name)."""

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"The tool `{tool}` cannot be run: only its declaration is here, out of a request that was read. Give the "
            f"real one where the request is read, as `request_from_json(..., tools=[{tool}])`, or answer the call in "
            f"a `before_tool` callback."
        )
        self.tool = tool


class ContextError(FlowloomError):
    """A context was asked for something it does not carry (a service, a function call id)."""


class CallbackError(FlowloomError, TypeError):
    """A callback answered something that it may not answer."""


class ProcessorError(FlowloomError):
    """A processor broke the pipeline's contract."""


class Halt(FlowloomError):
    """Raised by a processor to stop its agent's step, without a model call and without a failure.

    `processor` is filled in by the flow: who halted.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.processor: str | None = None


# -- tools -------------------------------------------------------------------------------------


class ToolError(FlowloomError):
    """A tool could not do what it was asked. Its text is what the model sees."""


class ToolNotFoundError(ToolError):
    """The model called a tool that the agent does not have."""


class ToolArgumentsError(ToolError, ValueError):
    """The arguments of a tool call do not fit the tool's parameters."""


class ToolResultError(ToolError, ValueError):
    """What a tool returned cannot be kept as JSON, so that neither the model nor the log can have it."""


class ToolTimeoutError(ToolError, TimeoutError):
    """A tool took longer than its `timeout`."""


class ToolsetError(FlowloomError):
    """A set of tools could not be started or listed: its class (`toolset`), its `address`, and the `reason`."""

    toolset = address = reason = ""
    skipped = False  # whether the run goes on without these tools


class ConfirmationRequiredError(ToolError):
    """The tool call waits for a person to approve it."""


class ConfirmationRejectedError(ToolError):
    """A person refused the tool call."""


class InputRequiredError(ToolError):
    """The tool call waits for a person's input."""


class CredentialError(ToolError):
    """A credential could not be had: it was refused, has expired, or the exchange for a token failed.

    Its text never holds a secret.
    """


# -- sessions, artifacts -----------------------------------------------------------------------


class SessionNotFoundError(FlowloomError, ValueError):
    """No session of that id exists for this app and user."""


class AlreadyExistsError(FlowloomError, ValueError):
    """A session of that id exists already."""


class InvocationNotFoundError(FlowloomError, LookupError):
    """A session has no invocation of that id. Attribute: `invocation_id`."""

    def __init__(self, message: str, *, invocation_id: str) -> None:
        super().__init__(message)
        self.invocation_id = invocation_id


class SessionBusyError(FlowloomError):
    """Another run works on the session, and this one was not to wait for it.

    Attributes: `session_id`, `retry_after` (seconds until the other's lease expires, if it is dead).
    """

    def __init__(self, message: str, *, session_id: str, retry_after: float) -> None:
        super().__init__(message)
        self.session_id = session_id
        self.retry_after = retry_after


class RunLostError(SessionBusyError):
    """The session has gone to another run while this one slept: its process was stopped, or its event loop blocked.

    It ends the run that was replaced, which stores nothing more and starts no tool. The other run is not touched: go on
    from what it has stored, instead of sending the message again. Attributes as of `SessionBusyError`; `retry_after` is
    for how long a lease lasts.
    """


class StorageError(FlowloomError):
    """A store could not be opened, read or written: the file, the server, or what is in it."""


class HistoryError(FlowloomError, ValueError):
    """An event log is not legal."""


class ArtifactNotFoundError(FlowloomError, LookupError):
    """No artifact of that name or version exists."""


# -- what a server says ------------------------------------------------------------------------


class EventParseError(FlowloomError, ValueError):
    """What came is not an event.

    Attribute: `place` (where it is wrong: `line 1 column 9` in text that is not JSON, `content.parts[0].text` in
    JSON that is not an event; empty if all of it is).
    """

    def __init__(self, message: str, *, place: str = "") -> None:
        super().__init__(message)
        self.place = place


class EventStreamError(FlowloomError):
    """An error that a server wrote into its stream. It is given, not raised: `raise parsed.error` if you want that.

    Attributes: `code` (the server's error code, or None), `details` (what else it said).
    """

    def __init__(self, message: str, *, code: str | None = None, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details or {}


# -- a person as the model ---------------------------------------------------------------------


class AnswerError(FlowloomError):
    """An answer was not taken. Attribute: `request_id` (of the request that it was for)."""

    def __init__(self, message: str, *, request_id: str) -> None:
        super().__init__(message)
        self.request_id = request_id


class RequestNotFoundError(AnswerError, LookupError):
    """No request of that id has ever waited here."""


class RequestOverError(AnswerError):
    """The request waits no longer. Attribute: `state` (`answered`, `cancelled` or `timed out`)."""

    def __init__(self, message: str, *, request_id: str, state: str) -> None:
        super().__init__(message, request_id=request_id)
        self.state = state


class UnfitAnswerError(AnswerError, ValueError):
    """The answer does not fit the request, which goes on waiting for another.

    Attributes: `tool` (whose arguments do not fit; None if it is not about a call), `field` (where, such as `city` or
    `guests[0].name`; None if it is about the whole).
    """

    def __init__(
        self, message: str, *, request_id: str = "", tool: str | None = None, field: str | None = None
    ) -> None:
        super().__init__(message, request_id=request_id)
        self.tool = tool
        self.field = field

"""Chat messages, as OpenAI's chat completions have them on the wire and most programs speak them.

All types here are those of plain dicts: what a program has loaded from JSON fits as it is. `is_valid_chat_message` and
`is_valid_tool_call` ask whether it does, `validated_messages` says which message does not, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, TypeGuard, cast

from flowloom.errors import ChatMessageError, closest_first, quoted_list
from flowloom.models.request import DeclaredTool

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
"""Who speaks. `developer` is OpenAI's newer word for `system`, `function` its older one for `tool`."""
ROLES: tuple[str, ...] = ("system", "developer", "user", "assistant", "tool", "function")


# -- what a message is made of ---------------------------------------------------------------------


class CalledFunction(TypedDict):
    """The function of a call, and its arguments as the JSON text that the model wrote."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """A call of a tool, in a message of the assistant."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class FunctionName(TypedDict):
    """A function by its name."""

    name: str


class NamedTool(TypedDict):
    """A tool that has to be called."""

    type: Literal["function"]
    function: FunctionName


ToolChoice = Literal["auto", "none", "required"] | NamedTool
"""Whether tools are called: as the model likes, never, at least one, or one by its name."""


class TextPart(TypedDict):
    """A text among other parts of a message."""

    type: Literal["text"]
    text: str


class RefusalPart(TypedDict):
    """What the assistant says instead of an answer."""

    type: Literal["refusal"]
    refusal: str


class MediaUrl(TypedDict):
    """Where a picture or a film is: a web address, or a `data:` URI that holds it."""

    url: str
    detail: NotRequired[str]


class ImagePart(TypedDict):
    """A picture."""

    type: Literal["image_url"]
    image_url: MediaUrl


class VideoPart(TypedDict):
    """A film: not OpenAI's, but common among servers that speak its API."""

    type: Literal["video_url"]
    video_url: MediaUrl


class AudioData(TypedDict):
    """Sound in base64, and its format, such as `wav`."""

    data: str
    format: str


class AudioPart(TypedDict):
    """Sound."""

    type: Literal["input_audio"]
    input_audio: AudioData


class FileContent(TypedDict, total=False):
    """A file: its bytes (a `data:` URI, or base64), or the id or address that the provider knows it by."""

    filename: str
    file_data: str
    file_id: str
    format: str
    """The MIME type of a file that stands by its id or address."""


class FilePart(TypedDict):
    """A file."""

    type: Literal["file"]
    file: FileContent


ContentPart = TextPart | RefusalPart | ImagePart | VideoPart | AudioPart | FilePart
"""One of several things that a message holds."""


class ChatMessage(TypedDict):
    """One message of a conversation, a plain dict.

    `content` may be missing in messages of the assistant only. `tool_calls` stand in messages of the assistant,
    `tool_call_id` in those of a tool: the id of the call that it answers. `name` is the participant's, or for the role
    `function` the function's. Keys beyond these are kept.
    """

    role: Role
    content: NotRequired[str | list[ContentPart] | None]
    name: NotRequired[str | None]
    tool_calls: NotRequired[list[ToolCall] | None]
    tool_call_id: NotRequired[str | None]
    refusal: NotRequired[str | None]
    reasoning_content: NotRequired[str | None]
    """What the model thought, as many servers other than OpenAI's give it."""
    function_call: NotRequired[CalledFunction | None]
    """OpenAI's older form of `tool_calls`."""


# -- what a service is asked -----------------------------------------------------------------------


class FunctionDeclaration(TypedDict):
    """What a model is told of a function; `parameters` is a JSON schema."""

    name: str
    description: NotRequired[str | None]
    parameters: NotRequired[Mapping[str, Any] | None]
    strict: NotRequired[bool | None]


class ToolDeclaration(TypedDict):
    """A function among the tools of a request."""

    type: Literal["function"]
    function: FunctionDeclaration


class LLMServiceOptions(TypedDict):
    """What an `LLMService` is asked, a plain dict: `messages`, and settings as OpenAI names them. None is as missing.

    `tools` are declarations in OpenAI's form, flowloom tools, or plain functions. They are declared, not run: the
    answer holds the calls.
    """

    messages: Sequence[ChatMessage]
    model: NotRequired[str | None]
    tools: NotRequired[Sequence[ToolDeclaration | DeclaredTool | Callable[..., Any]] | None]
    tool_choice: NotRequired[ToolChoice | None]
    stream: NotRequired[bool | None]
    temperature: NotRequired[float | None]
    top_p: NotRequired[float | None]
    top_k: NotRequired[int | None]
    max_tokens: NotRequired[int | None]
    max_completion_tokens: NotRequired[int | None]
    """The newer name of `max_tokens`, and goes before it."""
    stop: NotRequired[str | Sequence[str] | None]
    seed: NotRequired[int | None]
    presence_penalty: NotRequired[float | None]
    frequency_penalty: NotRequired[float | None]
    response_format: NotRequired[Mapping[str, Any] | None]
    """`{"type": "text"}`, `{"type": "json_object"}`, or `{"type": "json_schema", "json_schema": {"schema": ...}}`."""
    logprobs: NotRequired[bool | None]
    """Whether log probabilities of the tokens are wanted: an `LlmService` gives them in `AgentResponse.response`."""
    top_logprobs: NotRequired[int | None]
    reasoning_effort: NotRequired[str | None]
    """`none`, `minimal`, `low`, `medium`, `high` or `xhigh`."""


# -- whether it is one -----------------------------------------------------------------------------

_NO_LISTS: tuple[type, ...] = (str, bytes, dict)


def is_valid_chat_message(value: object) -> TypeGuard[ChatMessage]:
    """Whether `value` is a chat message: a dict with a known role, and with the fields that the role has to have.

    Whether tool results fit the calls before them is a matter of the conversation, and not asked here.
    """
    return message_problem(value) is None


def is_valid_tool_call(value: object) -> TypeGuard[ToolCall]:
    """Whether `value` is a tool call: `{"id", "type": "function", "function": {"name", "arguments"}}`.

    `arguments` are text. Whether that is JSON is not asked: models write other things, too.
    """
    return _call_problem(value) is None


def validated_messages(messages: Any) -> list[ChatMessage]:
    """The messages of a conversation, the same objects. Raises `ChatMessageError` for the first that is none."""
    if isinstance(messages, _NO_LISTS) or not hasattr(messages, "__iter__"):
        raise ChatMessageError(f"A conversation is a list of chat messages, not {_kind(messages)}.")
    found: list[Any] = list(messages)
    for index, message in enumerate(found):
        problem = message_problem(message)
        if problem is not None:
            raise bad_message(index, problem)
    return found


def bad_message(index: int | None, problem: str) -> ChatMessageError:
    """The error for one message of a conversation."""
    where = "The chat message" if index is None else f"`messages[{index}]`"
    return ChatMessageError(f"{where} is not usable: {problem}.", index=index)


def message_problem(value: object) -> str | None:
    """Why a value is no chat message; None if it is one."""
    if not isinstance(value, dict):
        return f"a message is a dict with `role` and `content`, not {_kind(value)}"
    message = cast(dict[str, Any], value)
    role = message.get("role")
    if not isinstance(role, str):
        return "it has no `role`" if role is None else f"`role` is {_kind(role)}, not text"
    if role not in ROLES:
        return f"`{role}` is no role that is known; there are {quoted_list(closest_first(role, ROLES))}"
    for name in ("name", "tool_call_id", "refusal", "reasoning_content"):
        if message.get(name) is not None and not isinstance(message[name], str):
            return f"`{name}` is {_kind(message[name])}, not text"
    return _content_problem(message, role) or _calls_problem(message, role) or _answer_problem(message, role)


def _content_problem(message: dict[str, Any], role: str) -> str | None:
    if "content" not in message:
        return None if role == "assistant" else f"a message of the role `{role}` has to have `content`"
    content = message["content"]
    if content is None or isinstance(content, str):
        return None
    if not isinstance(content, list):
        return f"`content` is {_kind(content)}; it is text, a list of parts, or null"
    for number, part in enumerate(cast(list[Any], content)):
        problem = _part_problem(part)
        if problem is not None:
            return f"`content[{number}]` {problem}"
    return None


_PART_FIELDS: dict[str, tuple[str, ...]] = {
    "text": (),
    "refusal": (),
    "image_url": ("url",),
    "video_url": ("url",),
    "input_audio": ("data", "format"),
    "file": (),
}


def _part_problem(value: object) -> str | None:
    if not isinstance(value, dict):
        return f"is {_kind(value)}, and not a dict with a `type`"
    part = cast(dict[str, Any], value)
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in _PART_FIELDS:
        return f"has the type {kind!r}, which is not known; there are {quoted_list(_PART_FIELDS)}"
    held = part.get(kind)
    if kind in ("text", "refusal"):
        return None if isinstance(held, str) else f"has no text in `{kind}`"
    if not isinstance(held, dict):
        return f"has no object in `{kind}`"
    fields = cast(dict[str, Any], held)
    for name in _PART_FIELDS[kind]:
        if not isinstance(fields.get(name), str):
            return f"has no text in `{kind}.{name}`"
    if kind == "file":
        for name in ("file_data", "file_id", "filename", "format"):
            if fields.get(name) is not None and not isinstance(fields[name], str):
                return f"has no text in `file.{name}`"
        if fields.get("file_data") is None and fields.get("file_id") is None:
            return "has neither `file.file_data` nor `file.file_id`"
    return None


def _calls_problem(message: dict[str, Any], role: str) -> str | None:
    calls, call = message.get("tool_calls"), message.get("function_call")
    if role != "assistant" and (calls or call):
        return f"a message of the role `{role}` cannot call tools; only the assistant does"
    if calls is not None and not isinstance(calls, list):
        return f"`tool_calls` is {_kind(calls)}, not a list"
    for number, each in enumerate(cast(list[Any], calls or [])):
        problem = _call_problem(each)
        if problem is not None:
            return f"`tool_calls[{number}]` {problem}"
    problem = None if call is None else _function_problem(call)
    return None if problem is None else f"`function_call` {problem}"


def _call_problem(value: object) -> str | None:
    if not isinstance(value, dict):
        return f"is {_kind(value)}, and not a dict with `id`, `type` and `function`"
    call = cast(dict[str, Any], value)
    if not isinstance(call.get("id"), str):
        return "has no text in `id`"
    if call.get("type") != "function":
        return f"has the type {call.get('type')!r}; only 'function' is known"
    problem = _function_problem(call.get("function"))
    return None if problem is None else f"has a `function` that {problem}"


def _function_problem(value: object) -> str | None:
    if not isinstance(value, dict):
        return f"is {_kind(value)}, and not a dict with `name` and `arguments`"
    function = cast(dict[str, Any], value)
    if not isinstance(function.get("name"), str) or not function["name"]:
        return "has no `name`"
    if not isinstance(function.get("arguments"), str):
        return f"has {_kind(function.get('arguments'))} as `arguments`; they are JSON text"
    return None


def _answer_problem(message: dict[str, Any], role: str) -> str | None:
    if role == "tool":
        if not isinstance(message.get("tool_call_id"), str):
            return "a message of the role `tool` has to have `tool_call_id`, the id of the call that it answers"
    elif message.get("tool_call_id") is not None:
        return f"a message of the role `{role}` cannot have `tool_call_id`; only `tool` answers a call by its id"
    if role == "function" and not message.get("name"):
        return "a message of the role `function` has to have `name`, the function that it is the result of"
    return None


def _kind(value: object) -> str:
    """What a value is, in the words of JSON."""
    names: dict[type, str] = {
        type(None): "null",
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), f"a {type(value).__name__}")

"""Conversations of chat messages, to and from `types.Content`s, without a loss either way.

The two forms do not hold the same things: a message has the text of its arguments, a name, null or empty content; a
content has thoughts, signatures, files of any kind. So what is made remembers what it was made of, and going back gives
just that, as long as what was made is unchanged. What it remembers is no field: no model is sent it, and it does
not survive JSON. A copy from JSON is converted by what it says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from google.genai import types
from pydantic import BaseModel, PrivateAttr

from flowloom.errors import InputValidationError, ModelRequestError
from flowloom.events.parts import as_object, call_part, content_like, response_part, text_part
from flowloom.events.wire import fields_of, replace, set_fields, set_private
from flowloom.interop.chat_messages import ChatMessage, ContentPart, ToolCall, bad_message, validated_messages
from flowloom.interop.chat_parts import item_of, part_of, unwritable
from flowloom.models.contents import SharedContents, copy_content
from flowloom.models.partial_args import arguments_of
from flowloom.models.turns import CallIds
from flowloom.objects.given import several
from flowloom.providers.sdk_request import Drop, arguments_json, json_text

UNKNOWN_FUNCTION = "unknown_function"
"""The function of a tool result that no call in the conversation asked for."""
_ANY_ID = re.compile(r".+", re.DOTALL)
_SPEAKERS = {"model": "assistant", "system": "system", "developer": "developer"}
_USERS = (None, "", "user", "tool", "function")
_READS_CONTENTS = "`contents_to_messages` reads a list of `types.Content`s."

Json = dict[str, Any]


def messages_to_contents(messages: Iterable[ChatMessage]) -> list[types.Content]:
    """The contents of a conversation, one for each of the `messages`, in their order.

    Roles become `model` (assistant), `user` (user and tools), `system` and `developer`; those two are known to chat
    messages, not to models, and `LlmService` makes a system instruction of them. Messages that `contents_to_messages`
    made of one content become that content again. Raises `ChatMessageError`, which names the message and the reason.
    """
    return list(_contents(validated_messages(messages)))


def contents_to_messages(contents: Iterable[types.Content]) -> list[ChatMessage]:
    """The chat messages of a conversation, in the order of `contents`: one for each content, and one more for each tool
    result in it.

    Contents that `messages_to_contents` made become the same messages again. Of others, calls without an id get one,
    and so do their results; thoughts and signatures are not in the messages. Raises `UnsupportedFeatureError`, which
    names the part, for what chat messages have no words for, and `InputValidationError` for what are no contents.
    """
    given = contents.plain() if isinstance(contents, SharedContents) else several(contents, _READS_CONTENTS)
    return written_messages([_content_given(index, each) for index, each in enumerate(given)], lambda _: None)


def _content_given(index: int, given: Any) -> types.Content:
    try:
        return content_like(given)
    except ValueError:
        raise InputValidationError(f"{_READS_CONTENTS} `contents[{index}]` is a {type(given).__name__}.") from None


def written_messages(contents: Iterable[types.Content], drop: Drop, *, legal: bool = False) -> list[ChatMessage]:
    """The same; `drop` is told of what the messages leave out.

    With `legal` they are what providers take: results stand right behind their calls, those of no call are texts.
    """
    given = contents.plain() if isinstance(contents, SharedContents) else list(contents)
    ids: CallIds | None = None
    messages: list[ChatMessage] = []
    for index, content in enumerate(given):
        kept = _kept_messages(content)
        if kept is not None:
            messages += kept
        else:
            ids = ids or CallIds(given, _ANY_ID)
            messages += remembering(content, list(_Messages(content, index, ids, drop, legal).all()))
    return messages


# -- from messages ---------------------------------------------------------------------------------


def _contents(messages: list[ChatMessage]) -> Iterator[types.Content]:
    names: dict[str, str] = {}  # of functions, by the ids of their calls
    later = {call["id"]: call["function"]["name"] for each in reversed(messages) for call in _calls_of(each)}
    at = 0
    while at < len(messages):
        kept = _kept_content(messages, at)
        count = 1 if kept is None else len(kept.messages)
        if kept is None:
            message = messages[at]
            asked = message.get("tool_call_id") or ""
            name = names.get(asked) or later.get(asked) or message.get("name") or UNKNOWN_FUNCTION
            yield _remembering_content(message, at, name)
        else:
            yield copy_content(kept.content)
        for message in messages[at : at + count]:
            names.update((call["id"], call["function"]["name"]) for call in _calls_of(message))
        at += count


def _calls_of(message: ChatMessage) -> list[ToolCall]:
    return message.get("tool_calls") or []


def _parts(message: ChatMessage, function: str) -> tuple[str, list[types.Part]]:
    """Role and parts of a message; `function` is whose result it is. Raises `ValueError` for data it cannot read."""
    role, content = message["role"], message.get("content")
    if role == "tool":
        return "user", [_result_part(message.get("tool_call_id"), function, content)]
    if role == "function":
        return "user", [_result_part(None, message.get("name") or function, content)]
    parts = [text_part(content)] if isinstance(content, str) else [part_of(item) for item in content or ()]
    if role != "assistant":
        return role, parts
    if thought := message.get("reasoning_content"):
        parts.insert(0, text_part(thought, thought=True))
    if refusal := message.get("refusal"):
        parts.append(text_part(refusal))
    for call in _calls_of(message):
        called = call["function"]
        parts.append(call_part(call["id"], called["name"], arguments_of(called["arguments"])))
    if (called := message.get("function_call")) is not None:
        parts.append(call_part(None, called["name"], arguments_of(called["arguments"])))
    return "model", parts


def _result_part(call_id: str | None, function: str, content: str | list[ContentPart] | None) -> types.Part:
    if content is None or isinstance(content, str):
        return response_part(call_id, function, result_of(content))
    texts = [item["text"] for item in content if item["type"] == "text"]
    files = [part_of(item) for item in content if item["type"] != "text"]
    part = response_part(call_id, function, result_of("".join(texts)) if texts or not files else {})
    if files:
        answer = cast(types.FunctionResponse, part.function_response)
        set_fields(answer, parts=[_response_file(file) for file in files])
    return part


def result_of(text: str | None) -> Json:
    """What a tool gave, as a function response has it: an object as it is, all else under `result`."""
    if text is not None and text.lstrip()[:1] in ("{", "["):
        try:
            return as_object(json.loads(text, parse_constant=_no_constant), "result")
        except (ValueError, RecursionError):
            pass
    return {"result": text}


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _response_file(part: types.Part) -> types.FunctionResponsePart:
    if (blob := part.inline_data) is not None:
        inline = types.FunctionResponseBlob(data=blob.data, mime_type=blob.mime_type, display_name=blob.display_name)
        return types.FunctionResponsePart(inline_data=inline)
    if (held := part.file_data) is not None:
        file = types.FunctionResponseFileData(
            file_uri=held.file_uri, mime_type=held.mime_type, display_name=held.display_name
        )
        return types.FunctionResponsePart(file_data=file)
    return types.FunctionResponsePart(
        inline_data=types.FunctionResponseBlob(data=(part.text or "").encode(), mime_type="text/plain")
    )


# -- to messages -----------------------------------------------------------------------------------


class _Messages:
    """The messages of one content."""

    def __init__(self, content: types.Content, index: int, ids: CallIds, drop: Drop, legal: bool) -> None:
        self._content = content
        self._legal = legal
        self._index = index
        self._ids = ids
        self._drop = drop
        role = content.role
        if role not in _SPEAKERS and role not in _USERS:
            raise unwritable(f"contents[{index}].role", f"is `{role}`")
        self._role: Any = _SPEAKERS.get(role or "", "user")
        self._items: list[ContentPart] = []
        self._calls: list[ToolCall] = []

    def all(self) -> Iterator[ChatMessage]:
        empty = True
        for n, part in self._parts():
            place = f"contents[{self._index}].parts[{n}]"
            if part.thought_signature is not None:
                self._drop("signatures of thoughts")
            if part.function_response is not None:
                result = self._result(part.function_response, n, place)
                if result is not None:
                    yield from self._said()
                    yield result
                    empty = False
            elif part.function_call is not None:
                self._calls.append(self._call(part.function_call, n, place))
            elif part.thought:
                self._drop("thoughts of the model")
            elif part.text == "" and part.thought_signature is not None:
                pass  # only there to carry the signature
            elif (item := item_of(part, place)) is not None:
                self._items.append(item)
        if empty or self._items or self._calls:
            yield from self._said(even_if_empty=True)

    def _parts(self) -> list[tuple[int, types.Part]]:
        parts = list(enumerate(self._content.parts or ()))
        if self._legal:
            parts.sort(key=lambda numbered: numbered[1].function_response is None)
        return parts

    def _said(self, *, even_if_empty: bool = False) -> Iterator[ChatMessage]:
        """What was said since the last result, as a message."""
        items, calls = self._items, self._calls
        if not items and not calls and not even_if_empty:
            return
        message: ChatMessage = {"role": self._role, "content": _content_of(items)}
        if calls:
            message["tool_calls"] = calls
        self._items, self._calls = [], []
        yield message

    def _call(self, call: types.FunctionCall, n: int, place: str) -> ToolCall:
        if self._role != "assistant":
            raise unwritable(f"{place}.function_call", f"is a call by the role `{self._content.role}`")
        return tool_call(self._ids.at(self._index, n) or "", call, f"{place}.function_call")

    def _result(self, result: types.FunctionResponse, n: int, place: str) -> ChatMessage | None:
        """The message of a result; None for one that has become a text of the next message."""
        text = _text(json_text, result.response or {}, f"{place}.function_response.response")
        call_id = self._ids.at(self._index, n)
        if self._legal and call_id is None:
            self._items.append({"type": "text", "text": f"Result of `{result.name}`: {text}"})
            return None
        call_id = call_id or result.id
        if call_id is None:
            return {"role": "function", "name": result.name or UNKNOWN_FUNCTION, "content": text}
        if not result.parts:
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        items: list[ContentPart] = [{"type": "text", "text": text}]
        for m, file in enumerate(result.parts):
            item = item_of(_file_part(file), f"{place}.function_response.parts[{m}]")
            if item is not None:
                items.append(item)
        return {"role": "tool", "tool_call_id": call_id, "content": items}


def tool_call(call_id: str, call: types.FunctionCall, place: str = "function_call") -> ToolCall:
    """A function call as chat messages have it. `place` is where it stands, for errors."""
    arguments = _text(arguments_json, call.args, f"{place}.args")
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": call.name or UNKNOWN_FUNCTION, "arguments": arguments},
    }


def _content_of(items: list[ContentPart]) -> str | list[ContentPart] | None:
    if len(items) == 1 and items[0]["type"] == "text":
        return items[0]["text"]
    return items or None


def _file_part(file: types.FunctionResponsePart) -> types.Part:
    blob, held = file.inline_data, file.file_data
    if blob is not None:
        inline = types.Blob(data=blob.data, mime_type=blob.mime_type, display_name=blob.display_name)
        return types.Part(inline_data=inline)
    if held is not None:
        named = types.FileData(file_uri=held.file_uri, mime_type=held.mime_type, display_name=held.display_name)
        return types.Part(file_data=named)
    return types.Part()


def _text(write: Callable[[Any], str], data: Any, field: str) -> str:
    try:
        return write(data)
    except ModelRequestError as error:
        raise unwritable(field, "is nested too deep, or holds itself") from error


# -- what is remembered ----------------------------------------------------------------------------


class MessageContent(types.Content):
    """A content that remembers what it was made of: a message, or the results of several calls.

    It is equal to any content of that role and parts.
    """

    _messages: list[ChatMessage] = PrivateAttr(default_factory=list[ChatMessage])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, types.Content):
            return NotImplemented
        return self.role == other.role and self.parts == other.parts

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_result(self) -> bool:
        """Whether it holds the result of a call, and nothing else."""
        return len(self.parts or ()) == 1 and _result_in(self, 0) is not None

    @classmethod
    def joined(cls, contents: list[MessageContent]) -> MessageContent:
        """Contents of one role as one."""
        if len(contents) == 1:
            return contents[0]
        parts = [part for content in contents for part in content.parts or ()]
        return _content_with([message for content in contents for message in content._messages], "user", parts)


_EMPTY = MessageContent.model_construct()


def _content_with(messages: list[ChatMessage], role: str, parts: list[types.Part]) -> MessageContent:
    content = replace(_EMPTY, role=role, parts=parts)
    set_private(content, {"_messages": messages})
    return content


def _remembering_content(message: ChatMessage, index: int, function: str) -> MessageContent:
    try:
        role, parts = _parts(message, function)
    except ValueError as error:
        if isinstance(error, InputValidationError):
            raise
        raise bad_message(index, f"its content cannot be read: {error}") from error
    return _content_with([_own(message)], role, parts)


def _kept_messages(content: types.Content) -> list[ChatMessage] | None:
    """The messages that a content was made of, if they are still what the content says."""
    messages = content._messages if isinstance(content, MessageContent) else []  # pyright: ignore[reportPrivateUsage]
    parts: list[types.Part] = []
    for message in messages:
        found = _result_in(content, len(parts))
        role, more = _parts(message, (found.name if found is not None else None) or UNKNOWN_FUNCTION)
        if role != content.role:
            return None
        parts += more
    return _own(messages) if messages and same_data(parts, content.parts) else None


def _result_in(content: types.Content, at: int) -> types.FunctionResponse | None:
    """The result in one part of a content."""
    parts = content.parts or []
    return parts[at].function_response if at < len(parts) else None


class _Origin:
    """A content, and the messages that were made of it."""

    __slots__ = ("content", "messages")

    def __init__(self, content: types.Content, messages: list[ChatMessage]) -> None:
        self.content = content
        self.messages = messages


class _KeptMessage(dict[str, Any]):
    """A message that remembers the content that it was made of."""

    __slots__ = ("origin", "place")

    origin: _Origin
    place: int


def remembering(content: types.Content, messages: list[ChatMessage]) -> list[ChatMessage]:
    """`messages`, which say what `content` says, so that `messages_to_contents` makes that content of them."""
    try:
        origin = _Origin(copy_content(content), _own(messages))
    except RecursionError:
        return messages
    kept: list[Any] = []
    for place, message in enumerate(messages):
        new = _KeptMessage(message)
        new.origin = origin
        new.place = place
        kept.append(new)
    return kept


def _kept_content(messages: list[ChatMessage], at: int) -> _Origin | None:
    """What the messages from here on were made of, if they are all there and still say it."""
    first: object = messages[at]
    if not isinstance(first, _KeptMessage):
        return None
    origin = first.origin
    found: list[object] = [*messages[at : at + len(origin.messages)]]
    if len(found) != len(origin.messages):
        return None
    for place, (message, made) in enumerate(zip(found, origin.messages, strict=True)):
        if not isinstance(message, _KeptMessage) or message.origin is not origin or message.place != place:
            return None
        if not same_data(dict(message), made):
            return None
    return origin


def _own(value: Any) -> Any:
    """JSON data with its own dicts and lists."""
    if isinstance(value, dict):
        return {key: _own(item) for key, item in cast(Json, value).items()}
    if isinstance(value, list):
        return [_own(item) for item in cast(list[Any], value)]
    return value


def same_data(one: Any, other: Any) -> bool:
    """Whether two values are written the same: 1, 1.0 and True are not, NaN is. For any depth."""
    pairs = [(one, other)]
    while pairs:
        mine, theirs = pairs.pop()
        if mine is theirs:
            continue
        if type(mine) is not type(theirs):
            return False
        if isinstance(mine, BaseModel):
            fields = fields_of(cast(BaseModel, theirs))
            pairs += [(value, fields[name]) for name, value in fields_of(mine).items() if value is not fields[name]]
        elif isinstance(mine, dict):
            if list(cast(Json, mine)) != list(theirs):
                return False
            pairs += zip(cast(Json, mine).values(), theirs.values(), strict=True)
        elif isinstance(mine, list):
            if len(cast(list[Any], mine)) != len(theirs):
                return False
            pairs += zip(cast(list[Any], mine), theirs, strict=True)
        elif repr(mine) != repr(theirs) if isinstance(mine, float) else mine != theirs:
            return False
    return True

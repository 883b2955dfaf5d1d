"""What a service of chat messages is asked, to and from `LlmRequest`s."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, cast

from google.genai import types
from pydantic import ValidationError

from flowloom.errors import InputValidationError, UnsupportedFeatureError, closest_first, quoted_list
from flowloom.events.parts import content_of
from flowloom.interop.chat_contents import MessageContent, messages_to_contents, written_messages
from flowloom.interop.chat_messages import ChatMessage, LLMServiceOptions, ToolChoice
from flowloom.models.contents import SharedContents
from flowloom.models.request import DeclaredTool, LlmRequest
from flowloom.models.turns import legal_contents, spoken_contents
from flowloom.objects.given import several
from flowloom.providers.openai_chat import answer_settings
from flowloom.providers.sdk_request import (
    DROPPED_OR_REFUSED,
    Drop,
    Treatment,
    calling_mode,
    check_form,
    check_settings,
    functions_of,
    refuse_server_tools,
    system_texts,
    unsupported,
)
from flowloom.tools.function_tool import FunctionTool
from flowloom.tools.placeholder import PlaceholderTool

Json = dict[str, Any]

# -- from options ----------------------------------------------------------------------------------

_SAME = ("temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty")
_HERE = (
    "messages model tools tool_choice stream max_tokens max_completion_tokens stop response_format reasoning_effort n "
    "logprobs top_logprobs"
).split()
_DROPPED = (
    "logit_bias metadata parallel_tool_calls prediction prompt_cache_key safety_identifier service_tier store "
    "stream_options user verbosity"
).split()
_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768}
_NO_INSTRUCTION = ("system", "developer")


def request_of(options: LLMServiceOptions, drop: Drop) -> LlmRequest:
    """The request for a model. `drop` is told of the options that are left out.

    Raises `ChatMessageError` for messages, `InputValidationError` for options that are not of the form they have to
    have, and `UnsupportedFeatureError` for options that a request has no words for.
    """
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputValidationError(f"The options of a service are a dict with `messages`, not {options!r:.80}.")
    given = {name: value for name, value in cast(Json, options).items() if value is not None}
    _check(given, drop)
    request = LlmRequest.empty(given.get("model"))
    request.config = _config(given)
    _fill_contents(request, messages_to_contents(given.get("messages", ())))
    wanted = several(given.get("tools", ()), "The option `tools` is a list of tools.")
    tools = [_tool(number, each, drop) for number, each in enumerate(wanted)]
    if tools:
        request.append_tools(tools)
    if (choice := given.get("tool_choice")) is not None:
        request.config.tool_config = _tool_config(choice, [tool.name for tool in tools])
    return request


def _check(given: Json, drop: Drop) -> None:
    if "messages" not in given:
        raise InputValidationError("The options have no `messages`.")
    for name, value in given.items():
        if name in _DROPPED:
            drop(name)
        elif name not in _HERE and name not in _SAME:
            closest = closest_first(name, (*_HERE, *_SAME))[0]
            raise _unsupported(name, f"is no option that is known; the closest is `{closest}`")
        elif name == "n" and value != 1:
            raise _unsupported(name, "asks for several answers, and there is one")


def _unsupported(field: str, why: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(f"The service cannot be asked that: `{field}` {why}.", field=field)


def _config(given: Json) -> types.GenerateContentConfig:
    values = {name: given[name] for name in _SAME if name in given}
    limit = given.get("max_completion_tokens", given.get("max_tokens"))
    if limit is not None:
        values["max_output_tokens"] = limit
    if given.get("logprobs"):
        values["response_logprobs"] = True
        values["logprobs"] = given.get("top_logprobs")
    if (stop := given.get("stop")) is not None:
        values["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if (effort := given.get("reasoning_effort")) is not None:
        if effort not in _BUDGETS:
            raise InputValidationError(
                f"The option `reasoning_effort` is {effort!r}; there are {quoted_list(_BUDGETS)}."
            )
        values["thinking_config"] = types.ThinkingConfig(thinking_budget=_BUDGETS[effort])
    values.update(_format(given.get("response_format")))
    try:
        return types.GenerateContentConfig(**values)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        texts = "; ".join(f"`{'.'.join(map(str, each['loc']))}`: {each['msg']}" for each in problems)
        raise InputValidationError(f"The options are not usable: {texts}.") from error


def _format(given: Any) -> Json:
    """The settings for a `response_format`."""
    form: Json = cast(Json, given) if isinstance(given, dict) else {"type": given}
    kind: Any = form.get("type")
    if kind in (None, "text"):
        return {}
    if kind == "json_object":
        return {"response_mime_type": "application/json"}
    schema: Any = form.get("json_schema")
    if kind == "json_schema" and isinstance(schema, dict) and "schema" in schema:
        return {"response_mime_type": "application/json", "response_json_schema": schema["schema"]}
    raise InputValidationError(
        f"The option `response_format` is {given!r}; it has the type `text`, `json_object`, or `json_schema` with a "
        f"schema in `json_schema.schema`."
    )


def _fill_contents(request: LlmRequest, contents: list[types.Content]) -> None:
    """System messages at the start are the instruction, those further on are said by the user, in their places."""
    start = 0
    while start < len(contents) and contents[start].role in _NO_INSTRUCTION:
        parts = contents[start].parts or []
        if any(part.text is None for part in parts):
            raise _unsupported(f"messages[{start}].content", "holds something other than text in an instruction")
        request.append_instructions("".join(part.text or "" for part in parts))
        start += 1
    request.contents = list(_turns(contents[start:]))


def _turns(contents: list[types.Content]) -> Iterator[types.Content]:
    """The contents as models take them: no empty ones, and the results of several tools in one."""
    results: list[MessageContent] = []
    for content in contents:
        if isinstance(content, MessageContent) and content.is_result:
            results.append(content)
            continue
        if results:
            yield MessageContent.joined(results)
            results = []
        parts = content.parts or []
        said = [part for part in parts if part.text != "" or part.thought_signature is not None]
        if said:
            role = "user" if content.role in _NO_INSTRUCTION else content.role
            yield content if len(said) == len(parts) and role == content.role else content_of(role, said)
    if results:
        yield MessageContent.joined(results)


def _tool(number: int, given: Any, drop: Drop) -> DeclaredTool:
    if hasattr(given, "declaration") and hasattr(given, "name"):
        return cast(DeclaredTool, given)
    if callable(given):
        return FunctionTool(cast(Callable[..., Any], given))
    place = f"tools[{number}]"
    if not isinstance(given, dict):
        raise InputValidationError(f"`{place}` is a {type(given).__name__}, and no tool.")
    tool = cast(Json, given)
    if tool.get("type") != "function":
        raise _unsupported(f"{place}.type", f"is {tool.get('type')!r}, and tools are functions here")
    function: Any = tool.get("function")
    if not isinstance(function, dict) or not isinstance(name := cast(Json, function).get("name"), str) or not name:
        raise InputValidationError(f"`{place}` has no `function` with a `name`.")
    declared = cast(Json, function)
    if declared.get("strict"):
        drop("tools[].function.strict")
    try:
        declaration = types.FunctionDeclaration(
            name=name, description=declared.get("description"), parameters_json_schema=declared.get("parameters")
        )
    except ValidationError as error:
        raise InputValidationError(f"`{place}.function` cannot be declared: {error}") from error
    return PlaceholderTool(declaration)


def _tool_config(choice: Any, tools: list[str]) -> types.ToolConfig:
    modes = {
        "auto": types.FunctionCallingConfigMode.AUTO,
        "none": types.FunctionCallingConfigMode.NONE,
        "required": types.FunctionCallingConfigMode.ANY,
    }
    if isinstance(choice, str) and choice in modes:
        return types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode=modes[choice]))
    named: Any = cast(Json, choice).get("function") if isinstance(choice, dict) else None
    name: Any = cast(Json, named).get("name") if isinstance(named, dict) else None
    if not isinstance(name, str):
        raise InputValidationError(
            f"The option `tool_choice` is {choice!r}; it is `auto`, `none`, `required`, or a tool by its name: "
            f'{{"type": "function", "function": {{"name": ...}}}}.'
        )
    if name not in tools:
        raise InputValidationError(
            f"The option `tool_choice` names the tool `{name}`; the tools are {quoted_list(tools)}."
        )
    calling = types.FunctionCallingConfig(mode=modes["required"], allowed_function_names=[name])
    return types.ToolConfig(function_calling_config=calling)


# -- to options ------------------------------------------------------------------------------------

_SENT = (
    "system_instruction temperature top_p max_output_tokens stop_sequences seed presence_penalty frequency_penalty "
    "response_mime_type response_schema response_json_schema response_modalities response_logprobs logprobs "
    "candidate_count tools tool_config thinking_config"
)
_LEFT_OUT = "http_options top_k service_tier store"
SETTINGS: Mapping[str, Treatment] = {
    **DROPPED_OR_REFUSED,
    **dict.fromkeys(_SENT.split(), "sent"),
    **dict.fromkeys(_LEFT_OUT.split(), "dropped"),
}
"""What becomes of a request's settings; those that are not named are refused."""


def options_of(request: LlmRequest, model: str, *, remembers: bool, drop: Drop) -> LLMServiceOptions:
    """What a service is asked for a request to `model`. `drop` is told of what is left out.

    A service that `remembers` gets back what messages do not hold (see `contents_to_messages`). Raises
    `UnsupportedFeatureError` for what options have no words for.
    """
    _check_settings(request, model, remembers, drop)
    config = cast(Any, request.config)
    options: Json = {"messages": _messages(request, model, remembers=remembers, drop=drop)}
    for name in ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty"):
        if (value := getattr(config, name)) is not None:
            options[name] = value
    if config.max_output_tokens is not None:
        options["max_tokens"] = config.max_output_tokens
    if config.stop_sequences:
        options["stop"] = list(config.stop_sequences)
    options.update(answer_settings(request, model, drop, openai=False))
    options.update(_tools(request, model))
    return cast(LLMServiceOptions, options)


def _check_settings(request: LlmRequest, model: str, remembers: bool, drop: Drop) -> None:
    config = cast(Any, request.config)
    check_settings(request, model, SETTINGS, drop, why="is nothing that chat messages know")
    check_form(request, model)
    if config.response_logprobs and not remembers:
        raise unsupported(model, "config.response_logprobs", "asks for what the answers of services do not hold")
    if config.candidate_count not in (None, 1):
        raise unsupported(model, "config.candidate_count", "asks for several answers")


def _messages(request: LlmRequest, model: str, *, remembers: bool, drop: Drop) -> list[ChatMessage]:
    given = request.contents
    system = "\n\n".join(system_texts(request, model))
    first: list[ChatMessage] = [{"role": "system", "content": system}] if system else []
    if remembers:
        plain = given.plain() if isinstance(given, SharedContents) else given
        return [*first, *written_messages(plain, lambda _: None)]
    written = written_messages(legal_contents(spoken_contents(request)), drop, legal=True)
    return [*first, *filter(_says_something, map(_joined, written))]


def _says_something(message: ChatMessage) -> bool:
    return bool(message.get("content") or message.get("tool_calls")) or message["role"] in ("tool", "function")


def _joined(message: ChatMessage) -> ChatMessage:
    """The same without empty texts, and with the assistant's texts in one: many servers take no list from it."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    items = [item for item in content if item["type"] != "text" or item["text"]]
    texts = [item["text"] for item in items if item["type"] == "text"]
    if len(texts) == len(items) and (len(texts) < 2 or message["role"] == "assistant"):
        return {**message, "content": "".join(texts)}
    return message if len(items) == len(content) else {**message, "content": items}


def _tools(request: LlmRequest, model: str) -> Json:
    refuse_server_tools(request, model, "is one that the provider would have to run, which this service cannot ask for")
    functions = functions_of(request, model)
    if not functions:
        return {}
    wanted = calling_mode(request)
    if wanted is not None and len(wanted.names) > 1:
        functions = [function for function in functions if function.name in wanted.names]
    declared: list[Json] = []
    for function in functions:
        fields: Json = {"name": function.name}
        if function.description is not None:
            fields["description"] = function.description
        if function.parameters is not None:
            fields["parameters"] = function.parameters
        declared.append({"type": "function", "function": fields})
    if wanted is None:
        return {"tools": declared}
    modes: dict[str, Literal["auto", "required", "none"]] = {"auto": "auto", "any": "required", "none": "none"}
    choice: ToolChoice = modes[wanted.mode]
    if len(wanted.names) == 1 and choice == "required":
        choice = {"type": "function", "function": {"name": wanted.names[0]}}
    return {"tools": declared, "tool_choice": choice}

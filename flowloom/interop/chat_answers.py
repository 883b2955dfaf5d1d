"""What a service of chat messages answers, from and to `LlmResponse`s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NotRequired, Self, TypedDict, cast

from google.genai import types

from flowloom.errors import FlowloomError, ModelResponseError
from flowloom.events.parts import call_part, call_piece, content_of, parts_of, text_part
from flowloom.events.response import LlmResponse
from flowloom.events.wire import make, replace
from flowloom.interop.chat_contents import UNKNOWN_FUNCTION, Json, remembering, same_data, tool_call
from flowloom.interop.chat_messages import ChatMessage, ToolCall, is_valid_tool_call
from flowloom.models.partial_args import PartialArgs, arguments_of
from flowloom.providers.sdk_answers import minted_id, usage_of, with_metadata
from flowloom.providers.sdk_request import code_text

_FILTERED = (
    "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION "
    "MODEL_ARMOR JAILBREAK"
).split()
_FINISH = {"STOP": "stop", "MAX_TOKENS": "length", **dict.fromkeys(_FILTERED, "content_filter")}
_REASONS = {
    "stop": types.FinishReason.STOP,
    "tool_calls": types.FinishReason.STOP,
    "function_call": types.FinishReason.STOP,
    "length": types.FinishReason.MAX_TOKENS,
    "content_filter": types.FinishReason.SAFETY,
}


class PromptTokens(TypedDict, total=False):
    """What is in `prompt_tokens`."""

    cached_tokens: int


class CompletionTokens(TypedDict, total=False):
    """What is in `completion_tokens`."""

    reasoning_tokens: int


class TokenUsage(TypedDict):
    """Token counts as OpenAI gives them: thoughts are part of `completion_tokens`."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: NotRequired[PromptTokens]
    completion_tokens_details: NotRequired[CompletionTokens]


@dataclass(frozen=True, slots=True)
class AgentResponse:
    """What an `LLMService` answers; of a stream, a piece of it (`partial`) or, as the last, the whole.

    The texts of the pieces joined are those of the whole. So are, by the ids of the calls, their `arguments`: each
    piece of a call has its id and name.

    `content` is the text, None where there is none; `tool_calls` are the calls of tools that the model makes; `usage`
    counts the tokens, if the provider has told them.
    """

    content: str | None = None
    tool_calls: Sequence[ToolCall] = ()
    finish_reason: str | None = None
    """Why the model stopped: `stop`, `tool_calls`, `length`, `content_filter`, or another word. None for a piece."""
    usage: TokenUsage | None = None
    model: str | None = None
    """The model that answered, as its provider calls it."""
    reasoning: str | None = None
    """What the model thought."""
    partial: bool = False
    response: LlmResponse | None = field(default=None, init=False, repr=False, compare=False)
    """The response that it was made of, with all that is not here; None if it was not made by an `LlmService`, or
    was changed with `dataclasses.replace`."""

    @property
    def message(self) -> ChatMessage:
        """The answer as a message, to go behind those that were sent. It remembers thoughts and signatures."""
        message: ChatMessage = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [{**call, "function": {**call["function"]}} for call in self.tool_calls]
        if self.response is not None and self.response.content is not None:
            [message] = remembering(self.response.content, [message])
        return message

    def made_of(self, response: LlmResponse) -> Self:
        """The same, with `response` to remember."""
        object.__setattr__(self, "response", response)
        return self


# -- from responses --------------------------------------------------------------------------------


class AnswerWriter:
    """Makes the answers of one call: `piece` for each partial response, `whole` for the complete one."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._minted: list[str] = []
        self._shown = 0
        self._open: dict[str, PartialArgs] = {}
        self._texts: dict[str, list[str]] = {}
        """The JSON text of calls that came in pieces, by their ids."""

    def piece(self, response: LlmResponse) -> AgentResponse | None:
        """A partial response as an answer; None if it says nothing. Raises `ModelError` for one that reports one."""
        _raise_error(response, self._model)
        response, self._shown = self._with_ids(response, self._shown)
        calls = [call for each in response.get_function_calls() if (call := self._call_piece(each)) is not None]
        text, thoughts = _texts_of(response)
        if not (text or thoughts or calls):
            return None
        return AgentResponse(text, calls, reasoning=thoughts, partial=True).made_of(response)

    def whole(self, response: LlmResponse) -> AgentResponse:
        """A complete response as an answer. Raises `ModelError` for one that reports one."""
        _raise_error(response, self._model)
        response, _ = self._with_ids(response, 0)
        calls = [self._call(each) for each in response.get_function_calls()]
        text, thoughts = _texts_of(response)
        return AgentResponse(
            text, calls, _finish_of(response), _usage_of(response), response.model_version, thoughts
        ).made_of(response)

    def _with_ids(self, response: LlmResponse, at: int) -> tuple[LlmResponse, int]:
        """The response with ids for its calls: a call has the same one in its partial response and the complete one."""
        if all(call.id or call.partial_args or call.will_continue for call in response.get_function_calls()):
            return response, at
        parts: list[types.Part] = []
        content = cast(types.Content, response.content)
        for part in content.parts or ():
            if (call := part.function_call) is not None and not call.id:
                if at == len(self._minted):
                    self._minted.append(minted_id())
                part = replace(part, function_call=replace(call, id=self._minted[at]))
                at += 1
            parts.append(part)
        return replace(response, content=content_of(content.role, parts)), at

    def _call(self, call: types.FunctionCall) -> ToolCall:
        made = tool_call(call.id or "", call)
        text = "".join(self._texts.get(call.id or "", ()))
        if text and same_data(arguments_of(text), call.args or {}):
            made["function"]["arguments"] = text
        return made

    def _call_piece(self, call: types.FunctionCall) -> ToolCall | None:
        """What a partial response shows of a call; None where that is no text yet, or it is not known of which call."""
        call_id = call.id or ""
        if not call_id:
            return None
        pieces = call.partial_args or []
        if not (pieces or call.will_continue or call_id in self._open):
            return self._noted(tool_call(call_id, call)) if call.name else None
        args = self._open.setdefault(call_id, PartialArgs())
        if call.args:
            args.merge(call.args)
        for each in pieces:
            args.apply(each)
        written = [each.string_value for each in pieces if each.json_path == "$" and each.string_value is not None]
        function = {"name": call.name or UNKNOWN_FUNCTION}
        if len(written) == len(pieces) and (written or call_id in self._texts) and not call.args:
            text = "".join(written)
        elif call.will_continue:
            return None
        else:
            del self._open[call_id]
            whole = types.FunctionCall(name=call.name, args=args.result())
            return self._noted(tool_call(call_id, whole))
        return self._noted(
            cast(ToolCall, {"id": call_id, "type": "function", "function": {**function, "arguments": text}})
        )

    def _noted(self, call: ToolCall) -> ToolCall:
        self._texts.setdefault(call["id"], []).append(call["function"]["arguments"])
        return call


def _texts_of(response: LlmResponse) -> tuple[str | None, str | None]:
    """Answer and thoughts of a response, each None if there is nothing."""
    texts: list[str] = []
    thoughts: list[str] = []
    for part in parts_of(response.content):
        text = part.text if part.text is not None else code_text(part)
        if text:
            (thoughts if part.thought else texts).append(text)
    return "".join(texts) or None, "".join(thoughts) or None


def _finish_of(response: LlmResponse) -> str:
    reason = response.finish_reason.value if response.finish_reason is not None else response.error_code or "STOP"
    if reason == "STOP" and response.get_function_calls():
        return "tool_calls"
    return _FINISH.get(reason, reason.lower())


def _raise_error(response: LlmResponse, model: str) -> None:
    """Raise the failure that a response reports. An answer that the provider held back is none, nor one cut short."""
    if isinstance(response.error, FlowloomError):
        raise response.error
    code = response.error_code
    if response.error is None and (code is None or code in _FINISH or code in types.FinishReason.__members__):
        return
    raise ModelResponseError(
        f"The model `{model}` reported an error ({code or 'no code'}): "
        f"{response.error_message or response.error or 'no reason was given'}",
        model=model,
        code=code,
    ) from response.error


def _usage_of(response: LlmResponse) -> TokenUsage | None:
    counted = response.usage_metadata
    if counted is None:
        return None
    prompt = (counted.prompt_token_count or 0) + (counted.tool_use_prompt_token_count or 0)
    output = (counted.candidates_token_count or 0) + (counted.thoughts_token_count or 0)
    total = counted.total_token_count
    usage: TokenUsage = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output if total is None else total,
    }
    if counted.cached_content_token_count:
        usage["prompt_tokens_details"] = {"cached_tokens": counted.cached_content_token_count}
    if counted.thoughts_token_count:
        usage["completion_tokens_details"] = {"reasoning_tokens": counted.thoughts_token_count}
    return usage


# -- to responses ----------------------------------------------------------------------------------


def partial_response(answer: AgentResponse, model: str) -> LlmResponse:
    """A piece of an answer as a partial response. Raises `ModelResponseError` for texts that are none."""
    if answer.response is not None:
        return answer.response
    parts = _texts(answer, model)
    for call in answer.tool_calls:
        if is_valid_tool_call(call) and call["id"]:  # a piece without an id belongs to no call that is known
            function = call["function"]
            parts.append(call_piece(call["id"], function["name"], function["arguments"], more=True))
    return make(LlmResponse, content=content_of("model", parts), partial=True)


def complete_response(answer: AgentResponse, model: str) -> LlmResponse:
    """A whole answer as a response. Raises `ModelResponseError` for texts and tool calls that are none."""
    if answer.response is not None:
        return answer.response
    parts = _texts(answer, model)
    for number, call in enumerate(answer.tool_calls):
        if not is_valid_tool_call(call):
            raise _unreadable(f"`tool_calls[{number}]` is no tool call", call, model)
        called = call["function"]
        parts.append(call_part(call["id"] or minted_id(), called["name"], arguments_of(called["arguments"])))
    metadata: Json = {"model_version": answer.model}
    if answer.usage is not None:
        metadata["usage_metadata"] = _counts(answer.usage)
    return with_metadata(content_of("model", parts), _reason_of(answer.finish_reason), metadata)


def _texts(answer: AgentResponse, model: str) -> list[types.Part]:
    parts: list[types.Part] = []
    for name, thought in (("reasoning", True), ("content", None)):
        text: Any = getattr(answer, name)
        if text is not None and not isinstance(text, str):
            raise _unreadable(f"`{name}` is no text", text, model)
        if text:
            parts.append(text_part(text, thought=thought))
    return parts


def _unreadable(problem: str, value: object, model: str) -> ModelResponseError:
    return ModelResponseError(
        f"The answer of the service behind the model `{model}` could not be read: {problem}: {value!r}", model=model
    )


def _reason_of(finish: str | None) -> types.FinishReason:
    if finish is None:
        return types.FinishReason.STOP
    known = types.FinishReason.__members__.get(finish.upper(), types.FinishReason.OTHER)
    return _REASONS.get(finish, known)


def _counts(usage: TokenUsage) -> types.GenerateContentResponseUsageMetadata:
    return usage_of(
        prompt=usage.get("prompt_tokens"),
        output=usage.get("completion_tokens"),
        total=usage.get("total_tokens"),
        cached=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        thoughts=(usage.get("completion_tokens_details") or {}).get("reasoning_tokens"),
    )

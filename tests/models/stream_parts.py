"""Chunks of model streams, and what an aggregator makes of them, in few words."""

from __future__ import annotations

from typing import Any

from google.genai import types

from flowloom.events import LlmResponse
from flowloom.models.aggregator import StreamingAggregator

Part = types.Part


def chunk(*parts: Part, finish: str | None = None, **fields: Any) -> types.GenerateContentResponse:
    candidate = {
        name: fields.pop(name) for name in list(fields) if name in types.Candidate.model_fields and name != "content"
    }
    return types.GenerateContentResponse(
        candidates=[
            types.Candidate(
                content=types.Content(role="model", parts=list(parts)) if parts else None,
                finish_reason=types.FinishReason(finish) if finish else None,
                **candidate,
            )
        ],
        **fields,
    )


def call_part(
    name: str | None = None,
    *,
    id: str | None = None,
    args: dict[str, Any] | None = None,
    partial: list[tuple[str, Any]] | None = None,
    go_on: bool | None = None,
    signature: bytes | None = None,
) -> Part:
    """A function call, or a piece of one: `partial` are JSON paths with their values."""
    return Part(
        function_call=types.FunctionCall(
            id=id,
            name=name,
            args=args,
            partial_args=None if partial is None else [partial_arg(path, value) for path, value in partial],
            will_continue=go_on,
        ),
        thought_signature=signature,
    )


def partial_arg(path: str | None, value: Any) -> types.PartialArg:
    if value is None:
        return types.PartialArg(json_path=path, null_value="NULL_VALUE")
    if isinstance(value, bool):
        return types.PartialArg(json_path=path, bool_value=value)
    if isinstance(value, str):
        return types.PartialArg(json_path=path, string_value=value)
    return types.PartialArg(json_path=path, number_value=value)


def run(*chunks: types.GenerateContentResponse) -> tuple[list[LlmResponse], LlmResponse]:
    aggregator = StreamingAggregator()
    partials = [partial for one in chunks for partial in aggregator.feed(one)]
    complete = aggregator.close()
    assert complete is not None
    return partials, complete


def parts_of(*chunks: types.GenerateContentResponse) -> list[Part]:
    complete = run(*chunks)[1]
    assert complete.content is not None
    assert complete.content.role == "model"
    return complete.content.parts or []


def args_of(*partials: tuple[str, Any]) -> dict[str, Any]:
    """The arguments of a call whose partial arguments are these."""
    parts = parts_of(chunk(call_part("f", partial=list(partials))))
    assert parts[0].function_call is not None
    return parts[0].function_call.args or {}


def shape(parts: list[Part]) -> list[Any]:
    return [part.text if part.function_call is None else part.function_call.name for part in parts]

"""Asking a person for free-form input: from within a tool, and as a tool of the model's (spec §18.10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.genai import types

from flowloom.context import Context, InvocationContext
from flowloom.events.actions import InputRequest
from flowloom.events.event import Event
from flowloom.events.ids import INPUT_ID_PREFIX
from flowloom.events.parts import call_part
from flowloom.events.requests import INPUT_CALL
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.request_record import request_event


def input_event(ctx: InvocationContext, call_parts: Sequence[types.Part], results: Event) -> Event | None:
    """What tools ask a person for, one call for each call that asked, in call order; None if none asked."""
    requested = results.actions.requested_inputs
    if not requested:
        return None
    calls = [part.function_call for part in call_parts if part.function_call is not None]
    asked = [(call, requested[call.id]) for call in calls if call.id in requested]
    return request_of(ctx, asked) if asked else None


def request_of(ctx: InvocationContext, asked: Sequence[tuple[types.FunctionCall, InputRequest]]) -> Event:
    """The event by which calls ask for input."""
    parts: list[types.Part] = []
    subjects: dict[str, types.FunctionCall] = {}
    for call, request in asked:
        request_id = INPUT_ID_PREFIX + ctx.effects.new_id(ctx)
        subjects[request_id] = call
        args = {
            "interruptId": request_id,
            "message": request.message,
            "payload": request.payload,
            "response_schema": request.response_schema,
            "originalFunctionCall": call.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        parts.append(call_part(request_id, INPUT_CALL, args))
    return request_event(ctx, parts, subjects)


class RequestInputTool(BaseTool):
    """Lets a model ask the user a question, and wait for the answer, as any tool may ask."""

    asks_people = True
    """It may have the name that is reserved for it."""

    def __init__(self) -> None:
        super().__init__(
            name=INPUT_CALL,
            description="Ask the user a question and wait for the answer. Use it when you cannot go on without knowing "
            "something.",
        )

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema={
                "type": "object",
                "properties": {
                    "message": {"type": "string", "description": "The question."},
                    "response_schema": {"type": "object", "description": "A JSON schema that the answer has to fit."},
                },
                "required": ["message"],
            },
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """The user's answer, once it is there. One that does not fit the `response_schema` is asked for again."""
        schema: Any = args.get("response_schema") or None
        return tool_context.request_input(str(args.get("message") or ""), response_schema=schema)


request_input = RequestInputTool()

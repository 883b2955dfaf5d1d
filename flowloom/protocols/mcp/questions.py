"""What a server asks in the middle of a call, and how a person or the agent's model answers (protocols spec §1).

Elicitation pauses the run like any tool that asks for input. Sampling needs leave: of a person for each prompt, or of
the program once (`sampling="auto"`).
"""

from __future__ import annotations

import base64
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import mcp_types as mcp
from google.genai import types

from flowloom.context import Context
from flowloom.errors import ConfirmationRequiredError, InputRequiredError, ToolError
from flowloom.events.parts import parts_of
from flowloom.models.request import LlmRequest
from flowloom.processors.model_choice import model_of
from flowloom.protocols.mcp.asked import FORM, decided
from flowloom.protocols.mcp.calls import OpenCall, Question
from flowloom.protocols.mcp.links import link_config
from flowloom.protocols.words import cleaned

if TYPE_CHECKING:
    from flowloom.protocols.mcp.tool_host import ToolHost

_log = logging.getLogger("flowloom.mcp")


class Answers:
    """The answers to what is asked in one call, whose place is `context`; `parked` is the call if it was kept open."""

    def __init__(self, toolset: ToolHost, context: Context, parked: OpenCall | None) -> None:
        self._toolset, self._context = toolset, context
        taken = set[str]() if parked is None else parked.prompts
        self._decided = [each for each in decided(context) if each.request_id not in taken]
        for _ in range(0 if parked is None else parked.asked):
            context.request_input("")  # what was answered before, and is with the server

    async def to(self, question: Question, call: OpenCall) -> Any:
        """The answer to a question. Raises what pauses the run if a person has to be asked."""
        if question.kind == "sampling":
            return await self._sampled(question.params, call)
        answer = self._elicited(question.params)
        if isinstance(question.params, mcp.ElicitRequestFormParams):
            call.asked += 1
        return answer

    async def to_request(self, request: Any, call: OpenCall) -> Any:
        """The answer to a request in the result of a `call` of the newer era, as the protocol has it."""
        if isinstance(request, mcp.ListRootsRequest):
            return mcp.ListRootsResult(roots=[mcp.Root(uri=cast(Any, uri)) for uri in self._toolset.roots])
        kind = "elicitation" if isinstance(request, mcp.ElicitRequest) else "sampling"
        question = Question(kind, request.params)
        if kind not in self._toolset.offers:
            raise ToolError(f"The server at {self._toolset.address} asks for {kind}, which it was not offered.")
        answer = await self._toolset.answered(question, None)
        if answer is None:
            answer = await self.to(question, call)
        if isinstance(answer, mcp.ErrorData):
            raise ToolError(f"What the server at {self._toolset.address} asked was refused: {answer.message}")
        return answer

    # -- elicitation ------------------------------------------------------------------------------

    def _elicited(self, params: Any) -> mcp.ElicitResult:
        message = cleaned(params.message)
        if isinstance(params, mcp.ElicitRequestURLParams):
            return self._sent_to(params, message)
        schema = cast(dict[str, Any], params.requested_schema)
        value = self._context.request_input(message, response_schema=_asked_schema(schema))
        if value is None:
            return mcp.ElicitResult(action="cancel")
        if value is False:
            return mcp.ElicitResult(action="decline")
        given = cast(dict[str, Any], value) if isinstance(value, dict) else {}
        return mcp.ElicitResult(action="accept", content={**_defaults(schema), **given})

    def _sent_to(self, params: mcp.ElicitRequestURLParams, message: str) -> mcp.ElicitResult:
        """A page that a person has to visit: its address is shown, and never fetched here."""
        config = link_config(params.url, params.elicitation_id or params.url)
        keyring = self._context.invocation_context.run.keyring
        given = keyring.given(config.credential_key, self._context.function_call_id)
        if given is None:
            self._context.request_credential(config)
            raise InputRequiredError(f"The call waits until the user has visited a page: {message}")
        return mcp.ElicitResult(action="accept" if given.answer.response else "decline")

    # -- sampling ---------------------------------------------------------------------------------

    async def _sampled(
        self, params: mcp.CreateMessageRequestParams, call: OpenCall
    ) -> mcp.CreateMessageResult | mcp.ErrorData:
        if self._toolset.sampling is not True:
            return await self._model_says(params)
        shown = params.model_dump(mode="json", by_alias=True, exclude_none=True, include=set(_SHOWN))
        found = next((each for each in self._decided if each.payload == shown), None)
        if found is None:
            self._context.request_confirmation(
                hint=f"The server at {self._toolset.address} wants the model to answer this prompt.", payload=shown
            )
            raise ConfirmationRequiredError("The call waits for a person's leave to ask the model.")
        self._decided.remove(found)
        call.prompts.add(found.request_id)
        if not found.decision.confirmed:
            return mcp.ErrorData(code=-1, message="User rejected sampling request")
        return await self._model_says(params)

    async def _model_says(self, params: mcp.CreateMessageRequestParams) -> mcp.CreateMessageResult:
        """The answer of the agent's model to a prompt: without tools, and without the conversation."""
        ctx = self._context.inside
        model = model_of(ctx)
        config = types.GenerateContentConfig(
            system_instruction=params.system_prompt,
            temperature=params.temperature,
            max_output_tokens=params.max_tokens,
            stop_sequences=params.stop_sequences,
        )
        request = LlmRequest(model=model.model, contents=[_content(each) for each in params.messages], config=config)
        totals = ctx.run.totals
        totals.count_model_call(ctx)
        text, reason = "", "endTurn"
        async with aclosing(cast(Any, ctx.effects.call_model(ctx, model, request, False))) as responses:
            async for response in responses:
                if response.usage_metadata is not None and not response.partial:
                    totals.count_tokens(response.usage_metadata, ctx.llm_agent)
                if response.error_code:
                    raise ToolError(f"The model gave no answer to the server's prompt: {response.error_code}.")
                parts = parts_of(response.content)
                text = "".join(part.text for part in parts if part.text and not part.thought)
                if response.finish_reason == types.FinishReason.MAX_TOKENS:
                    reason = "maxTokens"
        return mcp.CreateMessageResult(
            role="assistant",
            content=mcp.TextContent(type="text", text=text),
            model=model.model,
            stop_reason=reason,
        )


_SHOWN = ("messages", "system_prompt", "max_tokens", "temperature", "stop_sequences")


def _asked_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The form that a person fills in: what has a default may be left out."""
    properties: dict[str, Any] = schema.get("properties") or {}
    defaults = _defaults(schema)
    required = [name for name in schema.get("required") or () if name not in defaults]
    return {**schema, "type": [*FORM], "properties": properties, "required": required}


def _defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """What is filled into a form where a person says nothing."""
    properties: dict[str, Any] = schema.get("properties") or {}
    return {name: each["default"] for name, each in properties.items() if isinstance(each, dict) and "default" in each}


def _content(message: mcp.SamplingMessage) -> types.Content:
    given: Any = message.content
    blocks = cast(list[Any], given if isinstance(given, list) else [given])
    parts: list[types.Part] = []
    for block in blocks:
        if isinstance(block, mcp.TextContent):
            parts.append(types.Part(text=block.text))
        elif isinstance(block, mcp.ImageContent | mcp.AudioContent):
            data = base64.b64decode(block.data)
            parts.append(types.Part(inline_data=types.Blob(data=data, mime_type=block.mime_type)))
    return types.Content(role="model" if message.role == "assistant" else "user", parts=parts)

"""One model call with its callbacks (spec §12)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from google.genai import types

from flowloom.context import Context, InvocationContext
from flowloom.context.hooks import Callbacks, ask
from flowloom.context.origin import no_events, note_origin
from flowloom.errors import CallbackError, LimitExceededError
from flowloom.events.event import Event
from flowloom.events.json_data import json_arguments
from flowloom.events.response import LlmResponse
from flowloom.events.wire import fields_of, replace
from flowloom.flow.given_ids import GivenIds, mark_of
from flowloom.flow.observed import StepsOfTurn
from flowloom.flow.paid import Paid, with_paid
from flowloom.flow.pipeline import Step
from flowloom.models.base_llm import BaseLlm, as_response, is_silent, mark_if_empty
from flowloom.models.request import Dropped, LlmRequest, Origin
from flowloom.processors.model_choice import model_of
from flowloom.processors.output_schema import needs_response_tool

if TYPE_CHECKING:
    from flowloom.telemetry import ModelSpan, Recorder

ONLY_THOUGHTS = "MODEL_RETURNED_ONLY_THOUGHTS"


class ModelCall:
    """A call from the before-callbacks to the last response; nothing is asked before a response is.

    `steps` are the processors of the turn.

    The order: plugin, then agent callbacks before; the wrappers and the model; for each response, or the error,
    the on-error callbacks, call ids, plugin, then agent callbacks after. The first callback that answers wins.
    """

    has_calls: bool
    """Whether the latest event is complete and asks for tools to be run."""
    response_steps: tuple[Step, ...]
    """The processors that the latest response goes through."""
    _model: BaseLlm
    """The model, once the call has begun."""

    def __init__(self, ctx: InvocationContext, request: LlmRequest, spans: Recorder | None, steps: StepsOfTurn) -> None:
        callbacks, hooks = ctx.callbacks, ctx.run.hooks
        self._ctx = ctx
        self._request = request
        self._around = callbacks.around_model
        self._before: Callbacks = hooks.before_model + callbacks.before_model
        self._after: Callbacks = hooks.after_model + callbacks.after_model
        self._steps = steps
        self._spans = spans
        self._begun = False
        self._responses: AsyncIterator[LlmResponse] | None = None
        """Those of the model, while they are read."""
        self._context: Context | None = None
        self._ids: GivenIds | None = None
        self._given = False
        """Whether a response has said anything."""
        self._said = False
        """Whether a complete one has."""
        self._asked = False
        """Whether a wrapper has listened to the model."""
        self._paid: Paid | None = None
        self._dropped = Dropped()
        """What models around others have paid for, and not given out."""
        self._span: ModelSpan | None = None

    @property
    def context(self) -> Context:
        """What the callbacks are given; what they write goes onto the complete event."""
        if self._context is None:
            self._context = Context(self._ctx)
        return self._context

    async def next_response(self, reached: LimitExceededError | None) -> LlmResponse | None:
        """The next response, as the flow may use it; None when there is none left.

        If a limit was `reached` before, the model is asked to sum up, and the call does not count. Raises what no
        callback recovers from, and when a limit forbids the call.
        """
        if not self._begun and (ready := await self._begin(reached)) is not None:
            return ready
        responses = self._responses
        if responses is None:
            return None
        try:
            response = as_response(await responses.__anext__(), self._model.model)
            if (response.usage_metadata is not None or self._paid is not None) and not self._around:
                self._note_paid(response)
        except StopAsyncIteration:
            if self._given:
                return None
            response, self._responses = LlmResponse(), None  # a silent model is heard, too (decision 3)
        except Exception as error:
            self._responses = None
            note_origin(error, self._ctx, f"model `{self._model.model}`", self._around)
            await self._end(responses)
            response = await self._recover(error)
        response = self._heard(self._with_ids(response, {}), last=self._responses is None)
        return await self._answered_after(response) if self._after else response

    async def _begin(self, reached: LimitExceededError | None) -> LlmResponse | None:
        """Ask the callbacks before the model, and without an answer of theirs the model."""
        self._begun, ctx = True, self._ctx
        ctx.answer_id = None
        self._model = model_of(ctx)
        if reached is not None:
            _ask_to_summarise(ctx, self._request, reached)
        if self._before:
            ready = await self._ask("before_model", self._before, llm_request=self._request)
            if ready is not None:
                return mark_if_empty(self._with_ids(ready, {}))
        if reached is None:
            ctx.run.totals.count_model_call(ctx)
        self._responses = self._start()
        return None

    async def close(self) -> None:
        """End the call, wherever it stands: the model's stream is closed."""
        try:
            await self._end(self._responses)
        finally:
            if self._paid is not None:
                self._paid.count_rest(self._ctx.run.totals, self._ctx.llm_agent)

    def _start(self) -> AsyncIterator[LlmResponse]:
        """The responses of the model, through the wrappers."""
        call_next: Callable[..., AsyncIterator[LlmResponse]] = self._call
        try:
            for wrapper in reversed(self._around):
                call_next = partial(_wrapped, wrapper, call_next, self.context)
            return call_next(self._request)
        except Exception as error:
            note_origin(error, self._ctx, f"model `{self._model.model}`", self._around)
            raise

    def _call(self, request: LlmRequest) -> AsyncIterator[LlmResponse]:
        ctx, run, model = self._ctx, self._ctx.run, self._model
        request.hand_over(Origin(ctx.agent.name, ctx.step, self._dropped))
        for observer in run.observers:
            observer.model_asked(ctx, model, request)
        responses = run.effects.call_model(ctx, model, request, run.streaming)
        if not hasattr(responses, "__anext__"):
            raise no_events(responses, f"`generate_content_async` of model `{model.model}`", "LlmResponse")
        if self._spans is not None:
            if self._span is not None:
                self._span.end()  # a wrapper calls again
            self._span = self._spans.start_model(ctx, model, request)
            responses = self._span.watch(responses)
        return self._noted(responses) if self._around else responses

    async def _noted(self, responses: AsyncIterator[LlmResponse]) -> AsyncGenerator[LlmResponse, None]:
        """The responses as wrappers are given them, which may drop them: what they cost is noted before."""
        answer_id, streamed = self._ctx.answer_id, self._ctx.run.streamed
        if self._asked and answer_id is not None and streamed is not None:  # a wrapper asks again
            streamed.restart(answer_id)
            if self._ids is not None:
                self._ids.restart()
        self._asked = True
        try:
            async for response in responses:
                self._note_paid(as_response(response, self._model.model))
                yield response
        finally:
            if self._paid is not None:
                self._paid.break_off()
            if (close := getattr(responses, "aclose", None)) is not None:
                await close()

    def _heard(self, response: LlmResponse, *, last: bool) -> LlmResponse:
        """A response as it is told of. One that says nothing is an error, unless others of the call say something, or
        may: one without a reason to finish waits for them, if it is not the last."""
        if self._paid is not None and not response.partial:
            response = self._paid.told_by(response)
        marked = mark_if_empty(response)
        if marked is not response and (self._said or not (last or response.finish_reason)):
            return replace(response, content=None)
        if not is_silent(marked):
            self._given, self._said = True, self._said or not response.partial
        return marked

    async def _answered_after(self, response: LlmResponse) -> LlmResponse:
        """What the after-callbacks make of a response."""
        silent = is_silent(response)
        answer = await self._ask("after_model", self._after, llm_response=response)
        if answer is not None:
            if response.partial and answer.partial is None:
                answer = replace(answer, partial=True)
            own = {call.id or "": mark_of(call.name, call.args) for call in response.get_function_calls()}
            response = self._with_ids(with_paid(answer, response), own)
        if silent and is_silent(response):
            return response
        self._given = True
        return mark_if_empty(response)

    def _note_paid(self, response: LlmResponse) -> None:
        self._paid = self._paid or Paid()
        self._paid.note(response)

    async def _end(self, responses: AsyncIterator[LlmResponse] | None) -> None:
        """End the call of the model, wherever it stands."""
        try:
            if (close := getattr(responses, "aclose", None)) is not None:
                await close()
        finally:
            if self._span is not None:
                self._span.end()
            if self._paid is not None:
                self._paid.break_off()
            while self._dropped:
                self._note_paid(self._dropped.pop(0))

    async def _recover(self, error: Exception) -> LlmResponse:
        """Ask the on-error callbacks for a response in the error's place; without one, the error is raised."""
        callbacks = (*self._ctx.run.hooks.on_model_error, *self._ctx.callbacks.on_model_error)
        answer = await self._ask("on_model_error", callbacks, llm_request=self._request, error=error)
        if answer is None:
            raise error
        return answer

    async def _ask(self, hook: str, callbacks: Callbacks, **arguments: Any) -> LlmResponse | None:
        arguments["callback_context"] = self.context
        for callback in callbacks:
            answer = await ask(callback, arguments)
            if isinstance(answer, LlmResponse):
                return answer
            if answer is not None:
                raise CallbackError(
                    f"`{hook}` of agent `{self._ctx.agent.name}` ({callback!r}) answered {type(answer).__name__}. It "
                    f"may answer an LlmResponse, or None."
                )
        return None

    def _with_ids(self, response: LlmResponse, own: Mapping[str, str]) -> LlmResponse:
        """The response with an id on every function call that no other call of the session has.

        A model's id stays, unless an earlier call has it. The same call has the same id in partials and at the end,
        and in what a callback makes of a response with its `own` calls (what they say by their ids). Arguments are
        made JSON here, before anybody else sees them (`json_arguments`).
        """
        content = given = response.content
        has_calls, self.response_steps = False, self._steps.response
        for part in (given and given.parts) or ():
            if part.function_call is not None:
                has_calls = True
            elif part.inline_data is not None:
                self.response_steps = self._steps.files
        if given is not None and has_calls:
            content = self._with_named_calls(response, given, own)
        written_to = (self.response_steps or self._after) and not response.partial  # and a model may give it twice
        return replace(response, content=content) if written_to or content is not given else response

    def _with_named_calls(self, response: LlmResponse, content: types.Content, own: Mapping[str, str]) -> types.Content:
        """The content of a response with calls, each under its id; the content itself if it is that already."""
        ids = self._ids = self._ids or GivenIds(self._ctx)
        unused = {**own}
        parts: list[types.Part] = []
        changed = False
        for part in content.parts:  # pyright: ignore[reportOptionalIterable] - it has some, as its caller knows
            call = part.function_call
            if call is not None:
                args = json_arguments(call.args)
                if call.id not in own:
                    call_id = ids.id_for(call, args, unused, partial=response.partial)
                elif call.id in unused:
                    del unused[call.id]
                    call_id = call.id
                else:
                    call_id = ids.new()
                if call_id != call.id or args is not call.args:
                    changed = True
                    part = replace(part, function_call=replace(call, id=call_id, args=args))
            parts.append(part)
        return replace(content, parts=parts) if changed else content

    def event(self, response: LlmResponse) -> Event | None:
        """The event of a response (spec §13), None if nothing is left in it to say; what callbacks wrote goes onto the
        complete one."""
        content, partial = response.content, response.partial
        self.has_calls = False
        silent = is_silent(response)
        if response.usage_metadata is not None and not partial:
            self.count(response.usage_metadata, response.searches)
        values = {} if partial else self._collected(silent)
        if silent and not values:
            return None
        if content is not None and (parts := content.parts):
            for part in parts:
                call = part.function_call
                if call is not None:
                    self.has_calls = not partial
                    if self._is_long_running(call.name):
                        values.setdefault("long_running_tool_ids", []).append(call.id)
            if not content.role:
                values["content"] = replace(content, role="model")
        event = self._ctx.response_event(response, values)
        if self._span is not None:
            self._span.responded(event)
        return event

    def _collected(self, silent: bool) -> dict[str, Any]:
        """What callbacks wrote, for the event of a complete response; a `silent` one has one only for that, and only
        if no other response of the call can take it over."""
        if self._context is None or (silent and not self._said):
            return {}
        actions, self._context = self._context.collect_actions(), None
        return {"actions": actions} if any(fields_of(actions).values()) else {}

    def told_by(self, event: Event, response: LlmResponse) -> Event:
        """An event of a response processor: one in the place of the response says what that was paid for, too."""
        usage = response.usage_metadata
        if usage is None or response.partial or event.partial or event.content is None:
            return event
        if event.usage_metadata is None and response.content is None and not (response.error_code or event.error_code):
            event = with_paid(event, response)
        if event.usage_metadata is usage:  # and no further event says it
            self.count(usage, response.searches)
            response.usage_metadata = None
        return event

    def count(self, usage: types.GenerateContentResponseUsageMetadata, searches: int) -> None:
        """Count the tokens and searches of a complete response."""
        self._ctx.run.totals.count_tokens(usage, self._ctx.llm_agent, searches)

    def _is_long_running(self, name: str | None) -> bool:
        """Whether a call goes on after the turn."""
        tool = self._request.tools_dict.get(name)  # type: ignore[arg-type]
        return tool is not None and tool.is_long_running


def _ask_to_summarise(ctx: InvocationContext, request: LlmRequest, limit: LimitExceededError) -> None:
    """Make a request the last one of an agent that reached a limit: no tools, and the instruction to sum up.

    What would have been answered by a tool, because of an output schema, is answered as text of that form.
    """
    request.tools_dict.clear()
    request.config.tools = request.config.tool_config = request.server_tools = None
    agent = ctx.llm_agent
    if agent is not None and needs_response_tool(ctx, agent):
        request.set_output_schema(agent.output_schema)
    request.append_instructions(
        f"The limit `{limit.limit}` is reached: no tool can be called any more, whatever is said above. Answer now "
        f"from what you have: sum up what is done, and say what is not."
    )


def _wrapped(wrapper: Any, call_next: Any, context: Context, request: LlmRequest) -> AsyncIterator[LlmResponse]:
    return wrapper(call_next=call_next, callback_context=context, llm_request=request)


def is_thought_only(event: Event) -> bool:
    """Whether a complete event holds thoughts and nothing else (spec §1.4); the model is then asked again."""
    if event.partial or (content := event.content) is None or not (parts := content.parts):
        return False
    for part in parts:  # noqa: SIM110 - a generator costs more than the look
        if not part.thought:
            return False
    return True

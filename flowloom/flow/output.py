"""What an agent's final answer comes to: kept under its output key, refused if it does not fit its output schema, and
then asked for again (spec §10, §13.4; decisions 11 and 18)."""

from __future__ import annotations

from functools import partial
from typing import Any

from flowloom.context import InvocationContext
from flowloom.context.protocols import AnyLlmAgent
from flowloom.errors import ModelResponseError, ToolArgumentsError
from flowloom.events.event import UNFIT_OUTPUT, Event
from flowloom.events.wire import replace
from flowloom.flow.model_call import is_thought_only
from flowloom.models.base_llm import NO_CONTENT
from flowloom.processors.model_choice import model_of
from flowloom.processors.output_schema import schema_of

_LONGEST_QUOTE = 500
"""How many characters of an answer an error repeats."""


def keep_answer(ctx: InvocationContext, agent: AnyLlmAgent, event: Event) -> Event:
    """The event with the agent's final answer in the state, under `output_key`; marked if the answer does not fit.

    Only final, non-empty text counts, and with an output schema only what fits it; results that are shown as they are
    end the turn in any case. What an agent in mode `task` says is for the user: its answer is that of `finish_task`.
    """
    if event.author != agent.name or not event.is_final_response() or event.actions.requested_tool_confirmations:
        return event
    output: Any = event.text
    if agent.output_schema is None:
        if not output.strip():
            return event
    elif agent.mode == "task" or event.long_running_tool_ids:
        return event
    elif not event.error_code and (event.content is None or is_thought_only(event)):
        return event  # after thoughts the model is asked again without more ado
    else:
        schema = schema_of(agent)
        read = partial(schema.read_text, output)
        try:
            output = schema.parse(output)
        except ToolArgumentsError as error:
            return event if event.actions.skip_summarization else _marked(event, str(error))
        ctx.run.outputs = {**(ctx.run.outputs or {}), event.id: read}
    if not agent.output_key:
        return event
    delta = {**event.actions.state_delta, agent.output_key: output}
    return replace(event, actions=replace(event.actions, state_delta=delta))


def _marked(event: Event, wrong: str) -> Event:
    if event.error_code:
        wrong = f"{wrong} The model ended it with {event.error_code}: {event.error_message or 'no reason given'}."
    return replace(event, custom_metadata={**(event.custom_metadata or {}), UNFIT_OUTPUT: wrong})


def can_be_asked_again(ctx: InvocationContext, agent: AnyLlmAgent, last: Event, refusals: int) -> bool:
    """Whether the model is asked for another answer, as the `last` does not fit: not if it was asked often enough (that
    was its `refusals`-th such answer), nor if nothing is left to mend."""
    failed = last.error_code not in (None, NO_CONTENT) and not last.text.strip()
    return not (refusals > agent.output_retries or failed or ctx.end_invocation)


def no_answer(ctx: InvocationContext, agent: AnyLlmAgent, refusals: int, wrong: str, last: Event | None) -> Exception:
    """The error of a turn that has come to no structured answer, the `last` one quoted."""
    what = "finished its task with no result" if agent.mode == "task" else "gave no answer"
    tries = f" in {refusals} tries" if refusals > 1 else ""
    said = "" if last is None or not last.text.strip() else f" The answer was: {last.text[:_LONGEST_QUOTE]}"
    return ModelResponseError(
        f"Agent `{agent.name}` {what} that fits its output schema{tries}. {wrong}{said}", model=model_of(ctx).model
    )

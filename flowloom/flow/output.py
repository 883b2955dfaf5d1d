"""What an agent's final answer comes to: kept under its output key, refused if it does not fit its output schema, and
then asked for again (spec §10, §13.4; decisions 11 and 18)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from flowloom.errors import ModelResponseError, ToolArgumentsError
from flowloom.events.event import UNFIT_OUTPUT, Event
from flowloom.events.wire import replace
from flowloom.flow.model_call import NO_CONTENT, is_thought_only
from flowloom.processors.model_choice import model_of
from flowloom.processors.output_schema import refusal_in, retry_event, schema_of

if TYPE_CHECKING:
    from flowloom.flow.frame import Frame

_LONGEST_QUOTE = 500
"""How many characters of an answer an error repeats."""


def keep_answer(frame: Frame, event: Event) -> Event:
    """The event with the agent's final answer in the state, under `output_key`; marked if the answer does not fit.

    Only final, non-empty text counts, and with an output schema only what fits it. What an agent in mode `task` says is
    for the user: its answer is that of `finish_task`.
    """
    agent = frame.llm
    if agent is None or not (agent.output_key or frame.structured) or event.author != agent.name:
        return event
    if not event.is_final_response():
        return event
    output: Any = event.text
    if agent.output_schema is None:
        if not output.strip():
            return event
    elif agent.mode == "task" or event.long_running_tool_ids or (event.content is None and not event.error_code):
        return event
    elif is_thought_only(event) and not event.error_code:
        return event  # the model is asked again without more ado
    else:
        schema = schema_of(agent)
        read = partial(schema.read_text, output)
        try:
            output = schema.parse(output)
        except ToolArgumentsError as error:
            return _marked(event, str(error))
        run = frame.ctx.run
        run.outputs = {**(run.outputs or {}), event.id: read}
    if not agent.output_key:
        return event
    new, actions = replace(event), replace(event.actions)
    vars(actions)["state_delta"] = {**actions.state_delta, agent.output_key: output}
    vars(new)["actions"] = actions
    return new


def _marked(event: Event, wrong: str) -> Event:
    if event.error_code:
        wrong = f"{wrong} The model ended it with {event.error_code}: {event.error_message or 'no reason given'}."
    return replace(event, custom_metadata={**(event.custom_metadata or {}), UNFIT_OUTPUT: wrong})


def note_answer(frame: Frame, event: Event) -> None:
    """Take an event of an agent into account that has to give a structured answer."""
    wrong = refusal_in(event)
    if wrong is not None:
        frame.unfit, frame.refusals = wrong, frame.refusals + 1


def ask_again(frame: Frame) -> Event | None:
    """After a step whose answer does not fit: the message that says so, unless a result of the model's call does.

    Raises `ModelResponseError` when the model was asked often enough, or nothing is left that it could mend.
    """
    agent, last, wrong = frame.llm, frame.last, frame.unfit
    if agent is None or wrong is None:
        return None
    told = last is None or UNFIT_OUTPUT not in (last.custom_metadata or ())
    failed = last is not None and last.error_code not in (None, NO_CONTENT) and not last.text.strip()
    ended = failed or frame.landing is not None or frame.ctx.end_invocation
    if frame.refusals <= agent.output_retries and not ended:
        return None if told or last is None else retry_event(frame.ctx, last)
    said = "" if last is None or not last.text.strip() else f" The answer was: {last.text[:_LONGEST_QUOTE]}"
    give_up(frame, f"{wrong}{said}")
    return None


def give_up(frame: Frame, wrong: str) -> None:
    """End a turn that has come to no structured answer: whoever called the agent is told, else the run fails."""
    agent = frame.llm
    assert agent is not None
    what = "finished its task with no result" if agent.mode == "task" else "gave no answer"
    tries = f" in {frame.refusals} tries" if frame.refusals > 1 else ""
    error = ModelResponseError(
        f"Agent `{agent.name}` {what} that fits its output schema{tries}. {wrong}", model=model_of(frame.ctx).model
    )
    if frame.task is None:
        raise error
    frame.finished, frame.failure = True, str(error)

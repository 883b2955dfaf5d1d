"""One line for each step of a run, on Python's loggers, at DEBUG; no content unless its capture is on (decision 26).

`flowloom.flow` tells what was asked of a model, `flowloom.models` what came of it, `flowloom.tools` what the tools
gave, `flowloom.sessions` what was stored.
"""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Any

from flowloom.context import InvocationContext
from flowloom.context.observer import Observer, ProcessorCall
from flowloom.events.event import Event
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest
from flowloom.telemetry.content import as_json, content_captured

_all = logging.getLogger("flowloom")
_flow, _models, _tools, _sessions = (
    logging.getLogger(f"flowloom.{name}") for name in ("flow", "models", "tools", "sessions")
)


def step_logs() -> tuple[Observer, ...]:
    """What writes the lines of one run; nothing if no logger wants them, so that the run pays nothing."""
    if not (_flow.level or _models.level or _tools.level or _sessions.level or _all.isEnabledFor(logging.DEBUG)):
        return ()  # at a glance: this is asked for every run
    wanted = any(logger.isEnabledFor(logging.DEBUG) for logger in (_flow, _models, _tools, _sessions))
    return (_StepLog(),) if wanted else ()


class _StepLog(Observer):
    """Writes the lines of one run."""

    def __init__(self) -> None:
        self._processing: dict[str, float] = {}
        """Seconds that the processors of the step took, by agent path and branch."""
        self._since: dict[str, float] = {}
        """When the model was asked, or the calls were made."""

    def processor_finished(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        if call.response is None:
            place = _place(ctx)
            self._processing[place] = self._processing.get(place, 0.0) + call.seconds

    def model_asked(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> None:
        place = _place(ctx)
        self._since[place] = perf_counter()
        _flow.debug(
            "%s: model `%s` is asked, with %d contents and %d tools; the request took %.1f ms.%s",
            _where(ctx),
            model.model,
            len(request.contents),
            len(request.tools_dict),
            self._processing.pop(place, 0.0) * 1000,
            _content(request.contents[-1:]),
        )

    def event_recorded(self, ctx: InvocationContext, event: Event) -> None:
        if event.partial:
            return
        answers = event.get_function_responses()
        if event.author == ctx.agent.name and answers:
            self._tools_answered(ctx, event)
        elif event.author == ctx.agent.name and (event.content is not None or event.error_code):
            self._model_answered(ctx, event)
        _sessions.debug("%s: event %s of `%s` is in session `%s`.", _where(ctx), event.id, event.author, ctx.session.id)

    def _model_answered(self, ctx: InvocationContext, event: Event) -> None:
        place = _place(ctx)
        since = self._since.pop(place, None)
        if since is None:
            return  # no model was asked for it
        self._since[place] = now = perf_counter()
        usage = event.usage_metadata
        _models.debug(
            "%s: %s after %.1f ms, %s tokens in, %s out, %d calls.%s",
            _where(ctx),
            event.error_code or getattr(event.finish_reason, "value", None) or "an answer",
            (now - since) * 1000,
            "?" if usage is None else usage.prompt_token_count,
            "?" if usage is None else usage.candidates_token_count,
            len(event.get_function_calls()),
            _content(event.content),
        )

    def _tools_answered(self, ctx: InvocationContext, event: Event) -> None:
        since = self._since.pop(_place(ctx), None)
        took = "" if since is None else f" after {(perf_counter() - since) * 1000:.1f} ms"
        told = [
            f"`{answer.name}` failed" if "error" in (answer.response or ()) else f"`{answer.name}` gave a result"
            for answer in event.get_function_responses()
        ]
        _tools.debug("%s: %s%s.%s", _where(ctx), ", ".join(told), took, _content(event.content))


def _place(ctx: InvocationContext) -> str:
    return f"{ctx.path} {ctx.branch}"


def _where(ctx: InvocationContext) -> str:
    return f"{ctx.invocation_id}, agent `{ctx.agent.name}`, step {ctx.step}"


def _content(value: Any) -> str:
    return f" {as_json(value)}" if content_captured() and value else ""

"""`explain_run`: the requests of a whole run, and how each of them came about."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from flowloom.agents import BaseAgent
from flowloom.artifacts import BaseArtifactService
from flowloom.context import DirectEffects, InvocationContext, RunConfig
from flowloom.events import LlmResponse
from flowloom.inspection.assembly import Assembly, ModelReached, Tracing, rehearse
from flowloom.inspection.explanation import Rehearsal, Said
from flowloom.inspection.guard import ModelGuard
from flowloom.memory import BaseMemoryService
from flowloom.models import BaseLlm, LlmRequest
from flowloom.plugins import BasePlugin
from flowloom.runner.app import App
from flowloom.runner.message import Message
from flowloom.sessions import Session
from flowloom.testing.scripted import Answer, ScriptedModel, ScriptExhaustedError


async def explain_run(
    agent: BaseAgent | App,
    message: Message | None,
    script: Iterable[Answer | list[LlmResponse]] | BaseLlm,
    *,
    session: Session | None = None,
    state: dict[str, Any] | None = None,
    history: Sequence[Said] | None = None,
    run_config: RunConfig | None = None,
    plugins: Sequence[BasePlugin] | None = None,
    artifact_service: BaseArtifactService | None = None,
    memory_service: BaseMemoryService | None = None,
) -> list[Assembly]:
    """Every request that `agent` and its sub-agents would send in answer to `message`, if the models said `script`.

    `script` is a list of answers as `ScriptedModel` takes them, for all models of the run in the order in which they
    are asked, or a model. When the script has no more answers the run ends: the last request is the one that would be
    answered next. The first is what `explain` gives, which tells of the other parameters: `session`, `state`,
    `history`, `run_config`, `plugins`, `artifact_service` and `memory_service`. Each says its `agent` and its `step`.

    It is a run on a copy of the session: no model is asked but the script, no telemetry is made, nothing is stored
    there. Unlike with `explain`, **tools are run**, with what they do elsewhere.

    Raises what the run raises.
    """
    tracing = Tracing(sent=False)
    runner = _Scripted(agent, tracing, session, state, history, plugins, artifact_service, memory_service)
    runner.script = script if isinstance(script, BaseLlm) else ScriptedModel(script)
    await rehearse(runner.answer(message, run_config))
    return tracing.assemblies


class _Scripted(Rehearsal):
    """A runner whose models are a script."""

    script: BaseLlm

    def make_context(self, *args: Any, **kwargs: Any) -> InvocationContext:
        ctx = super().make_context(*args, **kwargs)
        guards = [each for each in ctx.run.observers if isinstance(each, ModelGuard)]
        ctx.run.observers = tuple(each for each in ctx.run.observers if each not in guards)
        ctx.run.effects = _ScriptedEffects(self.script, guards)
        return ctx


class _ScriptedEffects(DirectEffects):
    """Asks the script, about which guards are told in the place of the agents' models."""

    def __init__(self, script: BaseLlm, guards: Sequence[ModelGuard]) -> None:
        self._script = script
        self._guards = guards

    async def call_model(
        self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest, stream: bool
    ) -> AsyncGenerator[LlmResponse, None]:
        for guard in self._guards:
            guard.model_asked(ctx, self._script, request)
        try:
            async with aclosing(self._script.generate_content_async(request, stream)) as responses:
                async for response in responses:
                    yield response
        except ScriptExhaustedError as error:
            raise ModelReached from error

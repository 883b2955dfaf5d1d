"""No test calls a hosted model by mistake. The pytest plugin loads this for every test, so it loads next to nothing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flowloom.context.observer import Observer, observing
from flowloom.errors import FlowloomError

if TYPE_CHECKING:
    from flowloom.context import InvocationContext
    from flowloom.models import BaseLlm, LlmRequest


class ModelRequestBlockedError(FlowloomError, AssertionError):
    """A run was about to call a hosted model where that is forbidden."""


class ModelGuard(Observer):
    """Forbids calls of hosted models, and remembers the attempts."""

    def __init__(self) -> None:
        self.blocked: list[ModelRequestBlockedError] = []
        """The calls that were not made. The error of one may have been caught on its way."""

    def model_asked(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> None:
        if not model.hosted:
            return
        error = ModelRequestBlockedError(
            f"Agent `{ctx.agent.name}` was about to call the hosted model `{request.model or model.model}`. In a test, "
            f"give it a `ScriptedModel` or a `RecordingModel`, or mark the test with `allow_model_requests` if the "
            f"call is meant."
        )
        self.blocked.append(error)
        raise error


@contextmanager
def block_model_requests() -> Generator[ModelGuard, None, None]:
    """Forbid calls of hosted models in all runs of this process that begin meanwhile; yields the guard.

    A call raises `ModelRequestBlockedError`, which names the agent. Models that answer from this machine (scripts,
    cassettes, servers on loopback) are not meant.
    """
    guard = ModelGuard()
    with observing(guard):
        yield guard

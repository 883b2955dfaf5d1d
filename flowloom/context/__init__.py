"""Contexts: where an agent stands in a run, what user code is given, and the effects on the world.

It imports `memory`, `sessions`, `log` and the rooms below; not what runs agents. Begin with `invocation.py`, then
`run.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.context.context import CallbackContext, Context, ReadonlyContext, ToolContext
    from flowloom.context.effects import DirectEffects, EffectKey
    from flowloom.context.hooks import FlowCallbacks
    from flowloom.context.invocation import InvocationContext
    from flowloom.context.observer import Observer, ProcessorCall, observing
    from flowloom.context.protocols import Effects
    from flowloom.context.run import Run
    from flowloom.context.run_config import Limits, RunConfig, StreamingMode, ToolThreadPoolConfig
    from flowloom.context.totals import Usage

_HOMES = {
    "hooks": "FlowCallbacks",
    "context": "CallbackContext Context ReadonlyContext ToolContext",
    "effects": "DirectEffects EffectKey",
    "invocation": "InvocationContext",
    "observer": "Observer ProcessorCall observing",
    "protocols": "Effects",
    "run": "Run",
    "run_config": "Limits RunConfig StreamingMode ToolThreadPoolConfig",
    "totals": "Usage",
}

__all__ = [
    "CallbackContext",
    "Context",
    "DirectEffects",
    "EffectKey",
    "Effects",
    "FlowCallbacks",
    "InvocationContext",
    "Limits",
    "Observer",
    "ProcessorCall",
    "ReadonlyContext",
    "Run",
    "RunConfig",
    "StreamingMode",
    "ToolContext",
    "ToolThreadPoolConfig",
    "Usage",
    "observing",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))

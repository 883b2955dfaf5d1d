"""Contexts: where an agent stands in a run, what user code is given, and the effects on the world."""

from flowloom.context.context import CallbackContext, Context, ReadonlyContext, ToolContext
from flowloom.context.effects import DirectEffects, EffectKey
from flowloom.context.invocation import InvocationContext
from flowloom.context.protocols import Effects
from flowloom.context.run import Run
from flowloom.context.run_config import Limits, RunConfig, StreamingMode, ToolThreadPoolConfig
from flowloom.context.totals import Usage
from flowloom.observer import Observer, ProcessorCall, observing

__all__ = [
    "CallbackContext",
    "Context",
    "DirectEffects",
    "EffectKey",
    "Effects",
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

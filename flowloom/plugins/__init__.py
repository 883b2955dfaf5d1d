"""Plugins: hooks over all runs of a runner.

It imports `agents` and the rooms below. Begin with `base_plugin.py`: the hooks there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use
from flowloom.plugins.base_plugin import BasePlugin
from flowloom.plugins.plugin_manager import PluginManager

if TYPE_CHECKING:
    from flowloom.plugins.logging_plugin import LoggingPlugin
    from flowloom.plugins.model_override import ModelOverride

_HOMES = {"logging_plugin": "LoggingPlugin", "model_override": "ModelOverride"}

__all__ = ["BasePlugin", "LoggingPlugin", "ModelOverride", "PluginManager"]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))

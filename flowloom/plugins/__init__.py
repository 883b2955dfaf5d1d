"""Plugins: hooks over all runs of a runner."""

from flowloom.plugins.base_plugin import BasePlugin
from flowloom.plugins.logging_plugin import LoggingPlugin
from flowloom.plugins.model_override import ModelOverride
from flowloom.plugins.plugin_manager import PluginManager

__all__ = ["BasePlugin", "LoggingPlugin", "ModelOverride", "PluginManager"]

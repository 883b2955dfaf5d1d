# made from table.py by tests/adk/stubs.py

from flowloom.plugins import BasePlugin
from flowloom.plugins import LoggingPlugin
from flowloom.plugins import PluginManager

__all__ = [
    "BasePlugin",
    "LoggingPlugin",
    "PluginManager",
]

# made from table.py by tests/adk/stubs.py

from flowloom.plugins import PluginManager

__all__ = [
    "PluginManager",
]

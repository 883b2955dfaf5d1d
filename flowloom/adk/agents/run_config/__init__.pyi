# made from table.py by tests/adk/stubs.py

from flowloom.context import RunConfig
from flowloom.context import StreamingMode
from flowloom.context import ToolThreadPoolConfig

__all__ = [
    "RunConfig",
    "StreamingMode",
    "ToolThreadPoolConfig",
]

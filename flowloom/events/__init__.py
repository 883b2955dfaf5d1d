"""Events: what a run yields and a session keeps.

It imports `objects` and `errors`. Begin with `event.py`; `wire.py` copies and makes models at the least cost.
"""

from flowloom.events.actions import (
    EventActions,
    EventCompaction,
    InputRequest,
    ToolConfirmation,
    deep_merge,
    merge_actions,
)
from flowloom.events.event import Event, NodeInfo
from flowloom.events.ids import CLIENT_CALL_PREFIX, new_id
from flowloom.events.response import LlmResponse

__all__ = [
    "CLIENT_CALL_PREFIX",
    "Event",
    "EventActions",
    "EventCompaction",
    "InputRequest",
    "LlmResponse",
    "NodeInfo",
    "ToolConfirmation",
    "deep_merge",
    "merge_actions",
    "new_id",
]

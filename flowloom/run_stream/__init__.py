"""A run as typed events for user interfaces.

It imports `log`, `auth` and the rooms below; nothing that runs agents. Begin with `mapper.py`; `records.py` has the
events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.run_stream.mapper import RunStreamMapper, run_stream_of
    from flowloom.run_stream.records import (
        AgentFinished,
        AgentStarted,
        AgentTransferred,
        ConfirmationRequested,
        CredentialRequested,
        ErrorReported,
        InputRequested,
        MessageCompleted,
        RequestAnswered,
        RunFailed,
        RunFinished,
        RunStarted,
        RunStatus,
        RunStreamEvent,
        StateChanged,
        TextDelta,
        ThoughtDelta,
        TokenUsage,
        ToolCallArgumentsCompleted,
        ToolCallArgumentsDelta,
        ToolCallFinished,
        ToolCallProgress,
        ToolCallStarted,
        UsageReported,
    )

_HOMES = {
    "mapper": "RunStreamMapper run_stream_of",
    "records": "AgentFinished AgentStarted AgentTransferred ConfirmationRequested CredentialRequested "
    "ErrorReported InputRequested MessageCompleted RequestAnswered RunFailed RunFinished "
    "RunStarted RunStatus RunStreamEvent StateChanged TextDelta ThoughtDelta TokenUsage "
    "ToolCallArgumentsCompleted ToolCallArgumentsDelta ToolCallFinished ToolCallProgress "
    "ToolCallStarted UsageReported",
}

__all__ = [
    "AgentFinished",
    "AgentStarted",
    "AgentTransferred",
    "ConfirmationRequested",
    "CredentialRequested",
    "ErrorReported",
    "InputRequested",
    "MessageCompleted",
    "RequestAnswered",
    "RunFailed",
    "RunFinished",
    "RunStarted",
    "RunStatus",
    "RunStreamEvent",
    "RunStreamMapper",
    "StateChanged",
    "TextDelta",
    "ThoughtDelta",
    "TokenUsage",
    "ToolCallArgumentsCompleted",
    "ToolCallArgumentsDelta",
    "ToolCallFinished",
    "ToolCallProgress",
    "ToolCallStarted",
    "UsageReported",
    "run_stream_of",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))

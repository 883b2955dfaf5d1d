"""What goes wrong with agents of other services."""

from __future__ import annotations

from flowloom.errors import FlowloomError


class RemoteAgentError(FlowloomError):
    """An agent of another service cannot be reached, is refused, or breaks its protocol; the text names the agent and
    its address."""


class RemoteAgentTimeoutError(RemoteAgentError, TimeoutError):
    """An agent of another service did not finish in time."""

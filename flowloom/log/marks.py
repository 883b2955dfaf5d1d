"""The keys of an event's `custom_metadata` by which the engine tells its own events apart."""

HOST_CALLS = "host_calls"
"""Says that the run stopped before the event's calls, which are the host's to answer (`RunConfig.pause_on_tool_calls`)
or else run when it goes on; it names those that wait for no other reason."""
AGENT_TOOL_CALL = "agent_tool_call_id"
"""Marks the events of agents that run as tools."""
AGENT_TOOL_PARTIAL = "agent_tool_partial"
"""Beside it on an event that is forwarded: whether it was partial before it was forwarded."""
RUN_ENDED = "run_ended"
"""Says how its run has ended: `failed`, `limit` or `cancelled`."""
AGENT_ENDED = "agent_ended"
"""Says that a `limit` of its agent has ended the agent's turn."""

"""flowloom: a fast, small, transparent flow engine for LLM agents.

What users of agents name can be imported from here, all else from its room, as `flowloom.run_stream` or
`flowloom.errors`. Nothing is loaded before it is used.
"""

from __future__ import annotations

from flowloom.objects.on_use import homes_of, loaded_on_use

__version__ = "0.1.0"

_HOMES = {
    "protocols.openapi": "OpenAPIToolset",
    "agents": "Agent BaseAgent LlmAgent LoopAgent ParallelAgent SequentialAgent WorkflowAgent",
    "runner": "App InMemoryRunner PendingCall ResumabilityConfig RunHandle RunResult Runner answers pending_calls",
    "context": "CallbackContext Context InvocationContext Limits ReadonlyContext RunConfig StreamingMode "
    "ToolContext Usage",
    "compaction": "EventsCompactionConfig",
    "events": "Event EventActions ToolConfirmation",
    "tools": "AgentTool AuthenticatedFunctionTool BaseTool BaseToolset FunctionTool "
    "LongRunningFunctionTool exit_loop load_artifacts load_memory preload_memory request_input "
    "transfer_to_agent",
    "auth": "AuthConfig AuthCredential AuthCredentialTypes InMemoryCredentialService OAuth2Auth",
    "models": "BaseLlm ContextCacheConfig Gemini LLMRegistry LlmRequest LlmResponse RetryOptions",
    "providers": "AnthropicModel OpenAIModel",
    "offline": "OfflineModel",
    "human": "HumanModel",
    "wrappers": "CachedModel FallbackModel LimitedModel RetryModel",
    "sessions": "BaseSessionService InMemorySessionService PostgresSessionService Session SqliteSessionService State",
    "artifacts": "BaseArtifactService FileArtifactService InMemoryArtifactService",
    "memory": "BaseMemoryService InMemoryMemoryService PostgresMemoryService SqliteMemoryService",
    "protocols.a2a": "RemoteA2aAgent",
    "flow": "Flow",
    "processors": "BuiltInCodeExecutor BuiltInPlanner LocalCodeExecutor PlanReActPlanner Template",
    "protocols.mcp": "McpToolset",
    "plugins": "BasePlugin LoggingPlugin",
    "inspection": "explain measure",
    "telemetry": "configure_telemetry",
    "errors": "ConfigurationError FlowloomError InputValidationError LimitExceededError ModelError "
    "SessionNotFoundError ToolError",
}
_home_of = homes_of(__name__, _HOMES)

__all__ = sorted(_home_of)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = loaded_on_use(__name__, _home_of)

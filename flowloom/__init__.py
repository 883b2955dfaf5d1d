"""flowloom: a fast, small, transparent flow engine for LLM agents.

Everything public can be imported from here. Nothing is loaded before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "agents": "Agent BaseAgent LlmAgent LoopAgent ParallelAgent SequentialAgent",
    "runner.app": "App ResumabilityConfig",
    "artifacts": "ArtifactVersion BaseArtifactService InMemoryArtifactService",
    "artifacts.files": "FileArtifactService",
    "auth": "AuthConfig AuthCredential AuthCredentialTypes AuthScheme BaseCredentialService HttpAuth HttpCredentials "
    "InMemoryCredentialService OAuth2Auth OAuthFlow OAuthFlows",
    "interop.chat_contents": "contents_to_messages messages_to_contents",
    "interop.chat_messages": "ChatMessage LLMServiceOptions ToolCall ToolChoice is_valid_chat_message "
    "is_valid_tool_call",
    "interop.chat_service": "AgentResponse LLMService LlmService ServiceModel",
    "interop.generate_content": "WireResponse request_from_json request_to_json response_from_json response_to_json",
    "interop.protobuf": "request_from_proto request_to_proto response_from_proto response_to_proto",
    "context": "CallbackContext Context DirectEffects EffectKey Effects InvocationContext Limits Observer "
    "ProcessorCall ReadonlyContext RunConfig StreamingMode ToolContext ToolThreadPoolConfig Usage observing",
    "context.hooks": "FlowCallbacks",
    "errors": "AgentNameError AgentNotFoundError AlreadyAnsweredError AlreadyExistsError AnswerError "
    "ArtifactNotFoundError CallbackError "
    "ChatMessageError ConfigurationError ConfirmationRejectedError ConfirmationRequiredError ContextError "
    "CredentialError "
    "DuplicateAgentError DuplicateToolError EventParseError EventStreamError FlowloomError Halt "
    "HistoryError IncompleteStreamError "
    "InputRequiredError InputValidationError InvocationNotFoundError JsonDataError LimitExceededError "
    "LlmCallsLimitExceededError MissingExtraError MissingVariableError ModelError ModelNotConfiguredError "
    "ModelNotFoundError ModelRateLimitError ModelRequestError ModelResponseError ModelStreamError "
    "ModelUnavailableError NotSupportedError PipelineError PlaceholderError ProcessorError "
    "RequestNotFoundError RequestOverError RunLostError SessionBusyError SessionNotFoundError StorageError "
    "TemplateError "
    "ToolArgumentsError "
    "ToolError ToolNotFoundError ToolResultError ToolSignatureError ToolTimeoutError UnfitAnswerError "
    "UnreadableAnswerError UnsupportedFeatureError",
    "events": "Event EventActions EventCompaction InputRequest LlmResponse NodeInfo ToolConfirmation",
    "client.handlers": "EventHandler create_event_handler",
    "interop.legacy": "from_legacy to_legacy",
    "interop.parsed": "ParsedEvent Source parse_event_sse",
    "client.sse": "EventStreamReader SseFrame",
    "client.store": "EventStore",
    "run_stream": "AgentFinished AgentStarted AgentTransferred ConfirmationRequested CredentialRequested "
    "ErrorReported InputRequested MessageCompleted RequestAnswered RunFailed RunFinished RunStarted RunStreamEvent "
    "RunStreamMapper StateChanged TextDelta ThoughtDelta TokenUsage ToolCallArgumentsCompleted ToolCallArgumentsDelta "
    "ToolCallFinished ToolCallProgress ToolCallStarted UsageReported run_stream_of",
    "compaction": "BaseEventsSummarizer EventsCompactionConfig LlmEventsSummarizer compact_session",
    "inspection.explanation": "explain",
    "flow": "Flow",
    "inspection.assembly": "Assembly AssemblyStep",
    "human": "FormField HumanModel HumanObserver ToolForm WaitingRequest",
    "memory": "BaseMemoryService InMemoryMemoryService MemoryEntry SearchMemoryResponse",
    "memory.postgres": "PostgresMemoryService",
    "memory.sqlite": "SqliteMemoryService",
    "models": "BaseLlm LLMRegistry LlmRequest",
    "models.aggregator": "StreamingAggregator",
    "providers.anthropic": "AnthropicModel",
    "models.gemini": "Gemini",
    "models.context_cache": "CacheMetadata ContextCacheConfig",
    "offline.model": "OfflineModel",
    "providers.openai": "OpenAIModel",
    "models.retry": "RetryOptions",
    "plugins": "BasePlugin LoggingPlugin ModelOverride PluginManager",
    "processors": "Contents Template inject_session_state",
    "processors.code_executors": "BaseCodeExecutor BuiltInCodeExecutor CodeExecutionInput CodeExecutionResult "
    "File LocalCodeExecutor",
    "runner.pending": "PendingCall answers pending_calls",
    "processors.compaction": "Compaction",
    "processors.context_cache": "ContextCaching",
    "processors.window": "DropToolPayloads KeepTurns TokenWindow",
    "processors.planners": "BasePlanner BuiltInPlanner PlanReActPlanner",
    "runner.handle": "RunHandle",
    "runner.result": "RunResult",
    "runner.runner": "InMemoryRunner RunArguments Runner",
    "sessions": "BaseSessionService GetSessionConfig InMemorySessionService ListSessionsResponse Session State Viewer "
    "visible",
    "interop.adk_sqlite": "AdkSqliteDatabase",
    "sessions.postgres": "PostgresSessionService",
    "sessions.sqlite": "SqliteSessionService",
    "telemetry": "ProcessorTimes configure_telemetry",
    "testing.explained": "explain_run",
    "tools": "AgentTool BaseTool BaseToolset FunctionTool LoadArtifactsTool LoadMemoryTool LongRunningFunctionTool "
    "PreloadMemoryTool TransferToAgentTool exit_loop load_artifacts load_memory preload_memory transfer_to_agent",
    "tools.authenticated": "AuthenticatedFunctionTool",
    "tools.input_request": "RequestInputTool request_input",
    "tools.placeholder": "PlaceholderTool",
    "inspection.profile": "CostChange ProcessorCost ProcessorProfile measure",
    "inspection": "Change Difference EventsView RequestDiff RequestView Section assert_prefix_extends diff",
    "wrappers": "CachedModel FallbackModel LimitedModel RetryModel",
}
_home_of = {name: f"flowloom.{module}" for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_home_of)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    home = _home_of.get(name)
    if home is None:
        raise AttributeError(f"module `flowloom` has no attribute `{name}`")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]

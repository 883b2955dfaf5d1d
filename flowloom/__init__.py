"""flowloom: a fast, small, transparent flow engine for LLM agents.

Everything public can be imported from here. Nothing is loaded before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "agents": "Agent BaseAgent LlmAgent LoopAgent ParallelAgent SequentialAgent",
    "apps": "App",
    "artifacts": "ArtifactVersion BaseArtifactService InMemoryArtifactService",
    "context": "CallbackContext Context DirectEffects EffectKey Effects InvocationContext Limits Observer "
    "ProcessorCall ReadonlyContext RunConfig StreamingMode ToolContext ToolThreadPoolConfig Usage observing",
    "context.hooks": "FlowCallbacks",
    "errors": "AgentNameError AgentNotFoundError AlreadyExistsError ArtifactNotFoundError CallbackError "
    "ConfigurationError ConfirmationRejectedError ConfirmationRequiredError ContextError DuplicateAgentError "
    "DuplicateToolError FlowloomError Halt HistoryError IncompleteStreamError InputValidationError "
    "LimitExceededError LlmCallsLimitExceededError MissingVariableError ModelError ModelNotConfiguredError "
    "ModelNotFoundError ModelRateLimitError ModelRequestError ModelResponseError ModelStreamError "
    "ModelUnavailableError NotSupportedError PipelineError ProcessorError SessionNotFoundError TemplateError "
    "ToolArgumentsError ToolError ToolNotFoundError ToolSignatureError ToolTimeoutError",
    "events": "Event EventActions EventCompaction LlmResponse NodeInfo ToolConfirmation",
    "explanation": "explain",
    "flow": "Assembly AssemblyStep Flow",
    "memory": "BaseMemoryService InMemoryMemoryService MemoryEntry SearchMemoryResponse",
    "models": "BaseLlm LLMRegistry LlmRequest",
    "models.aggregator": "StreamingAggregator",
    "models.gemini": "Gemini",
    "models.offline": "OfflineModel",
    "models.retry": "RetryOptions",
    "plugins": "BasePlugin ModelOverride PluginManager",
    "processors": "Contents Template inject_session_state",
    "processors.code_executors": "BaseCodeExecutor BuiltInCodeExecutor CodeExecutionInput CodeExecutionResult "
    "File LocalCodeExecutor",
    "processors.planners": "BasePlanner BuiltInPlanner PlanReActPlanner",
    "runner": "InMemoryRunner Runner",
    "sessions": "BaseSessionService GetSessionConfig InMemorySessionService ListSessionsResponse Session State Viewer "
    "visible",
    "telemetry": "ProcessorTimes configure_telemetry",
    "tools": "AgentTool BaseTool BaseToolset FunctionTool LoadArtifactsTool LoadMemoryTool LongRunningFunctionTool "
    "PreloadMemoryTool TransferToAgentTool exit_loop load_artifacts load_memory preload_memory transfer_to_agent",
    "profile": "CostChange ProcessorCost ProcessorProfile measure",
    "views": "Change Difference EventsView RequestDiff RequestView Section assert_prefix_extends diff",
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
    return [*globals(), *_home_of]

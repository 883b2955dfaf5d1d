"""The public names as type checkers see them; `__init__.py` loads the same on first use."""

from flowloom.agents import (
    Agent as Agent,
)
from flowloom.agents import (
    BaseAgent as BaseAgent,
)
from flowloom.agents import (
    LlmAgent as LlmAgent,
)
from flowloom.agents import (
    LoopAgent as LoopAgent,
)
from flowloom.agents import (
    ParallelAgent as ParallelAgent,
)
from flowloom.agents import (
    SequentialAgent as SequentialAgent,
)
from flowloom.apps import (
    App as App,
)
from flowloom.artifacts import (
    ArtifactVersion as ArtifactVersion,
)
from flowloom.artifacts import (
    BaseArtifactService as BaseArtifactService,
)
from flowloom.artifacts import (
    InMemoryArtifactService as InMemoryArtifactService,
)
from flowloom.context import (
    CallbackContext as CallbackContext,
)
from flowloom.context import (
    Context as Context,
)
from flowloom.context import (
    DirectEffects as DirectEffects,
)
from flowloom.context import (
    EffectKey as EffectKey,
)
from flowloom.context import (
    Effects as Effects,
)
from flowloom.context import (
    InvocationContext as InvocationContext,
)
from flowloom.context import (
    Limits as Limits,
)
from flowloom.context import (
    ReadonlyContext as ReadonlyContext,
)
from flowloom.context import (
    RunConfig as RunConfig,
)
from flowloom.context import (
    StreamingMode as StreamingMode,
)
from flowloom.context import (
    ToolContext as ToolContext,
)
from flowloom.context import (
    ToolThreadPoolConfig as ToolThreadPoolConfig,
)
from flowloom.context import (
    Usage as Usage,
)
from flowloom.context.hooks import FlowCallbacks as FlowCallbacks
from flowloom.errors import (
    AgentNameError as AgentNameError,
)
from flowloom.errors import (
    AgentNotFoundError as AgentNotFoundError,
)
from flowloom.errors import (
    AlreadyExistsError as AlreadyExistsError,
)
from flowloom.errors import (
    ArtifactNotFoundError as ArtifactNotFoundError,
)
from flowloom.errors import (
    CallbackError as CallbackError,
)
from flowloom.errors import (
    ConfigurationError as ConfigurationError,
)
from flowloom.errors import (
    ConfirmationRejectedError as ConfirmationRejectedError,
)
from flowloom.errors import (
    ConfirmationRequiredError as ConfirmationRequiredError,
)
from flowloom.errors import (
    ContextError as ContextError,
)
from flowloom.errors import (
    DuplicateAgentError as DuplicateAgentError,
)
from flowloom.errors import (
    DuplicateToolError as DuplicateToolError,
)
from flowloom.errors import (
    FlowloomError as FlowloomError,
)
from flowloom.errors import (
    Halt as Halt,
)
from flowloom.errors import (
    HistoryError as HistoryError,
)
from flowloom.errors import (
    IncompleteStreamError as IncompleteStreamError,
)
from flowloom.errors import (
    InputValidationError as InputValidationError,
)
from flowloom.errors import (
    LimitExceededError as LimitExceededError,
)
from flowloom.errors import (
    LlmCallsLimitExceededError as LlmCallsLimitExceededError,
)
from flowloom.errors import (
    MissingVariableError as MissingVariableError,
)
from flowloom.errors import (
    ModelError as ModelError,
)
from flowloom.errors import (
    ModelNotConfiguredError as ModelNotConfiguredError,
)
from flowloom.errors import (
    ModelNotFoundError as ModelNotFoundError,
)
from flowloom.errors import (
    ModelRateLimitError as ModelRateLimitError,
)
from flowloom.errors import (
    ModelRequestError as ModelRequestError,
)
from flowloom.errors import (
    ModelResponseError as ModelResponseError,
)
from flowloom.errors import (
    ModelStreamError as ModelStreamError,
)
from flowloom.errors import (
    ModelUnavailableError as ModelUnavailableError,
)
from flowloom.errors import (
    NotSupportedError as NotSupportedError,
)
from flowloom.errors import (
    PipelineError as PipelineError,
)
from flowloom.errors import (
    ProcessorError as ProcessorError,
)
from flowloom.errors import (
    SessionNotFoundError as SessionNotFoundError,
)
from flowloom.errors import (
    TemplateError as TemplateError,
)
from flowloom.errors import (
    ToolArgumentsError as ToolArgumentsError,
)
from flowloom.errors import (
    ToolError as ToolError,
)
from flowloom.errors import (
    ToolNotFoundError as ToolNotFoundError,
)
from flowloom.errors import (
    ToolSignatureError as ToolSignatureError,
)
from flowloom.errors import (
    ToolTimeoutError as ToolTimeoutError,
)
from flowloom.events import (
    Event as Event,
)
from flowloom.events import (
    EventActions as EventActions,
)
from flowloom.events import (
    EventCompaction as EventCompaction,
)
from flowloom.events import (
    LlmResponse as LlmResponse,
)
from flowloom.events import (
    NodeInfo as NodeInfo,
)
from flowloom.events import (
    ToolConfirmation as ToolConfirmation,
)
from flowloom.flow import (
    Assembly as Assembly,
)
from flowloom.flow import (
    AssemblyStep as AssemblyStep,
)
from flowloom.flow import (
    Flow as Flow,
)
from flowloom.memory import (
    BaseMemoryService as BaseMemoryService,
)
from flowloom.memory import (
    InMemoryMemoryService as InMemoryMemoryService,
)
from flowloom.memory import (
    MemoryEntry as MemoryEntry,
)
from flowloom.memory import (
    SearchMemoryResponse as SearchMemoryResponse,
)
from flowloom.models import (
    BaseLlm as BaseLlm,
)
from flowloom.models import (
    LLMRegistry as LLMRegistry,
)
from flowloom.models import (
    LlmRequest as LlmRequest,
)
from flowloom.models.aggregator import (
    StreamingAggregator as StreamingAggregator,
)
from flowloom.models.gemini import (
    Gemini as Gemini,
)
from flowloom.models.offline import (
    OfflineModel as OfflineModel,
)
from flowloom.models.retry import RetryOptions as RetryOptions
from flowloom.plugins import (
    BasePlugin as BasePlugin,
)
from flowloom.plugins import (
    PluginManager as PluginManager,
)
from flowloom.processors import (
    Contents as Contents,
)
from flowloom.processors import (
    Template as Template,
)
from flowloom.processors import (
    inject_session_state as inject_session_state,
)
from flowloom.processors.code_executors import (
    BaseCodeExecutor as BaseCodeExecutor,
)
from flowloom.processors.code_executors import (
    BuiltInCodeExecutor as BuiltInCodeExecutor,
)
from flowloom.processors.code_executors import (
    CodeExecutionInput as CodeExecutionInput,
)
from flowloom.processors.code_executors import (
    CodeExecutionResult as CodeExecutionResult,
)
from flowloom.processors.code_executors import File as File
from flowloom.processors.code_executors import (
    LocalCodeExecutor as LocalCodeExecutor,
)
from flowloom.processors.planners import (
    BasePlanner as BasePlanner,
)
from flowloom.processors.planners import (
    BuiltInPlanner as BuiltInPlanner,
)
from flowloom.processors.planners import (
    PlanReActPlanner as PlanReActPlanner,
)
from flowloom.runner import (
    InMemoryRunner as InMemoryRunner,
)
from flowloom.runner import (
    Runner as Runner,
)
from flowloom.sessions import (
    BaseSessionService as BaseSessionService,
)
from flowloom.sessions import (
    GetSessionConfig as GetSessionConfig,
)
from flowloom.sessions import (
    InMemorySessionService as InMemorySessionService,
)
from flowloom.sessions import (
    ListSessionsResponse as ListSessionsResponse,
)
from flowloom.sessions import (
    Session as Session,
)
from flowloom.sessions import (
    State as State,
)
from flowloom.sessions import (
    Viewer as Viewer,
)
from flowloom.sessions import (
    visible as visible,
)
from flowloom.telemetry import configure_telemetry as configure_telemetry
from flowloom.tools import (
    AgentTool as AgentTool,
)
from flowloom.tools import (
    BaseTool as BaseTool,
)
from flowloom.tools import (
    BaseToolset as BaseToolset,
)
from flowloom.tools import (
    FunctionTool as FunctionTool,
)
from flowloom.tools import (
    LoadArtifactsTool as LoadArtifactsTool,
)
from flowloom.tools import (
    LoadMemoryTool as LoadMemoryTool,
)
from flowloom.tools import (
    LongRunningFunctionTool as LongRunningFunctionTool,
)
from flowloom.tools import (
    PreloadMemoryTool as PreloadMemoryTool,
)
from flowloom.tools import (
    TransferToAgentTool as TransferToAgentTool,
)
from flowloom.tools import (
    exit_loop as exit_loop,
)
from flowloom.tools import (
    load_artifacts as load_artifacts,
)
from flowloom.tools import (
    load_memory as load_memory,
)
from flowloom.tools import (
    preload_memory as preload_memory,
)
from flowloom.tools import (
    transfer_to_agent as transfer_to_agent,
)

__all__ = [
    "Agent",
    "AgentNameError",
    "AgentNotFoundError",
    "AgentTool",
    "AlreadyExistsError",
    "App",
    "ArtifactNotFoundError",
    "ArtifactVersion",
    "Assembly",
    "AssemblyStep",
    "BaseAgent",
    "BaseArtifactService",
    "BaseCodeExecutor",
    "BaseLlm",
    "BaseMemoryService",
    "BasePlanner",
    "BasePlugin",
    "BaseSessionService",
    "BaseTool",
    "BaseToolset",
    "BuiltInCodeExecutor",
    "BuiltInPlanner",
    "CallbackContext",
    "CallbackError",
    "CodeExecutionInput",
    "CodeExecutionResult",
    "ConfigurationError",
    "ConfirmationRejectedError",
    "ConfirmationRequiredError",
    "Contents",
    "Context",
    "ContextError",
    "DirectEffects",
    "DuplicateAgentError",
    "DuplicateToolError",
    "EffectKey",
    "Effects",
    "Event",
    "EventActions",
    "EventCompaction",
    "File",
    "Flow",
    "FlowCallbacks",
    "FlowloomError",
    "FunctionTool",
    "Gemini",
    "GetSessionConfig",
    "Halt",
    "HistoryError",
    "InMemoryArtifactService",
    "InMemoryMemoryService",
    "InMemoryRunner",
    "InMemorySessionService",
    "IncompleteStreamError",
    "InputValidationError",
    "InvocationContext",
    "LLMRegistry",
    "LimitExceededError",
    "Limits",
    "ListSessionsResponse",
    "LlmAgent",
    "LlmCallsLimitExceededError",
    "LlmRequest",
    "LlmResponse",
    "LoadArtifactsTool",
    "LoadMemoryTool",
    "LocalCodeExecutor",
    "LongRunningFunctionTool",
    "LoopAgent",
    "MemoryEntry",
    "MissingVariableError",
    "ModelError",
    "ModelNotConfiguredError",
    "ModelNotFoundError",
    "ModelRateLimitError",
    "ModelRequestError",
    "ModelResponseError",
    "ModelStreamError",
    "ModelUnavailableError",
    "NodeInfo",
    "NotSupportedError",
    "OfflineModel",
    "ParallelAgent",
    "PipelineError",
    "PlanReActPlanner",
    "PluginManager",
    "PreloadMemoryTool",
    "ProcessorError",
    "ReadonlyContext",
    "RetryOptions",
    "RunConfig",
    "Runner",
    "SearchMemoryResponse",
    "SequentialAgent",
    "Session",
    "SessionNotFoundError",
    "State",
    "StreamingAggregator",
    "StreamingMode",
    "Template",
    "TemplateError",
    "ToolArgumentsError",
    "ToolConfirmation",
    "ToolContext",
    "ToolError",
    "ToolNotFoundError",
    "ToolSignatureError",
    "ToolThreadPoolConfig",
    "ToolTimeoutError",
    "TransferToAgentTool",
    "Usage",
    "Viewer",
    "configure_telemetry",
    "exit_loop",
    "inject_session_state",
    "load_artifacts",
    "load_memory",
    "preload_memory",
    "transfer_to_agent",
    "visible",
]
__version__: str

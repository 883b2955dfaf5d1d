"""The public names as type checkers see them, by what they are for; `__init__.py` loads the same on first use."""

# ruff: noqa: I001 - in groups

# agents
from flowloom.agents import Agent, BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent, WorkflowAgent

# agents of other services
from flowloom.protocols.a2a import RemoteA2aAgent

# running them
from flowloom.runner import (
    App,
    InMemoryRunner,
    PendingCall,
    ResumabilityConfig,
    RunHandle,
    RunResult,
    Runner,
    answers,
    pending_calls,
)
from flowloom.context import Limits, RunConfig, StreamingMode, Usage
from flowloom.compaction import EventsCompactionConfig

# what user code is given
from flowloom.context import CallbackContext, Context, InvocationContext, ReadonlyContext, ToolContext
from flowloom.events import Event, EventActions

# tools, and what they ask users for
from flowloom.tools import (
    AgentTool,
    AuthenticatedFunctionTool,
    BaseTool,
    BaseToolset,
    FunctionTool,
    LongRunningFunctionTool,
    exit_loop,
    load_artifacts,
    load_memory,
    preload_memory,
    request_input,
    transfer_to_agent,
)
from flowloom.events import ToolConfirmation
from flowloom.protocols.mcp import McpToolset
from flowloom.auth import AuthConfig, AuthCredential, AuthCredentialTypes, InMemoryCredentialService, OAuth2Auth

# models
from flowloom.models import BaseLlm, ContextCacheConfig, Gemini, LLMRegistry, LlmRequest, LlmResponse, RetryOptions
from flowloom.protocols.openapi import OpenAPIToolset
from flowloom.providers import AnthropicModel, OpenAIModel
from flowloom.offline import OfflineModel
from flowloom.human import HumanModel
from flowloom.wrappers import CachedModel, FallbackModel, LimitedModel, RetryModel

# services
from flowloom.sessions import (
    BaseSessionService,
    InMemorySessionService,
    PostgresSessionService,
    Session,
    SqliteSessionService,
    State,
)
from flowloom.artifacts import BaseArtifactService, FileArtifactService, InMemoryArtifactService
from flowloom.memory import BaseMemoryService, InMemoryMemoryService, PostgresMemoryService, SqliteMemoryService

# flows, planners, code and plugins
from flowloom.flow import Flow
from flowloom.processors import BuiltInCodeExecutor, BuiltInPlanner, LocalCodeExecutor, PlanReActPlanner, Template
from flowloom.plugins import BasePlugin, LoggingPlugin

# looking at them
from flowloom.inspection import explain, measure
from flowloom.telemetry import configure_telemetry

# errors; `flowloom.errors` has them all
from flowloom.errors import (
    ConfigurationError,
    FlowloomError,
    InputValidationError,
    LimitExceededError,
    ModelError,
    SessionNotFoundError,
    ToolError,
)

__version__: str

__all__ = [
    "Agent",
    "AgentTool",
    "AnthropicModel",
    "App",
    "AuthConfig",
    "AuthCredential",
    "AuthCredentialTypes",
    "AuthenticatedFunctionTool",
    "BaseAgent",
    "BaseArtifactService",
    "BaseLlm",
    "BaseMemoryService",
    "BasePlugin",
    "BaseSessionService",
    "BaseTool",
    "BaseToolset",
    "BuiltInCodeExecutor",
    "BuiltInPlanner",
    "CachedModel",
    "CallbackContext",
    "ConfigurationError",
    "Context",
    "ContextCacheConfig",
    "Event",
    "EventActions",
    "EventsCompactionConfig",
    "FallbackModel",
    "FileArtifactService",
    "Flow",
    "FlowloomError",
    "FunctionTool",
    "Gemini",
    "HumanModel",
    "InMemoryArtifactService",
    "InMemoryCredentialService",
    "InMemoryMemoryService",
    "InMemoryRunner",
    "InMemorySessionService",
    "InputValidationError",
    "InvocationContext",
    "LLMRegistry",
    "LimitExceededError",
    "LimitedModel",
    "Limits",
    "LlmAgent",
    "LlmRequest",
    "LlmResponse",
    "LocalCodeExecutor",
    "LoggingPlugin",
    "LongRunningFunctionTool",
    "LoopAgent",
    "McpToolset",
    "ModelError",
    "OAuth2Auth",
    "OfflineModel",
    "OpenAIModel",
    "OpenAPIToolset",
    "ParallelAgent",
    "PendingCall",
    "PlanReActPlanner",
    "PostgresMemoryService",
    "PostgresSessionService",
    "ReadonlyContext",
    "RemoteA2aAgent",
    "ResumabilityConfig",
    "RetryModel",
    "RetryOptions",
    "RunConfig",
    "RunHandle",
    "RunResult",
    "Runner",
    "SequentialAgent",
    "Session",
    "SessionNotFoundError",
    "SqliteMemoryService",
    "SqliteSessionService",
    "State",
    "StreamingMode",
    "Template",
    "ToolConfirmation",
    "ToolContext",
    "ToolError",
    "Usage",
    "WorkflowAgent",
    "answers",
    "configure_telemetry",
    "exit_loop",
    "explain",
    "load_artifacts",
    "load_memory",
    "measure",
    "pending_calls",
    "preload_memory",
    "request_input",
    "transfer_to_agent",
]

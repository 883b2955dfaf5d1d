"""The SDK of A2A, as far as this room uses it. Importing this without the extra `a2a` raises `MissingExtraError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowloom.extras import missing_extra

try:
    import httpx as httpx
    from a2a.client import ClientCallContext as ClientCallContext
    from a2a.client import ClientConfig as ClientConfig
    from a2a.client import ClientFactory as ClientFactory
    from a2a.client.card_resolver import parse_agent_card as parse_agent_card
    from a2a.client.client import Client as Client
    from a2a.client.errors import A2AClientError as A2AClientError
    from a2a.types.a2a_pb2 import AgentCapabilities as AgentCapabilities
    from a2a.types.a2a_pb2 import AgentCard as AgentCard
    from a2a.types.a2a_pb2 import AgentExtension as AgentExtension
    from a2a.types.a2a_pb2 import AgentInterface as AgentInterface
    from a2a.types.a2a_pb2 import AgentSkill as AgentSkill
    from a2a.types.a2a_pb2 import Artifact as Artifact
    from a2a.types.a2a_pb2 import CancelTaskRequest as CancelTaskRequest
    from a2a.types.a2a_pb2 import GetTaskRequest as GetTaskRequest
    from a2a.types.a2a_pb2 import ListTasksRequest as ListTasksRequest
    from a2a.types.a2a_pb2 import ListTasksResponse as ListTasksResponse
    from a2a.types.a2a_pb2 import Message as Message
    from a2a.types.a2a_pb2 import Part as Part
    from a2a.types.a2a_pb2 import Role as Role
    from a2a.types.a2a_pb2 import SecurityRequirement as SecurityRequirement
    from a2a.types.a2a_pb2 import SecurityScheme as SecurityScheme
    from a2a.types.a2a_pb2 import SendMessageRequest as SendMessageRequest
    from a2a.types.a2a_pb2 import StreamResponse as StreamResponse
    from a2a.types.a2a_pb2 import SubscribeToTaskRequest as SubscribeToTaskRequest
    from a2a.types.a2a_pb2 import Task as Task
    from a2a.types.a2a_pb2 import TaskArtifactUpdateEvent as TaskArtifactUpdateEvent
    from a2a.types.a2a_pb2 import TaskState as TaskState
    from a2a.types.a2a_pb2 import TaskStatus as TaskStatus
    from a2a.types.a2a_pb2 import TaskStatusUpdateEvent as TaskStatusUpdateEvent
    from a2a.utils.errors import A2AError as A2AError
    from a2a.utils.errors import InvalidParamsError as InvalidParamsError
    from a2a.utils.errors import TaskNotFoundError as TaskNotFoundError
    from a2a.utils.errors import UnsupportedOperationError as UnsupportedOperationError
    from google.protobuf.json_format import MessageToDict, ParseDict
    from google.protobuf.struct_pb2 import Value
except ImportError as error:
    if TYPE_CHECKING:
        raise
    raise missing_extra("Agents over A2A need the protocol's SDK", "a2a", error) from error

CANCELED, COMPLETED, FAILED, REJECTED = (
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_REJECTED,
)
SUBMITTED, WORKING = TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING
AUTH_REQUIRED, INPUT_REQUIRED = TaskState.TASK_STATE_AUTH_REQUIRED, TaskState.TASK_STATE_INPUT_REQUIRED
OVER = frozenset({CANCELED, COMPLETED, FAILED, REJECTED})
"""The states that a task does not leave."""
WAITS = frozenset({AUTH_REQUIRED, INPUT_REQUIRED})
"""The states in which a task waits for the one who gave it."""


def plain(message: Any) -> Any:
    """A message of the protocol, or a value in one, as JSON data; whole numbers as such."""
    return _whole(MessageToDict(message))


def data_part(data: Any, metadata: dict[str, Any] | None = None, media_type: str = "") -> Part:
    """A part of JSON `data`."""
    part = Part(media_type=media_type, metadata=metadata)
    part.data.CopyFrom(ParseDict(data, Value()))
    return part


def _whole(data: Any) -> Any:
    """JSON data, in which the protocol has floats only, with whole numbers."""
    if isinstance(data, float):
        return int(data) if data.is_integer() and abs(data) < 2**53 else data
    if isinstance(data, dict):
        return {key: _whole(value) for key, value in data.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(data, list):
        return [_whole(value) for value in data]  # pyright: ignore[reportUnknownVariableType]
    return data

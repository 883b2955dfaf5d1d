"""The server's part of the SDK of A2A, and what it serves HTTP with: loaded when an application is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.extras import missing_extra

try:
    from a2a.auth.user import User as User
    from a2a.extensions.common import get_requested_extensions as get_requested_extensions
    from a2a.server.agent_execution import AgentExecutor as AgentExecutor
    from a2a.server.agent_execution import RequestContext as RequestContext
    from a2a.server.context import ServerCallContext as ServerCallContext
    from a2a.server.events import EventQueue as EventQueue
    from a2a.server.request_handlers.default_request_handler_v2 import (
        DefaultRequestHandlerV2 as DefaultRequestHandlerV2,
    )
    from a2a.server.routes import ServerCallContextBuilder as ServerCallContextBuilder
    from a2a.server.routes import create_agent_card_routes as create_agent_card_routes
    from a2a.server.routes import create_jsonrpc_routes as create_jsonrpc_routes
    from a2a.server.routes import create_rest_routes as create_rest_routes
    from a2a.server.tasks import InMemoryPushNotificationConfigStore as InMemoryPushNotificationConfigStore
    from a2a.server.tasks import InMemoryTaskStore as InMemoryTaskStore
    from a2a.server.tasks import PushNotificationConfigStore as PushNotificationConfigStore
    from a2a.server.tasks import PushNotificationEvent as PushNotificationEvent
    from a2a.server.tasks import PushNotificationSender as PushNotificationSender
    from a2a.server.tasks import TaskStore as TaskStore
    from a2a.types.a2a_pb2 import TaskPushNotificationConfig as TaskPushNotificationConfig
    from a2a.utils.proto_utils import to_stream_response as to_stream_response
    from starlette.applications import Starlette as Starlette
    from starlette.middleware import Middleware as Middleware
    from starlette.requests import Request as Request
except ImportError as error:
    if TYPE_CHECKING:
        raise
    raise missing_extra("Serving agents over A2A needs the protocol's SDK and starlette", "a2a", error) from error

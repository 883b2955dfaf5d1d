"""From and to what other programs speak: chat messages, Gemini's JSON and protobuf, google-adk's databases, old events.

It imports `providers`, `tools`, `sessions` and the rooms below. Each converter is loaded when it is used. Begin with
`chat_contents.py` for chat messages, with `generate_content.py` for Gemini's wire format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.interop.adk_sqlite import AdkSqliteDatabase
    from flowloom.interop.chat_contents import contents_to_messages, messages_to_contents
    from flowloom.interop.chat_messages import (
        ChatMessage,
        LLMServiceOptions,
        ToolCall,
        ToolChoice,
        is_valid_chat_message,
        is_valid_tool_call,
    )
    from flowloom.interop.chat_service import AgentResponse, LLMService, LlmService, ServiceModel
    from flowloom.interop.generate_content import (
        WireResponse,
        request_from_json,
        request_to_json,
        response_from_json,
        response_to_json,
    )
    from flowloom.interop.legacy import from_legacy, to_legacy
    from flowloom.interop.protobuf import (
        request_from_proto,
        request_to_proto,
        response_from_proto,
        response_to_proto,
    )

_HOMES = {
    "adk_sqlite": "AdkSqliteDatabase",
    "chat_contents": "contents_to_messages messages_to_contents",
    "chat_messages": "ChatMessage LLMServiceOptions ToolCall ToolChoice is_valid_chat_message is_valid_tool_call",
    "chat_service": "AgentResponse LLMService LlmService ServiceModel",
    "generate_content": "WireResponse request_from_json request_to_json response_from_json response_to_json",
    "legacy": "from_legacy to_legacy",
    "protobuf": "request_from_proto request_to_proto response_from_proto response_to_proto",
}

__all__ = [
    "AdkSqliteDatabase",
    "AgentResponse",
    "ChatMessage",
    "LLMService",
    "LLMServiceOptions",
    "LlmService",
    "ServiceModel",
    "ToolCall",
    "ToolChoice",
    "WireResponse",
    "contents_to_messages",
    "from_legacy",
    "is_valid_chat_message",
    "is_valid_tool_call",
    "messages_to_contents",
    "request_from_json",
    "request_from_proto",
    "request_to_json",
    "request_to_proto",
    "response_from_json",
    "response_from_proto",
    "response_to_json",
    "response_to_proto",
    "to_legacy",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))

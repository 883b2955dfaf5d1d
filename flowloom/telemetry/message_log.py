"""The log records of what a model is told and what it answers (spec §12.9)."""

from __future__ import annotations

from typing import Any, cast

from opentelemetry._logs import Logger, LogRecord
from opentelemetry.context.context import Context

from flowloom.events.response import LlmResponse
from flowloom.models.request import LlmRequest
from flowloom.telemetry.content import ELIDED, as_data, content_captured


class MessageLog:
    """Writes the messages of model calls as log records, in the context of the call's span."""

    __slots__ = ("_logger",)

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def request(self, request: LlmRequest, provider: str | None, context: Context) -> None:
        """One record for the system instruction, even if there is none, and one for each content, whatever its role."""
        system = as_data(_system_text(request)) if content_captured() else ELIDED
        self._emit("gen_ai.system.message", {"content": system}, provider, context)
        for content in request.contents:
            self._emit("gen_ai.user.message", {"content": as_data(content)}, provider, context)

    def choice(self, response: LlmResponse, provider: str | None, context: Context) -> None:
        """One record for a complete response."""
        body: dict[str, Any] = {"index": 0, "content": as_data(response.content)}
        if response.finish_reason is not None:
            body["finish_reason"] = response.finish_reason.value
        self._emit("gen_ai.choice", body, provider, context)

    def _emit(self, name: str, body: dict[str, Any], provider: str | None, context: Context) -> None:
        attributes = None if provider is None else {"gen_ai.system": provider}
        self._logger.emit(LogRecord(event_name=name, body=body, attributes=attributes, context=context))


def _system_text(request: LlmRequest) -> str:
    """The texts of the system instruction, whatever its form, a line each."""
    given = cast(Any, request.config.system_instruction)  # pyright: ignore[reportUnknownMemberType] - PIL, if it is there
    parts = cast(Any, getattr(given, "parts", given) or [])
    texts = [
        part if isinstance(part, str) else getattr(part, "text", None)
        for part in (cast(list[Any], parts) if isinstance(parts, list) else [parts])
    ]
    return "\n".join(text for text in texts if text)

"""A model that only keeps what it was asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from kit import said

from flowloom import BaseLlm, LlmRequest, LlmResponse


class Asked(BaseLlm):
    """Keeps requests, and says "ok"."""

    model: str = "asked"
    requests: Any = None

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(llm_request)
        yield LlmResponse(content=said("ok"))


def asked(requests: list[LlmRequest]) -> Asked:
    """A model that puts what it is asked into `requests`."""
    return Asked(requests=requests)

"""The HTTP client that google-genai is given: it sends, and keeps good answers for the adapter to read.

google-genai's own parser takes each chunk through JSON four times (0.1 ms), fails on the comment lines that proxies
send to keep a connection open, and leaves the connection to the garbage collector when a consumer stops early.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from flowloom.models.http import LoopClient, httpx

taken_answers: ContextVar[list[httpx.Response] | None] = ContextVar("taken_answers", default=None)
"""While it holds a list, `AnswerTakingClient` puts each good answer there, unread, and gives an empty one on."""


class AnswerTakingClient(LoopClient):
    """Sends through the running loop's pool. See `taken_answers` for where a good answer goes."""

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        taken = taken_answers.get()
        if taken is None:
            return await super().send(request, stream=stream, **options)
        response = await super().send(request, stream=True)
        if response.status_code != 200:
            return response
        taken.append(response)
        return httpx.Response(200, request=request)

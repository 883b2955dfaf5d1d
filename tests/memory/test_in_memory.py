"""The protocol, and what only the service in memory does."""

from __future__ import annotations

import pytest

from flowloom.errors import NotSupportedError
from flowloom.memory import BaseMemoryService, SearchMemoryResponse
from flowloom.sessions import Session


async def test_a_service_that_only_adds_and_searches_says_what_it_cannot_do() -> None:
    class Minimal(BaseMemoryService):
        async def add_session_to_memory(self, session: Session) -> None: ...

        async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
            return SearchMemoryResponse()

    service, owner = Minimal(), {"app_name": "app", "user_id": "ada"}
    for call in (
        service.add_events_to_memory(events=[], **owner),
        service.add_memory(memories=[], **owner),
        service.delete_memory(memory_id="m1", **owner),
    ):
        with pytest.raises(NotSupportedError, match="Minimal"):
            await call

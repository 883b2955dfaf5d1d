"""Memories: a session is remembered (server spec §3, 22)."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from flowloom.server.served import served_of
from flowloom.server.sessions import session_of
from flowloom.server.wire import Body, answer

router = APIRouter(tags=["memory"])


class Remembered(Body):
    """Which session is to be remembered."""

    session_id: str


@router.patch("/apps/{app_name}/users/{user_id}/memory")
async def remember_session(request: Request, app_name: str, user_id: str, body: Remembered) -> Response:
    """Remember the events of a session; what is remembered already is not again."""
    session = await session_of(request, app_name, user_id, body.session_id)
    await served_of(request).memory.add_session_to_memory(session)
    return answer(b"null")

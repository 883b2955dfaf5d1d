"""Live runs over a WebSocket (server spec §6): there are none yet; who asks for one is told why not."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, WebSocket

from flowloom.asgi.guard import PRINCIPAL
from flowloom.asgi.principal import EVERYBODY, Principal
from flowloom.server.problems import ProblemError
from flowloom.server.served import Served

router = APIRouter()

NO_SESSION, NOT_ALLOWED, FAILED = 1002, 1008, 1011
_REASON_BYTES = 123
"""How much a close frame holds beside its code."""

Modality = Literal["TEXT", "AUDIO", "VIDEO"]


@router.websocket("/run_live")
async def run_live(
    websocket: WebSocket,
    user_id: str,
    session_id: str,
    app_name: str | None = None,
    modalities: Annotated[list[Modality], Query()] = ["AUDIO"],  # noqa: B006 - FastAPI copies it
    proactive_audio: bool | None = None,
    enable_affective_dialog: bool | None = None,
    enable_session_resumption: bool | None = None,
    save_live_blob: bool = False,
    explicit_vad_signal: bool | None = None,
) -> None:
    """A live run of an agent: refused before the socket is accepted if it names no app, closed with a reason else."""
    served: Served = websocket.app.state.served
    app_name = app_name or served.apps.default
    if not app_name:
        await websocket.close(NOT_ALLOWED, "`app_name` is missing, and there is no default app.")
        return
    await websocket.accept()
    code, reason = await _refusal(served, websocket.scope.get(PRINCIPAL, EVERYBODY), app_name, user_id, session_id)
    await websocket.close(code, shortened(reason))


async def _refusal(
    served: Served, principal: Principal, app_name: str, user_id: str, session_id: str
) -> tuple[int, str]:
    """Why a live run cannot be: the code and the reason of the close frame."""
    if not principal.may_use(app_name):
        return NOT_ALLOWED, f"There is no app `{app_name}`."
    try:
        await served.app_of(app_name)
    except ProblemError as problem:
        return (FAILED if problem.status >= 500 else NOT_ALLOWED), problem.detail
    session = None
    if principal.may_use(app_name, user_id):
        session = await served.sessions.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
    if session is None:
        return NO_SESSION, "Session not found"
    return FAILED, "Live runs are not built yet."


def shortened(reason: str) -> str:
    """A reason as a close frame can hold it."""
    return reason.encode()[:_REASON_BYTES].decode(errors="ignore")

"""`Served`: a runner with the sessions in which clients talk to it (protocols spec §2)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from flowloom.protocols.mcp.serving.callers import USER_ID, Caller
from flowloom.protocols.mcp.serving.sdk import INVALID_REQUEST, MCPError
from flowloom.runner import Runner

SessionMode = Literal["connection", "context", "call"]
_PREFIX = "mcp:"
_MOST_KEPT = 1000


class Where(NamedTuple):
    """A session: whose it is, and its id."""

    user_id: str
    session_id: str


class Served:
    """A `runner` that clients talk to, and its sessions: by connection, by context, or one for each call (`mode`).

    `suffix` tells its sessions from those of another runner of the same app. `owned` says that nothing else has its
    sessions: then those that no client can come back to are forgotten, and of the others the latest thousand are kept.
    """

    def __init__(self, runner: Runner[Any], mode: SessionMode, suffix: str = "", *, owned: bool) -> None:
        self.runner, self.mode = runner, mode
        self._suffix, self._owned = suffix, owned
        self._known: OrderedDict[Where, None] = OrderedDict()

    def session_of(self, caller: Caller, context_id: str | None = None) -> Where:
        """The session of a call of `caller`: that of the context `context_id`, of the connection, or a new one.

        Raises `MCPError` for a caller to whom the app is not open.
        """
        principal, app_name = caller.principal, self.runner.app_name
        if principal is not None and not principal.may_use(app_name):
            raise MCPError(INVALID_REQUEST, f"`{principal.name}` may not use `{app_name}`.")
        name = context_id or (caller.connection if self.mode == "connection" else None) or f"{_PREFIX}{uuid4().hex}"
        return self.place(caller, f"{name}{self._suffix}")

    def place(self, caller: Caller, session_id: str) -> Where:
        """The session of that id which is the caller's. Those of whom nothing is known are a user for each session, so
        that they share nothing."""
        return Where(caller.user_id or f"{USER_ID}:{session_id}", session_id)

    async def open(self, where: Where) -> None:
        """Have the session there."""
        runner = self.runner
        await runner.session_service.get_or_create_session(app_name=runner.app_name, **where._asdict())
        self._known[where] = None
        self._known.move_to_end(where)
        while self._owned and len(self._known) > _MOST_KEPT:
            await self.forget(next(iter(self._known)))

    def context_of(self, where: Where) -> str:
        """What clients call the conversation of a session."""
        return where.session_id.removesuffix(self._suffix)

    async def known(self, where: Where) -> bool:
        """Whether there is such a session, and it is one of these."""
        runner = self.runner
        if not where.session_id.startswith(_PREFIX):
            return False
        found = await runner.session_service.get_session(app_name=runner.app_name, **where._asdict())
        return found is not None

    async def forget(self, where: Where) -> None:
        """Delete a session that no client comes back to, with its files, unless others keep it."""
        if not self._owned:
            return
        self._known.pop(where, None)
        runner, place = self.runner, where._asdict()
        files = runner.artifact_service
        if files is not None:
            for name in await files.list_artifact_keys(app_name=runner.app_name, **place):
                if not name.startswith("user:"):
                    await files.delete_artifact(app_name=runner.app_name, filename=name, **place)
        await runner.session_service.delete_session(app_name=runner.app_name, **place)

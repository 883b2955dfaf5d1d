"""`Login`: the credential that goes with the calls to a remote agent, and asking the user for it (spec §4)."""

from __future__ import annotations

from typing import Any

from flowloom.auth import AuthAnswer
from flowloom.context import Context, InvocationContext
from flowloom.errors import ConfigurationError
from flowloom.events import Event
from flowloom.events.ids import CLIENT_CALL_PREFIX
from flowloom.events.parts import call_part
from flowloom.events.requests import CREDENTIAL_CALL
from flowloom.log.marks import A2A_LOGIN
from flowloom.protocols.openapi.security import Pending, Security
from flowloom.tools.request_record import request_event


class Login:
    """The credential that an agent's `auth_scheme`, `auth_credential` and `credential_key` name, for the turn at `ctx`.

    It goes to the agent's service as headers, is kept by the run's credential service, and stands in no event.
    """

    def __init__(self, ctx: InvocationContext, scheme: Any, credential: Any, key: str | None) -> None:
        self._ctx = ctx
        self._security = Security({}, everywhere=scheme, credential=credential, key=key)
        self._call_id = f"a2a-{ctx.agent.name}"

    async def headers(self) -> dict[str, str] | Event:
        """The headers of a call; or the event by which the user is asked, and the turn waits. Raises
        `CredentialError`."""
        self._take_answer()
        context = Context(self._ctx, function_call_id=self._call_id)
        try:
            granted = await self._security.granted((), context)
        except Pending:
            return self._request(next(iter(context.actions.requested_auth_configs.values())))
        if granted.query:
            raise ConfigurationError(
                f"Agent `{self._ctx.agent.name}`: its key cannot go into the address, which is logged. Use a header."
            )
        cookies = {"Cookie": "; ".join(granted.cookies)} if granted.cookies else {}
        return {**granted.headers, **cookies}

    def _take_answer(self) -> None:
        """Take what the user has just given, if the latest event of the agent asked for it."""
        ctx = self._ctx
        own = (event for event in reversed(ctx.session.events) if event.author == ctx.agent.name)
        latest = next(own, None)
        if latest is None or A2A_LOGIN not in (latest.custom_metadata or ()):
            return
        for call in latest.get_function_calls():
            answer, request = ctx.run.keyring.take(call.id or ""), dict((call.args or {}).get("authConfig") or {})
            if answer is not None:
                ctx.run.keyring.give(request, _readable(answer, request), [self._call_id])

    def _request(self, config: dict[str, Any]) -> Event:
        ctx = self._ctx
        request_id = CLIENT_CALL_PREFIX + ctx.effects.new_id(ctx)
        args: dict[str, Any] = {
            "functionCallId": request_id,
            "authConfig": config,
            "message": f"Agent `{ctx.agent.name}` needs you to log in.",
        }
        event = request_event(ctx, [call_part(request_id, CREDENTIAL_CALL, args)], {})
        event.custom_metadata = {A2A_LOGIN: True}
        return event


def _readable(answer: AuthAnswer, request: dict[str, Any]) -> AuthAnswer:
    """An answer in words, the address that the user was sent back to, as one of the usual form."""
    words = answer.response.get("result")
    if not isinstance(words, str):
        return answer
    asked: dict[str, Any] = dict(request.get("exchangedAuthCredential") or {"authType": "oauth2"})
    asked["oauth2"] = {**(asked.get("oauth2") or {}), "authResponseUri": words.strip()}
    return AuthAnswer(answer.request_id, {**request, "exchangedAuthCredential": asked})

"""What the tests of credentials share: a tool that needs one, runners that do, and a user who answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from auth.oauth_server import BACK, CLIENT, CLIENT_SECRET, OAuthServer
from google.genai import types
from kit import Chat, agent, pending, result

from flowloom import (
    AuthConfig,
    AuthCredential,
    AuthCredentialTypes,
    AuthenticatedFunctionTool,
    BaseSessionService,
    Event,
    InMemoryCredentialService,
    InMemorySessionService,
    LlmAgent,
    OAuth2Auth,
    Runner,
)
from flowloom.auth import BaseCredentialService

ASKED = "adk_request_credential"


def oauth(server: OAuthServer, **client: Any) -> AuthConfig:
    """The authorization code flow of the test's server."""
    flow = {"authorizationUrl": f"{server.url}/authorize", "tokenUrl": f"{server.url}/token", "scopes": {"read": ""}}
    fields = {"client_id": CLIENT, "client_secret": CLIENT_SECRET, "redirect_uri": BACK} | client
    raw = AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=OAuth2Auth(**fields))
    scheme: Any = {"type": "oauth2", "flows": {"authorizationCode": flow}}
    return AuthConfig(auth_scheme=scheme, raw_auth_credential=raw)


def openid(server: OAuthServer, **client: Any) -> AuthConfig:
    """The test's server by its discovery document."""
    fields = {"client_id": CLIENT, "client_secret": CLIENT_SECRET, "redirect_uri": BACK} | client
    raw = AuthCredential(auth_type=AuthCredentialTypes.OPEN_ID_CONNECT, oauth2=OAuth2Auth(**fields))
    scheme: Any = {"type": "openIdConnect", "openIdConnectUrl": f"{server.url}/.well-known/openid-configuration"}
    return AuthConfig(auth_scheme=scheme, raw_auth_credential=raw)


API_KEY = AuthConfig(auth_scheme={"type": "apiKey", "in": "header", "name": "X-Key"})  # type: ignore[arg-type]


class Calendar:
    """A service that wants a credential, and remembers with which it was called."""

    def __init__(self) -> None:
        self.seen: list[AuthCredential] = []

    def tool(self, config: AuthConfig, name: str = "read_calendar", **options: Any) -> AuthenticatedFunctionTool:
        async def read_calendar(day: str, credential: AuthCredential) -> str:
            """Read the calendar."""
            self.seen.append(credential)
            return f"{day}: dentist"

        return AuthenticatedFunctionTool(read_calendar, auth_config=config, name=name, **options)

    @property
    def tokens(self) -> list[str | None]:
        """The access tokens it was called with."""
        return [each.oauth2.access_token if each.oauth2 else None for each in self.seen]


class Desk:
    """Where several processes would meet: their sessions and credentials, and a chat with each."""

    def __init__(
        self, sessions: BaseSessionService | None = None, credentials: BaseCredentialService | None = None
    ) -> None:
        self.sessions = sessions or InMemorySessionService()
        self.credentials = credentials or InMemoryCredentialService()

    def chat(self, root: LlmAgent, session_id: str = "s1", **options: Any) -> Chat:
        """A chat with a runner of its own."""
        fields: dict[str, Any] = {"session_service": self.sessions, "credential_service": self.credentials} | options
        runner: Any = Runner(app_name="app", agent=root, auto_create_session=True, **fields)
        return Chat(runner=runner, session_id=session_id)


def asker(tools: Sequence[Any], *answers: Any) -> LlmAgent:
    return agent("root", *answers, tools=list(tools))


def asked(events: Sequence[Event]) -> list[types.FunctionCall]:
    """The requests for credentials in these events."""
    return [each for each in pending(events) if each.name == ASKED]


def auth_uri(request: types.FunctionCall) -> str:
    """The address to consent at."""
    return (request.args or {})["authConfig"]["exchangedAuthCredential"]["oauth2"]["authUri"]


def answered(request: types.FunctionCall, **oauth2: Any) -> types.Part:
    """The request given back with some fields of the credential filled in, as ADK's clients do it."""
    config = types.FunctionCall.model_validate(request.model_dump()).args or {}
    exchanged = config["authConfig"]["exchangedAuthCredential"]
    exchanged["oauth2"] |= {"authResponseUri": None} | oauth2
    return result(request.id, ASKED, config["authConfig"])


def consent(server: OAuthServer, request: types.FunctionCall, *, deny: bool = False) -> types.Part:
    """The answer of a user who follows the request's address."""
    return answered(request, authResponseUri=server.visit(auth_uri(request), deny=deny))


def given(request: types.FunctionCall, **credential: Any) -> types.Part:
    """An answer with a credential that needs no exchange."""
    return result(request.id, ASKED, {"exchangedAuthCredential": credential})

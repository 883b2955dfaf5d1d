"""What a tool says about the credential that it needs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from auth.desk import Calendar, Desk, asked, asker, oauth, openid
from auth.oauth_server import OAuthServer
from kit import context, story
from models.wire_server import closed_port
from pydantic import BaseModel

from flowloom import AuthConfig, AuthCredential, Context, OAuth2Auth, ToolContext
from flowloom.auth import AuthScheme
from flowloom.errors import ContextError
from flowloom.testing import call

DAY = call("read_calendar", day="monday")
# written by google-adk 2.13
FROM_ADK = {
    "authScheme": {
        "type": "oauth2",
        "flows": {
            "authorizationCode": {
                "scopes": {"mail": "Read"},
                "authorizationUrl": "https://a/x",
                "tokenUrl": "https://a/t",
            }
        },
    },
    "rawAuthCredential": {
        "authType": "oauth2",
        "oauth2": {
            "clientId": "c1",
            "redirectUri": "http://app/cb",
            "codeChallengeMethod": "S256",
            "tokenEndpointAuthMethod": "client_secret_basic",
        },
    },
    "exchangedAuthCredential": {
        "authType": "oauth2",
        "oauth2": {
            "clientId": "c1",
            "authUri": "https://a/x?response_type=code&client_id=c1",
            "state": "rI44",
            "redirectUri": "http://app/cb",
            "codeChallengeMethod": "S256",
            "tokenEndpointAuthMethod": "client_secret_basic",
        },
    },
    "credentialKey": "adk_oauth2_40a1e4daaa7b45d6_oauth2_40a0706045011903",
}
OPENID_FROM_ADK = {
    "authScheme": {
        "type": "openIdConnect",
        "authorization_endpoint": "https://a",
        "token_endpoint": "https://b",
        "scopes": ["openid"],
    },
    "credentialKey": "k",
    "exchangedAuthCredential": {"authType": "openIdConnect"},
}


@pytest.mark.parametrize("written", [FROM_ADK, OPENID_FROM_ADK], ids=["oauth2", "openid"])
def test_what_adk_writes_is_read_and_written_the_same(written: dict[str, Any]) -> None:
    assert AuthConfig.model_validate(written).to_wire() == written


def test_the_key_is_that_of_service_and_client_whatever_the_secret(server: OAuthServer) -> None:
    one = oauth(server)
    assert one.credential_key == oauth(server, client_secret="another", redirect_uri=None).credential_key
    assert one.credential_key != oauth(server, client_id="somebody").credential_key
    assert one.credential_key != openid(server).credential_key
    assert AuthConfig(auth_scheme=one.auth_scheme, credential_key="mine").credential_key == "mine"


def test_a_scheme_of_another_library_is_taken_by_its_fields() -> None:
    class Theirs(BaseModel):
        type: str = "http"
        scheme: str = "bearer"

    config = AuthConfig(auth_scheme=Theirs())  # type: ignore[arg-type]
    assert (config.auth_scheme.type_, config.auth_scheme.scheme) == ("http", "bearer")


def test_without_the_extra_a_config_says_what_to_install() -> None:
    """When it is made, not when the first user comes; other schemes need nothing."""
    code = """
import sys
sys.modules["authlib"] = None
from flowloom import AuthConfig
from flowloom.errors import MissingExtraError
AuthConfig(auth_scheme={"type": "apiKey", "in": "header", "name": "X"})
try:
    AuthConfig(auth_scheme={"type": "openIdConnect", "openIdConnectUrl": "https://x"})
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "flowloom[auth]"' in done.stdout


def test_nothing_is_loaded_for_those_who_need_no_credentials() -> None:
    code = "import sys; from flowloom import Runner, LlmAgent; print([m for m in sys.modules if 'authlib' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


BAD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"type": "oauth2", "flows": {"password": {"tokenUrl": "https://x", "scopes": {}}}}, {}, "names no token endpoint"),
    ({"type": "oauth2", "authorizationEndpoint": "https://x", "tokenEndpoint": "https://x"}, {}, "needs a `client_id`"),
    ({"type": "oauth2", "tokenEndpoint": "https://x"}, {"client_id": "c"}, "names no authorization endpoint"),
    (
        {"type": "oauth2", "authorizationEndpoint": "https://x", "tokenEndpoint": "https://x"},
        {"client_id": "c", "code_challenge_method": "plain"},
        "only `S256` is",
    ),
    ({"type": "openIdConnect", "openIdConnectUrl": "http://example.com/x"}, {"client_id": "c"}, "begin with https"),
]


@pytest.mark.parametrize(("scheme", "client", "problem"), BAD, ids=[each[2] for each in BAD])
async def test_what_cannot_be_asked_for_is_told(scheme: Any, client: dict[str, Any], problem: str) -> None:
    raw = AuthCredential.model_validate({"authType": "oauth2", "oauth2": OAuth2Auth(**client)})
    config = AuthConfig(auth_scheme=scheme, raw_auth_credential=raw)
    events = await Desk().chat(asker([Calendar().tool(config)], DAY, "ok")).say("what is on?")
    assert problem in story(events)[1]
    assert asked(events) == []


async def test_addresses_are_found_out_before_a_function_asks_by_itself(server: OAuthServer) -> None:
    """`request_credential` does not await: `load_credential` has to come first, and the error says so."""
    config = openid(server)

    async def sign_in(tool_context: ToolContext) -> str:
        """Sign in."""
        tool_context.request_credential(config)
        return "asked"

    events = await Desk().chat(asker([sign_in], call("sign_in"), "ok")).say("sign in")
    assert "load_credential" in story(events)[1]


async def test_an_issuer_without_the_first_document_has_the_second(server: OAuthServer) -> None:
    """RFC 8414's document is looked for first, then OpenID's."""
    raw = openid(server).raw_auth_credential
    config = AuthConfig(auth_scheme=AuthScheme(type_="oauth2", issuer_url=server.url), raw_auth_credential=raw)
    assert len(asked(await Desk().chat(asker([Calendar().tool(config)], DAY)).say("what is on?"))) == 1
    assert len(server.requests) == 2


async def test_a_server_that_is_not_there_fails_the_call_only() -> None:
    scheme: Any = {"type": "openIdConnect", "openIdConnectUrl": f"http://127.0.0.1:{closed_port()}/x"}
    raw = AuthCredential.model_validate({"authType": "openIdConnect", "oauth2": {"clientId": "c"}})
    config = AuthConfig(auth_scheme=scheme, raw_auth_credential=raw)
    events = await Desk().chat(asker([Calendar().tool(config)], DAY, "ok")).say("what is on?")
    assert "no usable answer (ConnectError)" in story(events)[1]


async def test_only_a_tool_can_ask() -> None:
    where = Context(context(asker([])))
    config = AuthConfig(auth_scheme={"type": "http", "scheme": "bearer"})  # type: ignore[arg-type]
    with pytest.raises(ContextError, match="Only a tool"):
        where.request_credential(config)
    with pytest.raises(ContextError, match="no credential service"):
        await where.save_credential(config)
    assert where.get_auth_response(config) is None
    assert await where.load_credential(config) is None

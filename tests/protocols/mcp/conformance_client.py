"""The client that MCP's own conformance suite starts: an agent with a toolset, whose address comes last.

Its model signs in where it has to, and calls each tool of the scenario once; its user follows the link of each request
for access, as a browser would, and goes back with what the authorization server says.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
from google.genai import types

from flowloom import BaseLlm, InMemoryRunner, LlmAgent, LlmRequest, LlmResponse, McpToolset, pending_calls
from flowloom.protocols.mcp import StreamableHTTPConnectionParams
from flowloom.testing import call

ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}
SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
GIVEN: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
"""What the suite has registered beforehand: a client's id, its secret, its key."""
MOST_LINKS = 5
CIMD = "https://conformance-test.local/client-metadata.json"


class Model(BaseLlm):
    """Calls each tool that it is given until it has an answer."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        answered = {
            part.function_response.name
            for content in llm_request.contents
            for part in content.parts or ()
            if part.function_response is not None
        }
        left = [name for name in llm_request.tools_dict if name not in answered]
        parts = [call(name, **ARGUMENTS.get(name, {})) for name in left] or [types.Part(text="done")]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


async def accept(context: Any, params: Any) -> Any:
    """A person who takes every form as it is."""
    defaults = {name: each["default"] for name, each in params.requested_schema["properties"].items()}
    return {"action": "accept", "content": defaults}


def credential() -> dict[str, Any] | None:
    """The client that the program has, as far as the suite gave one."""
    if "client_id" in GIVEN:
        own = {
            "clientId": GIVEN["client_id"],
            "clientSecret": GIVEN.get("client_secret"),
            "privateKey": GIVEN.get("private_key_pem"),
            "signingAlgorithm": GIVEN.get("signing_algorithm"),
        }
        return {"authType": "oauth2", "oauth2": own}
    if SCENARIO == "auth/basic-cimd":
        return {"authType": "oauth2", "oauth2": {"clientId": CIMD}}
    return None


def identity_provider() -> dict[str, Any] | None:
    """Where the user has signed in, as far as the suite says."""
    if "idp_id_token" not in GIVEN:
        return None
    own = {"clientId": GIVEN["idp_client_id"], "idToken": GIVEN["idp_id_token"]}
    return {
        "authScheme": {"type": "openIdConnect", "token_endpoint": GIVEN["idp_token_endpoint"]},
        "rawAuthCredential": {"authType": "openIdConnect", "oauth2": own},
    }


async def main() -> None:
    """One turn, and one more for each request for access."""
    alone = {"type": "oauth2", "flows": {"clientCredentials": {}}} if "client-credentials" in SCENARIO else None
    toolset = McpToolset(
        connection_params=StreamableHTTPConnectionParams(sys.argv[-1], timeout=20),
        auth_scheme=alone,
        auth_credential=credential(),
        identity_provider=identity_provider(),
        elicitation_callback=accept,
    )
    agent = LlmAgent(name="client", model=Model(model="conformance"), tools=[toolset])
    where: dict[str, str] = {"user_id": "u", "session_id": "s"}
    message: Any = "go"
    async with InMemoryRunner(agent, app_name="app") as runner, httpx2.AsyncClient() as browser:
        for _ in range(MOST_LINKS):
            async for event in runner.run_async(**where, new_message=message):
                print(event.author, event.content, event.error_message, file=sys.stderr)
            session = await runner.session_service.get_session(app_name="app", **where)
            waiting = pending_calls(session.events) if session is not None else []
            if not waiting:
                return
            link = waiting[0].authorization_url
            assert link is not None
            back = (await browser.get(link)).headers["location"]
            message = types.Content(role="user", parts=[waiting[0].consent(back)])


asyncio.run(main())

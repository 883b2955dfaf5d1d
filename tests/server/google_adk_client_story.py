"""A story for google-adk's own client of its server: run in google-adk's environment, with the server's address.

Prints what the client has made of each answer, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx
from google.adk.cli.adk_web_server import RunAgentRequest
from google.adk.cli.conformance.adk_web_server_client import AdkWebServerClient
from google.genai import types

WHO = {"app_name": "desk", "user_id": "ann"}


def said(events: list[Any]) -> list[list[str]]:
    """What the parts of events are, with who said them."""
    seen: list[list[str]] = []
    for event in events:
        for part in (event.content and event.content.parts) or []:
            kind = "thought" if part.thought else "text"
            if part.function_call:
                seen.append([event.author, "call", part.function_call.name])
            elif part.function_response:
                seen.append([event.author, "response", part.function_response.name])
            else:
                seen.append([event.author, f"partial {kind}" if event.partial else kind, part.text])
    return seen


async def story(url: str) -> dict[str, Any]:
    """Every method of the client once, and each kind of run."""
    async with AdkWebServerClient(base_url=url) as client:
        seen: dict[str, Any] = {"version": sorted(await client.get_version_data())}
        session = await client.create_session(**WHO, state={"a": 1})
        where = {**WHO, "session_id": session.id}
        seen["created"] = [session.app_name, session.user_id, session.state, session.events]

        async def run(words: str = "", *, streaming: bool = False, parts: list[types.Part] | None = None) -> list[Any]:
            message = types.UserContent(parts=parts or [types.Part(text=words)])
            request = RunAgentRequest(**where, new_message=message, streaming=streaming)
            return [event async for event in client.run_agent(request)]

        for words in ("hello", "both", "note", "draw"):
            seen[words] = said(await run(words))
        for words in ("think", "weather"):
            seen[f"{words}, streamed"] = said(await run(words, streaming=True))
        asked = await run("pay")
        waiting = [event.long_running_tool_ids or [] for event in asked]
        seen["asked"] = [sorted(said(asked)), sorted(len(ids) for ids in waiting)]  # the last two: in either order
        (call,) = [call for event in asked for call in event.get_function_calls() if call.name.startswith("adk_")]
        answer = types.FunctionResponse(id=call.id, name=call.name, response={"confirmed": True})
        seen["answered"] = said(await run(parts=[types.Part(function_response=answer)]))
        try:
            await run("explode", streaming=True)
        except RuntimeError as error:
            seen["explode"] = str(error)
        seen["after a failure"] = said(await run("hello"))
        seen["patched"] = (await client.update_session(**where, state_delta={"b": None})).state
        kept = await client.get_session(**where)
        seen["kept"] = [len(kept.events), sorted(kept.state)]
        artifact = {**where, "artifact_name": "plan.png"}
        metadata = await client.get_artifact_version_metadata(**artifact, version=0)
        listed = await client.list_artifact_versions_metadata(**artifact)
        seen["artifact"] = [metadata.version, metadata.mime_type, [each.version for each in listed]]
        seen["recorded"] = said(
            [
                event
                async for event in client.run_agent(
                    RunAgentRequest(**where, new_message=types.UserContent("hello")),
                    mode="record",
                    test_case_dir="nowhere",
                    user_message_index=0,
                )
            ]
        )
        await client.delete_session(**where)
        for name, asked_for in (("deleted", client.get_session(**where)), ("unknown", run("hello"))):
            try:
                await asked_for
            except httpx.HTTPStatusError as error:
                seen[name] = error.response.status_code
        return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(story(sys.argv[1]))))

"""The story's agent on google-adk, behind ag-ui-adk: `python ag_ui_adk_peer.py PORT`, in an environment of its own.

`/said` tells how many pieces its model has said.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from typing import Any

import uvicorn
from ag_ui_adk import ADKAgent, AGUIToolset, add_adk_fastapi_endpoint
from ag_ui_adk_story import PAUSE, SAID, USAGE, add, answer, pay
from fastapi import FastAPI
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.tools import FunctionTool
from google.genai import types


class StoryModel(BaseLlm):
    """Says what the story wants."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        part = llm_request.contents[-1].parts[-1]
        response = part.function_response.response if part.function_response else None
        said = answer(part.text or "", response, llm_request.model_dump_json())
        if isinstance(said, dict):
            call = types.FunctionCall(**said)
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))
            return
        for piece in said:
            SAID["pieces"] += 1
            yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=piece)]), partial=True)
            await asyncio.sleep(PAUSE)
        whole = types.Content(role="model", parts=[types.Part(text="".join(said))])
        yield LlmResponse(content=whole, usage_metadata=types.GenerateContentResponseUsageMetadata(**USAGE))


desk = LlmAgent(
    name="desk",
    model=StoryModel(model="story"),
    tools=[add, FunctionTool(pay, require_confirmation=True), AGUIToolset()],
)
app = FastAPI()
add_adk_fastapi_endpoint(app, ADKAgent(adk_agent=desk, app_name="app", user_id="ann"), "/run")


@app.get("/said")
async def said() -> dict[str, int]:
    return SAID


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")

"""The story's agent on google-adk, behind ag-ui-adk: `python ag_ui_adk_peer.py PORT`, in an environment of its own.

`/said` tells how many pieces its model has said.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from typing import Any

import uvicorn
from ag_ui_adk import ADKAgent, AGUIToolset, add_adk_fastapi_endpoint
from ag_ui_adk_story import SAID, add, pay, responses
from fastapi import FastAPI
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.tools import FunctionTool


class StoryModel(BaseLlm):
    """Says what the story wants."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        async for response in responses(llm_request.contents, LlmResponse):
            yield response


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

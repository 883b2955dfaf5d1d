"""An agent that google-adk's server and flowloom's serve alike: it answers in as many pieces as it is asked for.

The user says how many pieces, and how many milliseconds lie between two of them.
"""

import asyncio

try:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
except ModuleNotFoundError:
    from flowloom.adk.agents import LlmAgent
    from flowloom.adk.models import BaseLlm, LlmResponse
from google.genai import types

PIECE = "Some words of an answer. "


def _said(text, partial=None):
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=partial)


class Answering(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        pieces, pause = map(int, llm_request.contents[-1].parts[-1].text.split())
        if stream:
            for _ in range(pieces):
                yield _said(PIECE, True)
                await asyncio.sleep(pause / 1000)
        yield _said(PIECE * min(pieces, 10))


root_agent = LlmAgent(name="answering", instruction="Answer.", model=Answering(model="answering"))

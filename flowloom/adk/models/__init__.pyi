# made from table.py by tests/adk/stubs.py

from flowloom.events import LlmResponse
from flowloom.models import BaseLlm
from flowloom.models import Gemini
from flowloom.models import LLMRegistry
from flowloom.models import LlmRequest
from flowloom.wrappers import FallbackModel

__all__ = [
    "BaseLlm",
    "FallbackModel",
    "Gemini",
    "LLMRegistry",
    "LlmRequest",
    "LlmResponse",
]

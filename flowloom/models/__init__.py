"""Models: the protocol, requests, the registry; provider adapters are modules of their own, loaded when used."""

from flowloom.events.response import LlmResponse
from flowloom.models.base_llm import BaseLlm
from flowloom.models.contents import SharedContents
from flowloom.models.registry import LLMRegistry
from flowloom.models.request import LlmRequest

__all__ = ["BaseLlm", "LLMRegistry", "LlmRequest", "LlmResponse", "SharedContents"]

"""Models of other providers than Google: OpenAI and servers that speak its API, and Anthropic.

It imports `models` and the rooms below. Each adapter loads its provider's library when it is made. Begin with
`openai.py` or `anthropic.py`; `sdk_model.py` is what both do alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.providers.anthropic import AnthropicModel
    from flowloom.providers.openai import OpenAIModel

_HOMES = {"anthropic": "AnthropicModel", "openai": "OpenAIModel"}

__all__ = ["AnthropicModel", "OpenAIModel"]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))

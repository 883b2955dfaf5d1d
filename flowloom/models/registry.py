"""`LLMRegistry`: from a model's name to the adapter that serves it (spec §16b)."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any, cast

from flowloom.errors import ConfigurationError, ModelNotFoundError, quoted_list
from flowloom.models.base_llm import BaseLlm
from flowloom.models.model_names import model_name

Factory = Callable[[str], BaseLlm]
_MAKERS = {r"(gpt-|chatgpt-|o\d).*": "openai", r"claude-.*": "anthropic", r"(llama|qwen|mistral|phi|gemma).*": "ollama"}


class LLMRegistry:
    """Patterns of model names, each with the factory that makes the adapter."""

    _factories: dict[str, Factory | str] = {  # noqa: RUF012 - the registry is one for the process, as in ADK
        r"gemini-.*": "flowloom.models.gemini:Gemini",
        r"projects/.+/locations/.+/(endpoints|publishers/google/models)/.+": "flowloom.models.gemini:Gemini",
        r"offline(-.*)?": "flowloom.offline.model:OfflineModel",
        r"human": "flowloom.human:HumanModel",
        r"openai(-responses)?/.+": "flowloom.providers.openai:OpenAIModel.from_name",
        r"ollama/.+": "flowloom.providers.openai:OpenAIModel.from_name",
        r"https?://.+#.+": "flowloom.providers.openai:OpenAIModel.from_name",
        r"anthropic/.+": "flowloom.providers.anthropic:AnthropicModel.from_name",
    }

    @classmethod
    def register(cls, llm: type[BaseLlm] | str, factory: Factory | None = None) -> None:
        """Register the model class `llm` for its `supported_models()`, or `factory` for the one pattern `llm`.

        A pattern must match a whole name. Raises `ConfigurationError` for a pattern that is registered already.
        """
        if isinstance(llm, str):
            if factory is None:
                raise ConfigurationError(f"No factory was given for the model pattern `{llm}`.")
            patterns: list[str] = [llm]
            make: Factory = factory
        else:
            patterns = llm.supported_models()
            make = llm.from_name
        for pattern in patterns:
            if pattern in cls._factories:
                raise ConfigurationError(f"The model pattern `{pattern}` is registered already.")
        cls._factories.update(dict.fromkeys(patterns, make))

    @classmethod
    def unregister(cls, pattern: str) -> None:
        """Take `pattern` out again; what is not registered is passed over."""
        cls._factories.pop(pattern, None)

    @classmethod
    def new_llm(cls, model: str) -> BaseLlm:
        """The adapter for the model named `model`, also as `models/<name>`.

        Raises `ModelNotFoundError` if no pattern or several match, `MissingExtraError` for a provider whose extra is
        not installed.
        """
        matches = cls._matches(model) or cls._matches(model_name(model))
        if len(matches) != 1:
            reason = "matches several patterns" if matches else "matches no registered pattern"
            raise ModelNotFoundError(
                f"The model name `{model}` {reason}: {quoted_list(matches or cls._factories)}.{_hint(model)} Pass a "
                f"`BaseLlm` object as `model`, or register one with `LLMRegistry.register(pattern, factory)`."
            )
        factory = cls._factories[matches[0]]
        if isinstance(factory, str):
            module, _, attribute = factory.partition(":")
            made: Any = attrgetter(attribute)(importlib.import_module(module))
            factory = cast(type[BaseLlm], made).from_name if isinstance(made, type) else cast(Factory, made)
        return factory(model)

    @classmethod
    def _matches(cls, model: str) -> list[str]:
        return [pattern for pattern in cls._factories if re.fullmatch(pattern, model)]


def _hint(name: str) -> str:
    """What was probably meant by the bare name of a well-known model."""
    for pattern, provider in _MAKERS.items():
        if re.fullmatch(pattern, name):
            return f" Did you mean `{provider}/{name}`?"
    return ""

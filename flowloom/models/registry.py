"""`LLMRegistry`: from a model's name to the adapter that serves it (spec §16b)."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

from flowloom.errors import ConfigurationError, ModelNotFoundError, quoted_list
from flowloom.models.base_llm import BaseLlm

Factory = Callable[[str], BaseLlm]


class LLMRegistry:
    """Patterns of model names, each with the factory that makes the adapter."""

    _factories: dict[str, Factory | str] = {  # noqa: RUF012 - the registry is one for the process, as in ADK
        r"gemini-.*": "flowloom.models.gemini:Gemini",
        r"projects/.+/locations/.+/(endpoints|publishers/google/models)/.+": "flowloom.models.gemini:Gemini",
        r"offline(-.*)?": "flowloom.models.offline:OfflineModel",
    }

    @classmethod
    def register(cls, llm: type[BaseLlm] | str, factory: Factory | None = None) -> None:
        """Register a model class for its `supported_models()`, or `factory` for one pattern.

        A pattern must match a whole name. Raises `ConfigurationError` for a pattern that is registered already.
        """
        if isinstance(llm, str):
            if factory is None:
                raise ConfigurationError(f"No factory was given for the model pattern `{llm}`.")
            patterns: list[str] = [llm]
            make: Factory = factory
        else:
            patterns = llm.supported_models()
            make = lambda name: llm(model=name)  # noqa: E731
        for pattern in patterns:
            if pattern in cls._factories:
                raise ConfigurationError(f"The model pattern `{pattern}` is registered already.")
            cls._factories[pattern] = make

    @classmethod
    def unregister(cls, pattern: str) -> None:
        """Take a pattern out again."""
        cls._factories.pop(pattern, None)

    @classmethod
    def new_llm(cls, model: str) -> BaseLlm:
        """The adapter for a model name. Raises `ModelNotFoundError` when none or several match."""
        matches = [pattern for pattern in cls._factories if re.fullmatch(pattern, model)]
        if len(matches) != 1:
            reason = "matches several patterns" if matches else "matches no registered pattern"
            raise ModelNotFoundError(
                f"The model name `{model}` {reason}: {quoted_list(matches or cls._factories)}. Pass a `BaseLlm` "
                f"object as `model`, or register one with `LLMRegistry.register(pattern, factory)`."
            )
        factory = cls._factories[matches[0]]
        if isinstance(factory, str):
            module, _, attribute = factory.partition(":")
            adapter: type[BaseLlm] = getattr(importlib.import_module(module), attribute)
            return adapter(model=model)
        return factory(model)

"""Which models answer in the place of the agents' own, and the plugins that a server adds (server spec §1)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from flowloom.errors import ConfigurationError
from flowloom.models import BaseLlm, LLMRegistry
from flowloom.plugins import BasePlugin, ModelOverride
from flowloom.server.settings import ServerSettings


def override_of(settings: ServerSettings) -> ModelOverride | None:
    """What lets another model answer: for all agents, or for those that have none. Raises `ConfigurationError`."""
    if settings.models is not None:
        return ModelOverride(_model_named(settings.models))
    if settings.default_llm_model is not None:
        return ModelOverride(_model_named(settings.default_llm_model), replaces=lambda own: own is None)
    return None


def _model_named(name: str) -> BaseLlm:
    if name == "offline":
        from flowloom.offline.model import OfflineModel  # which few servers need

        return OfflineModel()
    return LLMRegistry.new_llm(name)


def plugins_of(given: Sequence[str | BasePlugin]) -> list[BasePlugin]:
    """Plugins by their full names, classes or instances; one text may name several, with commas between.

    Raises `ConfigurationError` for what is no plugin, or cannot be imported.
    """
    plugins: list[BasePlugin] = []
    for entry in given:
        if isinstance(entry, BasePlugin):
            plugins.append(entry)
        else:
            plugins += [_plugin_named(name.strip()) for name in entry.split(",") if name.strip()]
    return plugins


def _plugin_named(name: str) -> BasePlugin:
    module, _, attribute = name.rpartition(".")
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
        plugin: Any = found if isinstance(found, BasePlugin) or not callable(found) else found(name=name)
    except Exception as error:
        raise ConfigurationError(f"The plugin `{name}` cannot be loaded: {type(error).__name__}: {error}.") from error
    if not isinstance(plugin, BasePlugin):
        raise ConfigurationError(f"`{name}` is no plugin. Name a class or an instance of `BasePlugin`.")
    return plugin

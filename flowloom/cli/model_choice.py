"""Which model answers: the agents' own, the one asked for, or the offline stand-in."""

from __future__ import annotations

import os
from dataclasses import dataclass

from flowloom.agents import BaseAgent, LlmAgent
from flowloom.cli.usage_error import UsageError
from flowloom.errors import ModelNotFoundError
from flowloom.models import BaseLlm, LLMRegistry
from flowloom.models.offline import OfflineModel
from flowloom.plugins import BasePlugin, ModelOverride

_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_VERTEX = ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")
_EXPLICIT = ("api_key", "credentials", "vertexai", "base_url")
_SECONDS_PER_WORD = 0.02
"""The pace of the offline model on a terminal, so that one sees it write."""


@dataclass(slots=True)
class ModelChoice:
    """The plugins that put the choice into effect, and what the person is told of it."""

    plugins: list[BasePlugin]
    notice: str

    @classmethod
    def of(cls, root: BaseAgent, name: str | None, *, watched: bool) -> ModelChoice:
        """The choice for this environment; `watched` slows the offline model down. Raises `UsageError`."""
        offline = OfflineModel(seconds_per_word=_SECONDS_PER_WORD if watched else 0.0)
        if name is not None:
            model = offline if name == offline.model else _usable(model_named(name))
            return cls([ModelOverride(model)], f"All agents use the model {name}.")
        if has_credentials():
            return cls([], "")
        # agents of tools come up only in the run, so the plugin decides for each again
        notice = "No GOOGLE_API_KEY or GEMINI_API_KEY is set: the offline stand-in answers, by comparing words."
        stands_in = any(_lacks_credentials(agent.own_model) for agent in _llm_agents(root))
        return cls([ModelOverride(offline, replaces=_lacks_credentials)], notice if stands_in else "")


def has_credentials() -> bool:
    """Whether the environment holds what Gemini needs: a key, or the settings of Vertex AI."""
    vertex = any(os.environ.get(name, "").lower() in ("true", "1") for name in _VERTEX)
    return vertex or any(os.environ.get(name) for name in _KEYS)


def model_named(name: str) -> BaseLlm:
    """The model of that name. Raises `UsageError` if none is known."""
    try:
        return LLMRegistry.new_llm(name)
    except ModelNotFoundError as error:
        raise UsageError(
            f"`{name}` is no model that is known here. Use a Gemini model such as `gemini-2.5-flash`, or `offline`; "
            f"others have to be registered with `LLMRegistry` by the agent's own code."
        ) from error


def _usable(model: BaseLlm) -> BaseLlm:
    if model.backend is not None and not has_credentials():
        raise UsageError(
            f"The model `{model.model}` needs a key, and none is set. Set GOOGLE_API_KEY, or use `--model offline`."
        )
    return model


def _lacks_credentials(model: BaseLlm | None) -> bool:
    """Whether an agent's model cannot answer without what the environment does not hold."""
    if model is None:
        return True
    return model.backend is not None and not any(getattr(model, name, None) for name in _EXPLICIT)


def _llm_agents(root: BaseAgent) -> list[LlmAgent]:
    agents: list[LlmAgent] = [root] if isinstance(root, LlmAgent) else []
    for child in root.sub_agents:
        agents += _llm_agents(child)
    return agents

"""Which model answers: the agents' own, the one asked for, or the offline stand-in."""

from __future__ import annotations

from flowloom.agents import BaseAgent, LlmAgent
from flowloom.cli.usage_error import UsageError
from flowloom.errors import ConfigurationError, ModelNotFoundError
from flowloom.models import BaseLlm, LLMRegistry
from flowloom.offline.model import OfflineModel
from flowloom.plugins import BasePlugin, ModelOverride

_SECONDS_PER_WORD = 0.02
"""The pace of the offline model on a terminal, so that one sees it write."""


class ModelChoice:
    """Which model answers, by way of a plugin; it can be changed between turns."""

    def __init__(self, root: BaseAgent, name: str | None, *, watched: bool) -> None:
        """The choice for this environment; `watched` slows the offline model down. Raises `UsageError`."""
        self._root = root
        self._offline = OfflineModel(seconds_per_word=_SECONDS_PER_WORD if watched else 0.0)
        # agents of tools come up only in the run, so the plugin decides for each again
        self._override = ModelOverride(self._offline, replaces=_lacks_credentials)
        self.plugins: list[BasePlugin] = [self._override]
        self.notice = ""
        """What the person is told at the beginning."""
        if name is not None:
            self.notice = self.take(name)
        elif missing := dict.fromkeys(_missing(model) for model in _models_of(root) if _lacks_credentials(model)):
            self.notice = " ".join(["The offline stand-in answers, by comparing words.", *missing])

    def take(self, name: str) -> str:
        """Let the model of this name answer for all agents from now on; what is told of it. Raises `UsageError`."""
        model = self._offline if name == self._offline.model else usable(model_named(name))
        self._override.model, self._override.replaces = model, None
        return f"All agents use the model {name}."

    def told(self) -> str:
        """Which model answers for the root; for those below it, if it asks none."""
        names = list(dict.fromkeys(map(self._answering, _models_of(self._root))))
        if not names:
            return f"{self._root.name} asks no model."
        if isinstance(self._root, LlmAgent):
            return f"The model of {self._root.name} is {names[0]}."
        return f"{self._root.name} asks no model itself; the agents below it use {', '.join(names)}."

    def _answering(self, own: BaseLlm | None) -> str:
        """The name of the model that answers in the place of an agent's own."""
        replaces = self._override.replaces
        if own is not None and replaces is not None and not replaces(own):
            return own.model
        instead = f" (in the place of {own.model if own else 'none'})" if replaces is not None else ""
        return f"{self._override.model.model}{instead}"


def model_named(name: str) -> BaseLlm:
    """The model of that name. Raises `UsageError` if none is known, or its library is not installed."""
    try:
        return LLMRegistry.new_llm(name)
    except ModelNotFoundError as error:
        raise UsageError(
            f"`{name}` is no model that is known here. Use `gemini-...`, `openai/...`, `anthropic/...`, `ollama/...`, "
            f"`http://HOST/v1#NAME`, `human` or `offline`; others have to be registered with `LLMRegistry` by the "
            f"agent's own code."
        ) from error
    except ConfigurationError as error:
        raise UsageError(str(error)) from error


def usable(model: BaseLlm) -> BaseLlm:
    """The model itself. Raises `UsageError` if it lacks a key."""
    if model.missing_credentials is not None:
        raise UsageError(f"The model `{model.model}` needs a key. {_missing(model)} Or use `--model offline`.")
    return model


def _lacks_credentials(model: BaseLlm | None) -> bool:
    """Whether an agent has no model, or one that cannot answer without what the environment does not hold."""
    return model is None or model.missing_credentials is not None


def _missing(model: BaseLlm | None) -> str:
    if model is None:
        return "An agent has no model."
    return model.missing_credentials or ""


def _models_of(root: BaseAgent, inherited: BaseLlm | None = None) -> list[BaseLlm | None]:
    """The models of the agents in a tree, their ancestors' where they have none of their own."""
    models: list[BaseLlm | None] = []
    if isinstance(root, LlmAgent):
        inherited = root.own_model or inherited
        models.append(inherited)
    for child in root.sub_agents:
        models += _models_of(child, inherited)
    return models

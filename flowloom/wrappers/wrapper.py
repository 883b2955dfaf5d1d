"""`WrapperModel`: a model around another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowloom.errors import ConfigurationError
from flowloom.models.base_llm import Backend, BaseLlm
from flowloom.models.registry import LLMRegistry
from flowloom.models.request import LlmRequest
from flowloom.models.server_tools import Asked


class WrapperModel(BaseLlm):
    """A model that asks another one. To agents it is what `inner` is: they see its name, backend and abilities."""

    inner: BaseLlm

    def __init__(self, model: BaseLlm | str, **fields: Any) -> None:
        inner = resolved(model)
        super().__init__(model=inner.model, inner=inner, **fields)  # pyright: ignore[reportCallIssue]

    @property
    def backend(self) -> Backend | None:
        return self.inner.backend

    @property
    def hosted(self) -> bool:
        return self.inner.hosted

    @property
    def missing_credentials(self) -> str | None:
        return self.inner.missing_credentials

    @property
    def output_schema_and_tools(self) -> bool:
        return self.inner.output_schema_and_tools

    def server_tool_refusal(self, asked: Asked, functions: Sequence[str], model: str | None = None) -> str | None:
        return self.inner.server_tool_refusal(asked, functions, model)

    @property
    def keeps_call_ids(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - a class does not know it
        return self.inner.keeps_call_ids

    @property
    def provider_name(self) -> str | None:
        """The provider's name for telemetry, if `inner` has one."""
        return provider_name_of(self.inner)

    def connect(self, llm_request: LlmRequest) -> Any:
        return self.inner.connect(llm_request)

    async def aclose(self) -> None:
        """Close the connections of `inner`."""
        await close(self.inner)


def resolved(model: BaseLlm | str) -> BaseLlm:
    """A model, or the one of that name. Raises `ConfigurationError` for what is neither."""
    if isinstance(model, str):
        return LLMRegistry.new_llm(model)
    if not isinstance(model, BaseLlm):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{model!r} is no model. Pass a `BaseLlm`, or the name of a registered one.")
    return model


def provider_name_of(model: BaseLlm) -> str | None:
    """What a model says its provider is called, if anything."""
    return getattr(model, "provider_name", None)


async def close(model: BaseLlm) -> None:
    """Close a model's connections, if it has some."""
    hook = getattr(model, "aclose", None)
    if hook is not None:
        await hook()

"""`BaseLlm`: the seam between the flow and any model (contract "Model" of the house)."""

# no annotations as texts: pydantic would compile each of the fields' by itself

import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from google.genai import types
from pydantic import PrivateAttr

from flowloom.errors import ConfigurationError, NotSupportedError
from flowloom.events.parts import parts_of
from flowloom.events.response import LlmResponse
from flowloom.events.wire import fields_of, replace
from flowloom.models.request import LlmRequest
from flowloom.objects.settings import Settings

if TYPE_CHECKING:
    from flowloom.models.server_tools import Asked

SILENCE_SECONDS = 600.0
"""How long a provider may be silent, if a model says nothing else."""
NO_CONTENT = "MODEL_RETURNED_NO_CONTENT"
_log = logging.getLogger("flowloom.models")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
Backend = Literal["gemini_api", "vertex_ai"]


class BaseLlm(Settings):
    """A model that answers `LlmRequest`s.

    Subclasses implement `generate_content_async`. With `stream=True` it yields partial responses
    (`partial=True`) and then one complete response that repeats all their content; without, the complete one
    only. It must not change the request's contents: they are the session's history.
    """

    model: str
    """The model's name, as the provider knows it."""

    _left_out: set[str] = PrivateAttr(default_factory=set[str])

    keeps_call_ids: ClassVar[bool] = False
    """Whether ids of function calls that were minted here (`adk-...`) are sent to this model (decision 16)."""

    media_types: ClassVar[Sequence[str]] = ()
    """What files a message to this model may hold beside text, as far as the adapter knows."""

    @classmethod
    def supported_models(cls) -> list[str]:
        """Regular expressions of the model names that this class serves, for `LLMRegistry`."""
        return []

    @classmethod
    def from_name(cls, name: str) -> Self:
        """The model called `name`, which matches one of `supported_models()`."""
        return cls(model=name)

    @property
    def backend(self) -> Backend | None:
        """Which Google backend answers, or None when it is another or not known (spec §23)."""
        return None

    @property
    def hosted(self) -> bool:
        """Whether a call leaves this machine, and may cost money; tests forbid it (`block_model_requests`)."""
        return False

    @property
    def missing_credentials(self) -> str | None:
        """What to set before the model can be called; None when nothing is known to be missing."""
        return None

    @property
    def output_schema_and_tools(self) -> bool:
        """Whether the model itself can combine a response schema with tools (spec §10.1)."""
        return False

    def server_tool_refusal(self, asked: "Asked", functions: Sequence[str], model: str | None = None) -> str | None:
        """Why the provider cannot run the tool that is `asked` for beside these `functions`, and what to do.

        None if it can, or if nothing is known of it. `model` is the name in the request, if that has one of its own.
        """
        return None

    def _leave_out(self, field: str) -> None:
        """Say once that the provider does not get something of a request."""
        if field not in self._left_out:
            self._left_out.add(field)
            _log.warning("`%s` is left out of requests to `%s`: its API has no such thing.", field, self.model)

    @abstractmethod
    def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer `llm_request`; with `stream`, by partial responses first. Failures are raised as `ModelError`s."""
        raise NotImplementedError

    def connect(self, llm_request: LlmRequest) -> Any:
        """Open a live connection for `llm_request`. No adapter of this release does: raises `NotSupportedError`."""
        raise NotSupportedError(
            f"Live connections are not supported yet; model `{self.model}` answers by request only."
        )


def as_response(given: Any, model: str) -> LlmResponse:
    """What the `model` has yielded. Raises `ConfigurationError` for what is no response."""
    if not hasattr(given, "partial"):
        raise ConfigurationError(f"Model `{model}` yields a {type(given).__name__}. A model yields `LlmResponse`s.")
    return given


def mark_if_empty(response: LlmResponse) -> LlmResponse:
    """A complete response that says nothing becomes an error, never silence (decision 3)."""
    if response.partial:
        return response
    parts = parts_of(response.content)
    ended = response.finish_reason is types.FinishReason.STOP or not (parts or response.turn_complete)
    if not ended or not all(map(_says_nothing, parts)):
        return response
    heard = response.input_transcription or response.output_transcription
    if response.error_code or response.interrupted or heard:
        return response
    told = response.error_message or "The model ended its turn without saying or calling anything."
    return replace(response, error_code=NO_CONTENT, error_message=told)


def is_silent(response: LlmResponse) -> bool:
    """Whether a response gives no event."""
    return response.content is None and not response.error_code and not response.interrupted


def _says_nothing(part: types.Part) -> bool:
    if part.text and (part.thought or part.text.strip()):
        return False
    return all(
        value is None or name in ("text", "thought", "thought_signature") for name, value in fields_of(part).items()
    )


def is_loopback(url: str | None) -> bool:
    """Whether a URL leads to this machine."""
    return url is not None and urlsplit(url).hostname in _LOOPBACK

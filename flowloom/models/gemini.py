"""`Gemini`: the adapter for Gemini models, on the Gemini API and on Vertex AI (spec §16b, §23).

Here is what an adapter is told, and what it says of itself; `gemini_service` has how it calls.
"""

# no annotations as texts: pydantic would compile each of the fields' by itself

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from google.auth import credentials as auth_credentials
from pydantic import Field, PrivateAttr

from flowloom.errors import ConfigurationError
from flowloom.events.response import LlmResponse
from flowloom.models.base_llm import SILENCE_SECONDS, Backend, BaseLlm, is_loopback
from flowloom.models.model_names import model_name, needs_schema_tool
from flowloom.models.request import LlmRequest
from flowloom.models.retry import RetryOptions
from flowloom.objects.on_use import ModuleOnUse
from flowloom.objects.settings import class_on_use

if TYPE_CHECKING:
    from google.genai.types import HttpOptions

    from flowloom.models import gemini_service
    from flowloom.models.context_cache import ContextCacheConfig
    from flowloom.models.server_tools import Asked
else:
    gemini_service = ModuleOnUse("flowloom.models.gemini_service")
    HttpOptions = class_on_use("google.genai.types", "HttpOptions")  # its schema takes longer than all else here
    ContextCacheConfig = class_on_use("flowloom.models.context_cache", "ContextCacheConfig")


class Gemini(BaseLlm):
    """A Gemini model.

    Where to call and with which credentials is given here or, where left out, by the environment:
    `GOOGLE_GENAI_USE_VERTEXAI`, `GOOGLE_API_KEY` or `GEMINI_API_KEY`, `GOOGLE_CLOUD_PROJECT`,
    `GOOGLE_CLOUD_LOCATION`, `GOOGLE_GEMINI_BASE_URL`, `GOOGLE_VERTEX_BASE_URL`.

    An adapter can be built without credentials; the first call then raises `ConfigurationError`. It may be used
    from any number of event loops. Connections are closed when their loop ends, or by `aclose()`.
    """

    media_types: ClassVar[Sequence[str]] = (
        *("image/png", "image/jpeg", "image/webp", "application/pdf"),
        *("audio/wav", "audio/mpeg", "video/mp4"),
    )

    model: str = "gemini-2.5-flash"
    base_url: str | None = None
    """Where to send requests, for proxies and tests."""
    api_key: str | None = Field(default=None, repr=False, exclude=True)
    vertexai: bool | None = None
    """True for Vertex AI, False for the Gemini API, None for what the environment says."""
    project: str | None = None
    location: str | None = None
    credentials: auth_credentials.Credentials | None = Field(default=None, repr=False, exclude=True)
    """Google credentials for Vertex AI; application default credentials if left out."""
    retry_options: RetryOptions = Field(default_factory=RetryOptions)
    """How refused and failed calls are made again; google-genai's `HttpRetryOptions` are accepted."""
    http_options: HttpOptions | None = Field(default=None, repr=False, exclude=True)
    """google-genai's HTTP options, for all calls. Its `timeout` is in milliseconds, is told to the server too, and goes
    before the model's own; its `aiohttp_client` is not used."""
    timeout: float | None = Field(default=SILENCE_SECONDS, gt=0)
    """Seconds that the provider may be silent; None for any time."""

    context_cache_config: ContextCacheConfig | None = None
    """How the beginnings of requests are cached, for those that do not say it themselves (`cache_config`)."""

    if TYPE_CHECKING:
        _connection: gemini_service.Connection | None = PrivateAttr(default=None)
    else:
        _connection: Any = PrivateAttr(default=None)

    def _when_made(self) -> None:
        """Connect now, so that nothing is left for the first request; unless the credentials must be looked for."""
        super()._when_made()
        if hasattr(type(self), "api_client"):
            raise ConfigurationError(
                f"{type(self).__name__} makes a client, `api_client`, which is not used here: say where to call and "
                "with what, by `vertexai`, `project`, `location`, `credentials`, `base_url` or `http_options`."
            )
        if (self.project or self.location) and not self._is_vertex():
            raise ConfigurationError(
                "`project` and `location` are settings of Vertex AI: pass `vertexai=True` as well."
            )
        if self._has_credentials():
            self._connection = gemini_service.Connection(self)

    @classmethod
    def supported_models(cls) -> list[str]:
        """Gemini models by name, and Vertex AI models and endpoints by resource name."""
        return [r"gemini-.*", r"projects/.+/locations/.+/(endpoints|publishers/google/models)/.+"]

    @property
    def backend(self) -> Backend:
        """Which of Google's two services answers (spec §23)."""
        vertex = self._is_vertex() if self._connection is None else self._connection.client.vertexai
        return "vertex_ai" if vertex else "gemini_api"

    @property
    def missing_credentials(self) -> str | None:
        """A key is needed for the Gemini API; what Vertex AI needs may be found on this machine or its network."""
        return None if self._is_vertex() or self._has_credentials() else gemini_service.CREDENTIALS

    @property
    def hosted(self) -> bool:
        """True, unless `base_url` (or its variable in the environment) names this machine."""
        variable = "GOOGLE_VERTEX_BASE_URL" if self._is_vertex() else "GOOGLE_GEMINI_BASE_URL"
        options = self.http_options
        url = self.base_url or (options and options.base_url) or os.environ.get(variable)
        return not is_loopback(url)

    @property
    def output_schema_and_tools(self) -> bool:
        """Whether a response schema may be set beside tools (spec §10.1); tuned models and others get it as well."""
        return not needs_schema_tool(self.model, self.backend)

    def server_tool_refusal(self, asked: "Asked", functions: Sequence[str], model: str | None = None) -> str | None:
        return gemini_service.gemini_refusal(asked, functions, model_name(model or self.model), self.backend)

    def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer `llm_request`, whose `model` goes before the adapter's. Nothing in the request is changed.

        Blocked prompts and answers without content are responses with an error code (spec §16.1). Raises
        `ModelRateLimitError`, `ModelUnavailableError`, `ModelRequestError`, `ModelResponseError` or
        `ModelStreamError`, the cause attached; `ConfigurationError` when there are no credentials.
        Closing the generator closes the connection.
        """
        return gemini_service.answers(self, self._connected, llm_request, stream)

    async def aclose(self) -> None:
        """Delete the context caches that were made here, and close the connections.

        The adapter may be used on; it opens new ones.
        """
        if self._connection is not None:
            await self._connection.aclose()

    # -- the connection --------------------------------------------------------------------------

    def _is_vertex(self) -> bool:
        if self.vertexai is not None:
            return self.vertexai
        said = os.environ.get("GOOGLE_GENAI_USE_ENTERPRISE") or os.environ.get("GOOGLE_GENAI_USE_VERTEXAI") or ""
        return said.lower() in ("true", "1")

    def _has_credentials(self) -> bool:
        """Whether the client can be made without searching this machine and its network for credentials."""
        has_key = bool(self.api_key or os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY"))
        if has_key or not self._is_vertex():
            return has_key
        options_url = self.http_options.base_url if self.http_options is not None else None
        base_url = self.base_url or options_url or os.environ.get("GOOGLE_VERTEX_BASE_URL")
        return bool(self.project or os.environ.get("GOOGLE_CLOUD_PROJECT") or base_url)

    async def _connected(self) -> "gemini_service.Connection":
        if self._connection is None:
            if self.missing_credentials is not None:
                raise ConfigurationError(f"The model `{self.model}` has no credentials. {self.missing_credentials}")
            # The search for credentials reads files and may ask the machine's metadata server.
            made = await asyncio.to_thread(gemini_service.Connection, self)
            self._connection = self._connection or made
        return self._connection

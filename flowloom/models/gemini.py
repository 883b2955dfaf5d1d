"""`Gemini`: the adapter for Gemini models, on the Gemini API and on Vertex AI (spec §16b, §23).

google-genai's client decides where a request goes, signs it, converts its config and reports refusals. The
contents and the answers pass it by, because it works through the whole history again in each call and takes a
streamed chunk through JSON four times (see `gemini_contents` and `gemini_http`).
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, ClassVar, cast

from google import genai
from google.auth import credentials as auth_credentials
from google.auth import exceptions as auth_exceptions
from google.genai import types
from pydantic import Field, PrivateAttr

from flowloom import __version__
from flowloom.errors import ConfigurationError, ModelRequestError, ModelResponseError
from flowloom.events.response import LlmResponse
from flowloom.events.wire import make, replace
from flowloom.models.aggregator import StreamingAggregator
from flowloom.models.base_llm import Backend, BaseLlm, is_loopback
from flowloom.models.context_cache import ContextCacheConfig
from flowloom.models.gemini_cache import CachePlan, ContextCaches
from flowloom.models.gemini_call import GeminiCall
from flowloom.models.gemini_contents import contents_to_json
from flowloom.models.gemini_errors import CREDENTIALS
from flowloom.models.gemini_http import AnswerTakingClient
from flowloom.models.gemini_tools import gemini_refusal, with_server_tools
from flowloom.models.grounding import aligned
from flowloom.models.http import SILENCE_SECONDS, default_tls, httpx, load_transport
from flowloom.models.model_names import model_name, needs_schema_tool
from flowloom.models.request import LlmRequest, http_options_of
from flowloom.models.retry import RetryOptions
from flowloom.models.server_tools import Asked
from flowloom.models.turns import legal_contents, spoken_contents

_LABEL = f"flowloom/{__version__} gl-python/{platform.python_version()}"
_LABELLED = ("x-goog-api-client", "user-agent")
_API_VERSION = "v1beta"
_NO_CALLING = make(types.AutomaticFunctionCallingConfig, disable=True)


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
    http_options: types.HttpOptions | None = Field(default=None, repr=False, exclude=True)
    """google-genai's HTTP options, for all calls. Its `timeout` is in milliseconds, is told to the server too, and goes
    before the model's own; its `aiohttp_client` is not used."""
    timeout: float | None = Field(default=SILENCE_SECONDS, gt=0)
    """Seconds that the provider may be silent; None for any time."""

    context_cache_config: ContextCacheConfig | None = None
    """How the beginnings of requests are cached, for those that do not say it themselves (`cache_config`)."""

    _client: genai.Client | None = PrivateAttr(default=None)
    _http: AnswerTakingClient | None = PrivateAttr(default=None)
    _caches: ContextCaches = PrivateAttr(default_factory=ContextCaches)

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
            self._client = self._connected()

    @classmethod
    def supported_models(cls) -> list[str]:
        """Gemini models by name, and Vertex AI models and endpoints by resource name."""
        return [r"gemini-.*", r"projects/.+/locations/.+/(endpoints|publishers/google/models)/.+"]

    @property
    def backend(self) -> Backend:
        """Which of Google's two services answers (spec §23)."""
        vertex = self._is_vertex() if self._client is None else self._client.vertexai
        return "vertex_ai" if vertex else "gemini_api"

    @property
    def missing_credentials(self) -> str | None:
        """A key is needed for the Gemini API; what Vertex AI needs may be found on this machine or its network."""
        return None if self._is_vertex() or self._has_credentials() else CREDENTIALS

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

    def server_tool_refusal(self, asked: Asked, functions: Sequence[str], model: str | None = None) -> str | None:
        return gemini_refusal(asked, functions, model_name(model or self.model), self.backend)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer `llm_request`, whose `model` goes before the adapter's. Nothing in the request is changed.

        Blocked prompts and answers without content are responses with an error code (spec §16.1). Raises
        `ModelRateLimitError`, `ModelUnavailableError`, `ModelRequestError`, `ModelResponseError` or
        `ModelStreamError`, the cause attached; `ConfigurationError` when there are no credentials.
        Closing the generator closes the connection.
        """
        model = model_name(llm_request.model or self.model)
        client = self._client or await self._connect_late()
        if self._http is not None:
            self._http.silence = self.timeout
        retry = self.retry_options.overridden_by(
            http_options_of(llm_request).retry_options, self.http_options and self.http_options.retry_options
        )
        config = self._config_for(llm_request, model)
        plan = await self._cache_plan(client, model, llm_request, config)
        call = GeminiCall(
            client, model, plan.config if plan else config, retry, stream=stream, otherwise=plan and plan.after
        )
        aggregator = StreamingAggregator()
        whole: list[types.GenerateContentResponse] = []
        try:
            while (chunks := await call.read()) is not None:
                if not stream:
                    whole += chunks
                    continue
                for chunk in chunks:
                    for partial in _partial_ones(aggregator, chunk):
                        yield partial
        finally:
            await call.aclose()
            if plan is not None:
                await plan.aclose()
        complete = aggregator.close() if stream else _as_one(whole, aggregator)
        if complete is not None:
            if plan is not None:
                plan.answered(complete)
            if complete.grounding_metadata is not None:
                complete.grounding_metadata = aligned(complete.grounding_metadata, complete.content)
            yield complete

    async def aclose(self) -> None:
        """Delete the context caches that were made here, and close the connections.

        The adapter may be used on; it opens new ones.
        """
        if self._client is not None:
            await self._caches.aclose(self._client)
        if self._http is not None:
            await self._http.aclose()

    # -- the client ------------------------------------------------------------------------------

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

    async def _connect_late(self) -> genai.Client:
        if self.missing_credentials is not None:
            raise ConfigurationError(f"The model `{self.model}` has no credentials. {self.missing_credentials}")
        # The search for credentials reads files and may ask the machine's metadata server.
        client = await asyncio.to_thread(self._connected)
        if self._client is None:
            self._client = client
        return self._client

    def _connected(self) -> genai.Client:
        load_transport()
        options = types.HttpOptions() if self.http_options is None else replace(self.http_options)
        if getattr(options, "aiohttp_client", None) is not None:
            raise ConfigurationError("`http_options.aiohttp_client` is not supported; pass an `httpx_async_client`.")
        if self._http is None:
            given = cast("httpx.AsyncClient | None", options.httpx_async_client)  # pyright: ignore[reportUnknownMemberType]
            self._http = AnswerTakingClient(options.async_client_args, given)
        options.httpx_async_client = self._http
        # One TLS context for the clients that google-genai makes beside ours, instead of three of its own.
        tls = (options.async_client_args or {}).get("verify", default_tls())
        options.client_args = {"verify": tls, **(options.client_args or {})}
        options.async_client_args = {"ssl": tls}
        options.base_url = self.base_url or options.base_url
        options.retry_options = None
        options.headers = _labelled(options.headers or {})
        vertex = self._is_vertex()
        if not vertex and not os.environ.get("GOOGLE_GENAI_API_VERSION"):
            options.api_version = options.api_version or _API_VERSION
        try:
            return genai.Client(
                vertexai=vertex,
                api_key=self.api_key,
                credentials=self.credentials,
                project=self.project,
                location=self.location,
                http_options=options,
            )
        except (ValueError, auth_exceptions.GoogleAuthError) as error:
            raise ConfigurationError(
                f"The client for the model `{self.model}` could not be made: {error} {CREDENTIALS}"
            ) from error

    # -- the request -----------------------------------------------------------------------------

    async def _cache_plan(
        self, client: genai.Client, model: str, request: LlmRequest, config: types.GenerateContentConfig
    ) -> CachePlan | None:
        """How the request is sent by means of a context cache; None if there is to be none."""
        given: Any = request.cache_config or self.context_cache_config
        if given is None:
            return None
        settings = given if isinstance(given, ContextCacheConfig) else ContextCacheConfig(**dict(given))
        place = [self.base_url]
        if client.vertexai:
            place += [self.project or os.environ.get("GOOGLE_CLOUD_PROJECT")]
            place += [self.location or os.environ.get("GOOGLE_CLOUD_LOCATION")]
        scope = " ".join([self.backend, *(each or "" for each in place)])
        return await self._caches.plan(client, model, scope, request, config, settings)

    def _config_for(self, request: LlmRequest, model: str) -> types.GenerateContentConfig:
        """A private config for google-genai, with the contents as an addition to the body."""
        plain = spoken_contents(request)
        if not plain:
            raise ModelRequestError(f"The request to the model `{model}` has no contents.", model=model)
        config = replace(request.config)
        config.automatic_function_calling = _NO_CALLING  # the flow calls functions
        config.should_return_http_response = None
        if self.backend == "gemini_api" and config.labels:
            self._leave_out("config.labels")  # they are for billing on Vertex AI
            config.labels = None
        if request.service_tier and config.service_tier is None:
            config.service_tier = types.ServiceTier(request.service_tier)
        if config.tools or request.server_tools:  # pyright: ignore[reportUnknownMemberType]
            with_server_tools(config, request, model, self.backend)
        options = http_options_of(request)
        options.retry_options = None
        if options.headers:
            options.headers = _labelled(options.headers)
        options.extra_body = {"contents": _Json(contents_to_json(legal_contents(plain))), **(options.extra_body or {})}
        config.http_options = options
        return config


class _Json(list[dict[str, Any]]):
    """JSON data that is not copied item by item: google-genai copies the config deeply, and these are on it."""

    def __deepcopy__(self, memo: object) -> list[dict[str, Any]]:
        return list(self)


def _partial_ones(aggregator: StreamingAggregator, chunk: types.GenerateContentResponse) -> list[LlmResponse]:
    try:
        return aggregator.feed(chunk)
    except ModelResponseError:  # of arguments that cannot be built: the model hears of it by the call's result
        return []


def _as_one(whole: list[types.GenerateContentResponse], aggregator: StreamingAggregator) -> LlmResponse | None:
    """The response of an unstreamed call; it is in several pieces only if it had to be continued."""
    if len(whole) == 1:
        response = LlmResponse.create(whole[0])
        response.turn_complete = response.finish_reason is not None
        return response
    for piece in whole:
        aggregator.feed(piece)
    return aggregator.close()


def _labelled(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with this library's label, one value for each name. google-genai puts its own before it."""
    labelled = {name: value for name, value in headers.items() if name.lower() not in _LABELLED}
    for label in _LABELLED:
        given = [value for name, value in headers.items() if name.lower() == label]
        labelled[label] = " ".join(dict.fromkeys([*given, _LABEL]))
    return labelled

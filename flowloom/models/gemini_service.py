"""How a `Gemini` calls Google: the client, the request as it is sent, and the answers. Loaded when one connects.

google-genai's client decides where a request goes, signs it, converts its config and reports refusals. The
contents and the answers pass it by, because it works through the whole history again in each call and takes a
streamed chunk through JSON four times (see `gemini_contents` and `gemini_http`).
"""

from __future__ import annotations

import os
import platform
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

from google import genai
from google.auth import credentials as auth_credentials
from google.auth import exceptions as auth_exceptions
from google.genai import types

from flowloom import __version__
from flowloom.errors import ConfigurationError, ModelRequestError, ModelResponseError
from flowloom.events.response import LlmResponse
from flowloom.events.wire import make, replace
from flowloom.models.aggregator import StreamingAggregator
from flowloom.models.base_llm import Backend
from flowloom.models.context_cache import ContextCacheConfig
from flowloom.models.gemini_cache import CachePlan, ContextCaches
from flowloom.models.gemini_call import GeminiCall
from flowloom.models.gemini_contents import contents_to_json
from flowloom.models.gemini_errors import CREDENTIALS
from flowloom.models.gemini_http import AnswerTakingClient
from flowloom.models.gemini_tools import gemini_refusal, with_server_tools
from flowloom.models.grounding import aligned
from flowloom.models.http import default_tls, httpx, load_transport
from flowloom.models.model_names import model_name
from flowloom.models.request import LlmRequest, http_options_of
from flowloom.models.retry import RetryOptions
from flowloom.models.turns import legal_contents, spoken_contents

__all__ = ["CREDENTIALS", "Connection", "answers", "gemini_refusal"]

_LABEL = f"flowloom/{__version__} gl-python/{platform.python_version()}"
_LABELLED = ("x-goog-api-client", "user-agent")
_API_VERSION = "v1beta"
_NO_CALLING = make(types.AutomaticFunctionCallingConfig, disable=True)


class Settings(Protocol):
    """What is asked of a `Gemini`, at each call anew: a copy of it may have others, and shares the connection."""

    model: str
    base_url: str | None
    api_key: str | None
    project: str | None
    location: str | None
    credentials: auth_credentials.Credentials | None
    retry_options: RetryOptions
    http_options: types.HttpOptions | None
    timeout: float | None
    context_cache_config: ContextCacheConfig | None

    @property
    def backend(self) -> Backend: ...

    def _leave_out(self, field: str) -> None: ...


class Connection:
    """google-genai's client, what it sends with, and the context caches that were made by it."""

    def __init__(self, model: Settings) -> None:
        load_transport()
        options = types.HttpOptions() if model.http_options is None else replace(model.http_options)
        if getattr(options, "aiohttp_client", None) is not None:
            raise ConfigurationError("`http_options.aiohttp_client` is not supported; pass an `httpx_async_client`.")
        given = cast("httpx.AsyncClient | None", options.httpx_async_client)  # pyright: ignore[reportUnknownMemberType]
        self.http = options.httpx_async_client = AnswerTakingClient(options.async_client_args, given)
        # One TLS context for the clients that google-genai makes beside ours, instead of three of its own.
        tls = (options.async_client_args or {}).get("verify", default_tls())
        options.client_args = {"verify": tls, **(options.client_args or {})}
        options.async_client_args = {"ssl": tls}
        options.base_url = model.base_url or options.base_url
        options.retry_options = None
        options.headers = _labelled(options.headers or {})
        vertex = model.backend == "vertex_ai"
        if not vertex and not os.environ.get("GOOGLE_GENAI_API_VERSION"):
            options.api_version = options.api_version or _API_VERSION
        try:
            self.client = genai.Client(
                vertexai=vertex,
                api_key=model.api_key,
                credentials=model.credentials,
                project=model.project,
                location=model.location,
                http_options=options,
            )
        except (ValueError, auth_exceptions.GoogleAuthError) as error:
            raise ConfigurationError(
                f"The client for the model `{model.model}` could not be made: {error} {CREDENTIALS}"
            ) from error
        self.caches = ContextCaches()

    async def aclose(self) -> None:
        """Delete the context caches, and close the connections; new ones are opened when it is used on."""
        await self.caches.aclose(self.client)
        await self.http.aclose()


async def answers(
    model: Settings, connected: Callable[[], Awaitable[Connection]], request: LlmRequest, stream: bool
) -> AsyncGenerator[LlmResponse, None]:
    """What `Gemini.generate_content_async` yields."""
    name = model_name(request.model or model.model)
    connection = await connected()
    connection.http.silence = model.timeout
    retry = model.retry_options.overridden_by(
        http_options_of(request).retry_options, model.http_options and model.http_options.retry_options
    )
    config = _config_for(model, request, name)
    plan = await _cache_plan(model, connection, name, request, config)
    call = GeminiCall(
        connection.client,
        name,
        plan.config if plan else config,
        retry,
        stream=stream,
        otherwise=plan and plan.after,
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


async def _cache_plan(
    model: Settings, connection: Connection, name: str, request: LlmRequest, config: types.GenerateContentConfig
) -> CachePlan | None:
    """How the request is sent by means of a context cache; None if there is to be none."""
    given: Any = request.cache_config or model.context_cache_config
    if given is None:
        return None
    settings = given if isinstance(given, ContextCacheConfig) else ContextCacheConfig(**dict(given))
    place = [model.base_url]
    if connection.client.vertexai:
        place += [model.project or os.environ.get("GOOGLE_CLOUD_PROJECT")]
        place += [model.location or os.environ.get("GOOGLE_CLOUD_LOCATION")]
    scope = " ".join([model.backend, *(each or "" for each in place)])
    return await connection.caches.plan(connection.client, name, scope, request, config, settings)


def _config_for(model: Settings, request: LlmRequest, name: str) -> types.GenerateContentConfig:
    """A private config for google-genai, with the contents as an addition to the body."""
    plain = spoken_contents(request)
    if not plain:
        raise ModelRequestError(f"The request to the model `{name}` has no contents.", model=name)
    config = replace(request.config)
    config.automatic_function_calling = _NO_CALLING  # the flow calls functions
    config.should_return_http_response = None
    if model.backend == "gemini_api" and config.labels:
        model._leave_out("config.labels")  # pyright: ignore[reportPrivateUsage] - they are for billing on Vertex AI
        config.labels = None
    if request.service_tier and config.service_tier is None:
        config.service_tier = types.ServiceTier(request.service_tier)
    if config.tools or request.server_tools:  # pyright: ignore[reportUnknownMemberType]
        with_server_tools(config, request, name, model.backend)
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

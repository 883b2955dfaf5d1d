"""`SdkModel`: what the adapters on the SDKs of other providers share."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, cast

from google.genai import types
from pydantic import Field, PrivateAttr

from flowloom.errors import ConfigurationError, ModelRequestError
from flowloom.events.response import LlmResponse
from flowloom.models.base_llm import SILENCE_SECONDS, BaseLlm, is_loopback
from flowloom.models.http import ADDRESS_ERRORS, HIDDEN, LoopClient, is_private
from flowloom.models.request import LlmRequest, http_options_of, note_dropped
from flowloom.models.retry import RetryOptions
from flowloom.models.turns import legal_contents, spoken_contents
from flowloom.providers.sdk_answers import joined_answers
from flowloom.providers.sdk_call import AnswerReader, SdkCall, SentRequest
from flowloom.providers.sdk_request import Treatment, as_json, check_settings, unsupported

_log = logging.getLogger("flowloom.models")
_UNUSED_HTTP = ("base_url", "base_url_resource_scope", "api_version", "client_args", "async_client_args")
_CLIENTS = ("httpx_client", "httpx_async_client", "aiohttp_client")


def _hide_headers(record: logging.LogRecord) -> bool:
    """The options of a request, which SDKs log at DEBUG, without the headers that may hold secrets."""
    if isinstance(record.args, Mapping):
        options = cast("Mapping[str, Any]", record.args)
        given = options.get("headers")
        if isinstance(given, Mapping):
            headers = cast("Mapping[str, Any]", given).items()
            shown = {name: HIDDEN if is_private(name) else value for name, value in headers}
            record.args = {**options, "headers": shown}
    return True


for _name in ("openai._base_client", "anthropic._base_client"):
    logging.getLogger(_name).addFilter(_hide_headers)


MAX_PAUSES = 10
"""How often an answer is continued in which its provider pauses."""


class MadeFile(NamedTuple):
    """A file on the provider's side: its id, its name, and the container that it is in, as far as they are known."""

    id: str
    name: str = ""
    container: str = ""


class SdkModel(BaseLlm):
    """A model behind a provider's own SDK.

    An adapter can be built without credentials; the first call then raises `ConfigurationError`. It may be used
    from any number of event loops. Connections are closed when their loop ends, or by `aclose()`.
    """

    base_url: str | None = None
    """Where to send requests; the SDK's environment variable or its own default if left out."""
    api_key: str | None = Field(default=None, repr=False, exclude=True)
    """The key; the SDK's environment variable if left out."""
    timeout: float | None = Field(default=SILENCE_SECONDS, gt=0)
    """Seconds that the provider may be silent; None for any time."""
    headers: dict[str, str] = Field(default_factory=dict[str, str], repr=False, exclude=True)
    """Added to each request."""
    extra_body: dict[str, Any] = Field(default_factory=dict[str, Any], repr=False)
    """Added to the body of each request, objects field by field: what only this provider or server knows."""
    retry_options: RetryOptions = Field(default_factory=RetryOptions)
    """How refused and failed calls are made again; the SDK's own retries are off."""

    keeps_call_ids: ClassVar[bool] = True

    _client: Any = PrivateAttr(default=None)
    _client_settings: Any = PrivateAttr(default=None)
    _http: LoopClient = PrivateAttr(default_factory=LoopClient)

    def _when_made(self) -> None:
        """Connect now, so that nothing is left for the first request; unless there are no credentials yet."""
        super()._when_made()
        if self.api_key is not None:
            self.api_key = self.api_key.strip()  # one that was read from a file ends with its line
        for name, value in self.headers.items():
            if not (name + value).isprintable() or not (name + value).isascii():
                raise ConfigurationError(f"The header `{name}` of `{type(self).__name__}` is not plain ASCII text.")
        self._client_now()

    def __deepcopy__(self, memo: Any = None) -> Self:
        """A model of the same fields, with connections of its own."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields})

    # -- what an adapter is ------------------------------------------------------------------------

    @property
    @abstractmethod
    def treatments(self) -> Mapping[str, Treatment]:
        """What becomes of each field of a request's config; fields that are not named are refused."""
        raise NotImplementedError

    @property
    @abstractmethod
    def url(self) -> str:
        """Where requests go."""
        raise NotImplementedError

    @abstractmethod
    def _connected(self) -> Any:
        """The SDK's client, on `_http`."""
        raise NotImplementedError

    @abstractmethod
    def _method(self, client: Any) -> Callable[..., AbstractAsyncContextManager[SentRequest]]:
        """The method of the SDK's client that sends a request and leaves its answer unread.

        What it cannot be called without is given already; `extra_body` goes before it.
        """
        raise NotImplementedError

    @abstractmethod
    def _body(self, request: LlmRequest, contents: list[types.Content], model: str, stream: bool) -> dict[str, Any]:
        """The JSON of a request. Raises `UnsupportedFeatureError` for what it has no words for."""
        raise NotImplementedError

    @abstractmethod
    def _reader(self, model: str) -> AnswerReader:
        """What reads one answer."""
        raise NotImplementedError

    def _files_of(self, part: types.Part) -> list[MadeFile]:
        """The files that a tool of the provider's has made, by a part that tells of them."""
        return []

    async def _download(self, client: Any, file: MadeFile) -> types.Part:
        """A file that a tool of the provider's has made, which is there for a while."""
        raise NotImplementedError

    async def _add_files(self, content: types.Content) -> None:
        """Take over the files that tools of the provider's have made. One that cannot be had is only told of."""
        files = list(dict.fromkeys(file for part in content.parts or () for file in self._files_of(part)))
        for file in files:
            try:
                content.parts = [*(content.parts or ()), await self._download(self._client_now(), file)]
            except Exception as error:
                _log.warning("The file `%s` of `%s` could not be downloaded: %s", file.name, self.model, error)

    def _headers(self, request: LlmRequest, given: dict[str, str]) -> dict[str, str]:
        """The headers of a request, of which some are `given`."""
        return given

    # -- what all have -----------------------------------------------------------------------------

    @property
    def hosted(self) -> bool:
        """True, unless requests stay on this machine."""
        return not is_loopback(self.url)

    @property
    def output_schema_and_tools(self) -> bool:
        """True: a response schema may stand beside tools."""
        return True

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer `llm_request`, whose `model` goes before the adapter's. Nothing in the request is changed.

        Raises `ModelRateLimitError`, `ModelUnavailableError`, `ModelRequestError` (`UnsupportedFeatureError` for what
        the provider's API cannot express), `ModelResponseError` or `ModelStreamError`, the cause attached;
        `ConfigurationError` when there are no credentials. Closing the generator closes the connection.
        """
        model = llm_request.model or self.model
        said: list[LlmResponse] = []
        unfinished = True
        try:
            while unfinished and len(said) <= MAX_PAUSES:
                call = self._call(llm_request, model, stream, said)
                try:
                    while (responses := await call.read()) is not None:
                        for response in responses:
                            if response.partial:
                                yield response
                            else:
                                said.append(response)
                finally:
                    await call.aclose()
                unfinished = call.paused
        except BaseException:
            for response in said:
                note_dropped(llm_request, response)
            raise
        complete = joined_answers(said)
        if complete.content is not None and complete.content.parts:
            await self._add_files(complete.content)
        yield complete

    async def aclose(self) -> None:
        """Close the connections. The adapter may be used on; it opens new ones."""
        await self._http.aclose()

    def _client_now(self) -> Any:
        """The SDK's client for the settings as they are now; None without credentials.

        Raises `ConfigurationError` for settings of which none can be made.
        """
        settings = (self.base_url, self.api_key, getattr(self, "auth_token", None))
        if self._client is None or settings != self._client_settings:
            self._client = None
            try:
                if "?" in (self.base_url or ""):
                    raise ValueError(f"`base_url` has a query, which no path can be added to: {self.base_url}")
                if self.missing_credentials is None:
                    self._client, self._client_settings = self._connected(), settings
            except (ValueError, OSError, *ADDRESS_ERRORS) as error:
                if isinstance(error, ConfigurationError):
                    raise
                raise ConfigurationError(f"`{type(self).__name__}` cannot be set up: {error}") from error
        return self._client

    def _call(self, request: LlmRequest, model: str, stream: bool, said: Sequence[LlmResponse]) -> SdkCall:
        """The call of the provider, or the next one for an answer in which it has paused: `said` is what has come."""
        client = self._client_now()
        if client is None:
            raise ConfigurationError(f"The model `{self.model}` has no credentials. {self.missing_credentials}")
        plain = spoken_contents(request)
        if not plain:
            raise ModelRequestError(f"The request to the model `{model}` has no contents.", model=model)
        options = http_options_of(request)
        self._check(request, options, model)
        contents = [*legal_contents(plain), *(each.content for each in said if each.content and each.content.parts)]
        body = self._body(request, contents, model, stream)
        send = partial(
            self._method(client),
            extra_body=as_json(_merged(_merged(body, self.extra_body), options.extra_body or {})),
            extra_headers=self._headers(request, {**self.headers, **(options.headers or {})}),
            timeout=self.timeout if options.timeout is None else options.timeout / 1000,
        )
        retry = self.retry_options.overridden_by(options.retry_options)
        return SdkCall(send, lambda: self._reader(model), model, retry, stream=stream)

    def _check(self, request: LlmRequest, options: types.HttpOptions, model: str) -> None:
        """Refuse or report the settings that are not sent."""
        check_settings(request, model, self.treatments, self._leave_out, why="is not known to this provider")
        for name in _UNUSED_HTTP:
            if getattr(options, name, None) is not None:
                self._leave_out(f"config.http_options.{name}")
        for name in _CLIENTS:
            if getattr(options, name, None) is not None:
                raise unsupported(model, f"config.http_options.{name}", "belongs to google-genai")


def _merged(body: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A body with additions: objects field by field, all else replaced."""
    merged = dict(body)
    for name, value in more.items():
        old = merged.get(name)
        both = isinstance(old, dict) and isinstance(value, Mapping)
        merged[name] = _merged(cast(dict[str, Any], old), cast(Mapping[str, Any], value)) if both else value
    return merged

"""`AnthropicModel`: the adapter for Anthropic's models, on their SDK. Needs the extra `anthropic`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from google.genai import types
from pydantic import Field

from flowloom.errors import ConfigurationError
from flowloom.extras import absent, missing_extra, require
from flowloom.models.http import load_transport
from flowloom.models.request import LlmRequest, http_options_of
from flowloom.models.server_parts import made_file
from flowloom.models.server_tools import Asked, asked_of
from flowloom.providers.anthropic_answers import MessagesReader
from flowloom.providers.anthropic_messages import messages_body
from flowloom.providers.anthropic_models import abilities_of
from flowloom.providers.anthropic_tools import MCP_BETA, anthropic_refusal
from flowloom.providers.sdk_answers import objects_of
from flowloom.providers.sdk_call import AnswerReader, SentRequest
from flowloom.providers.sdk_model import MadeFile, SdkModel
from flowloom.providers.sdk_request import DROPPED_OR_REFUSED, Treatment, response_schema_of, unsupported

try:
    import anthropic
    from anthropic.lib.credentials import default_credentials
except ImportError as error:
    if TYPE_CHECKING:
        raise
    anthropic = default_credentials = absent(missing_extra("Anthropic's models need its SDK", "anthropic", error))

_ANTHROPIC_URL = "https://api.anthropic.com"
_NO_KEY = "none"  # other servers may ask for no key, the SDK does
_AUTHORIZATION = ("authorization", "x-api-key")
_BETA = "anthropic-beta"
_BINDING = "thinking-binding-controls-2026-08-01"
_SENT = (
    "http_options system_instruction temperature top_p top_k candidate_count max_output_tokens stop_sequences "
    "response_mime_type response_schema response_json_schema tools tool_config response_modalities thinking_config "
    "service_tier"
)
_DROPPED = ("seed", "presence_penalty", "frequency_penalty", "store")
SETTINGS: Mapping[str, Treatment] = {
    **DROPPED_OR_REFUSED,
    **dict.fromkeys(_SENT.split(), "sent"),
    **dict.fromkeys(_DROPPED, "dropped"),
    "response_logprobs": "refused",
    "logprobs": "refused",
}
"""What becomes of a request's settings in Anthropic's Messages API."""


class AnthropicModel(SdkModel):
    """A model of Anthropic's, or of a server that speaks its Messages API.

    By name: `anthropic/claude-sonnet-5-5`. Where to call and with which credentials is given here or, where left out,
    found by the SDK: `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN`, `ANTHROPIC_BASE_URL`, `ANTHROPIC_CUSTOM_HEADERS`,
    `ANTHROPIC_PROFILE` and the profiles in its configuration directory.

    Thoughts go back with their signatures. Newer models refuse a thought if what comes before it has changed, for
    example by a placeholder in the instruction; the adapter asks Anthropic to drop such thoughts instead.
    """

    media_types: ClassVar[Sequence[str]] = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")

    model: str = "claude-sonnet-5-5"
    auth_token: str | None = Field(default=None, repr=False, exclude=True)
    """A bearer token in place of a key."""
    max_tokens: int = Field(default=16_384, gt=0)
    """The longest answer, thoughts included, where a request says nothing of it: the API must be told.

    A budget for thinking comes on top of it.
    """
    cache: Literal["5m", "1h"] | None = "5m"
    """How long the beginning of a conversation stays in Anthropic's cache after it was last read; None for no cache.

    Each call of an agent begins with what the call before it sent. Marks on the last tool, the system instruction
    and the ends of the last two user messages let it be read from the cache: at a tenth of the price, after a quarter
    more (twice the price for `1h`) was paid to store it.
    """

    def _when_made(self) -> None:
        require(anthropic)
        super()._when_made()

    @classmethod
    def supported_models(cls) -> list[str]:
        """Names with `anthropic/` in front."""
        return [r"anthropic/.+"]

    @classmethod
    def from_name(cls, name: str) -> Self:
        """The adapter for a `name` as `LLMRegistry` has it (see `supported_models`)."""
        return cls(model=name.removeprefix("anthropic/"))

    @property
    def treatments(self) -> Mapping[str, Treatment]:
        """What becomes of each field of a request's config."""
        return SETTINGS

    @property
    def url(self) -> str:
        """Where requests go."""
        if self._client is not None:
            return str(self._client.base_url).rstrip("/")  # a profile may name a server
        return self.base_url or os.environ.get("ANTHROPIC_BASE_URL") or _ANTHROPIC_URL

    @property
    def missing_credentials(self) -> str | None:
        """A key, a token or a profile is needed wherever the server is Anthropic's own."""
        if self.api_key or self.auth_token or self._is_authorized or not self._is_anthropic:
            return None
        if os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN"):
            return None
        try:
            if default_credentials() is not None:
                return None
        except anthropic.AnthropicError as error:
            return f"The profile of Anthropic's SDK cannot be used: {error}"
        return "Set `ANTHROPIC_API_KEY`, or pass `api_key=` to `AnthropicModel`."

    @property
    def _is_anthropic(self) -> bool:
        host = urlsplit(self.base_url or os.environ.get("ANTHROPIC_BASE_URL") or _ANTHROPIC_URL).hostname or ""
        return host == "anthropic.com" or host.endswith(".anthropic.com")

    @property
    def _is_authorized(self) -> bool:
        """Whether a header that is sent anyway holds the credentials."""
        return any(name in _AUTHORIZATION for name in (*_names(self.headers), *_names(_environment_headers())))

    @property
    def _unbinds(self) -> bool:
        """Whether Anthropic is asked to leave out thoughts that no longer fit, which is a beta of its own."""
        return self._is_anthropic and abilities_of(self.model).bound

    def _connected(self) -> Any:
        if self.api_key is not None and self.auth_token is not None:
            raise ConfigurationError("Pass `api_key=` or `auth_token=` to `AnthropicModel`, not both.")
        load_transport()
        betas = [value for name, value in _environment_headers().items() if name.lower() == _BETA]
        try:
            client = anthropic.AsyncAnthropic(
                api_key=self.api_key or (_NO_KEY if self._needs_no_key else None),
                auth_token=self.auth_token,
                base_url=self.base_url,
                max_retries=0,
                http_client=self._http,
                default_headers={_BETA: ",".join([*betas, _BINDING])} if self._unbinds else None,
                open_telemetry=False,  # the call has its span here
            )
        except (anthropic.AnthropicError, ValueError) as error:
            raise ConfigurationError(f"Anthropic's SDK cannot be set up: {error}") from error
        _ = client.default_headers, self._method(client)  # what they load is not left for the first request
        return client

    @property
    def _needs_no_key(self) -> bool:
        """Whether the server gets a placeholder: one that is not Anthropic's, and not named by the environment."""
        if self._is_anthropic or self.auth_token or self._is_authorized:
            return False
        if self.base_url is not None:
            return True
        return not (os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN"))

    def _method(self, client: Any) -> Callable[..., AbstractAsyncContextManager[SentRequest]]:
        create = client.messages.with_streaming_response.create
        return partial(create, model="", messages=[], max_tokens=self.max_tokens)

    def _body(self, request: LlmRequest, contents: list[types.Content], model: str, stream: bool) -> dict[str, Any]:
        betas = (*_names(self.headers), *_names(http_options_of(request).headers or {}))
        return messages_body(
            request,
            contents,
            model,
            stream=stream,
            drop=self._leave_out,
            max_tokens=self.max_tokens,
            schema=_closed_schema(request, model),
            cache=self.cache,
            unbind=self._unbinds and abilities_of(model).bound and _BETA not in betas,
        )

    def _headers(self, request: LlmRequest, given: dict[str, str]) -> dict[str, str]:
        if all(asked.kind != "remote_mcp" for asked in asked_of(request)):
            return given
        theirs = [value for name, value in given.items() if name.lower() == _BETA]
        own = [] if theirs else [self._client.default_headers.get(_BETA)]
        rest = {name: value for name, value in given.items() if name.lower() != _BETA}
        return {**rest, _BETA: ",".join([*theirs, *filter(None, own), MCP_BETA])}

    def server_tool_refusal(self, asked: Asked, functions: Sequence[str], model: str | None = None) -> str | None:
        return anthropic_refusal(asked, model or self.model)

    def _files_of(self, part: types.Part) -> list[MadeFile]:
        told = (part.tool_response.response if part.tool_response is not None else None) or {}
        return [MadeFile(each["file_id"]) for each in objects_of(told.get("content")) if each.get("file_id")]

    async def _download(self, client: Any, file: MadeFile) -> types.Part:
        about = await client.beta.files.retrieve_metadata(file.id)
        content = await client.beta.files.download(file.id)
        return made_file(about.filename, "code_execution", about.mime_type, await content.read())

    def _reader(self, model: str) -> AnswerReader:
        return MessagesReader(model)


def _closed_schema(request: LlmRequest, model: str) -> dict[str, Any] | None:
    """The schema of the answer in the form that Anthropic enforces: what it cannot check stands in descriptions."""
    schema = response_schema_of(request, model)
    if schema is None:
        return None
    try:
        return anthropic.transform_schema(schema)
    except (ValueError, TypeError, AttributeError, AssertionError) as error:
        raise unsupported(model, "config.response_schema", f"is more than this API can enforce ({error})") from error


def _environment_headers() -> dict[str, str]:
    """The headers that the SDK takes from the environment: a line for each."""
    lines = os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "").split("\n")
    return {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


def _names(headers: Mapping[str, str]) -> list[str]:
    return [name.lower() for name in headers]

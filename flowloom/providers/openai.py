"""`OpenAIModel`: the adapter for OpenAI's models, and for servers that speak OpenAI's API. Needs the extra `openai`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from mimetypes import guess_type
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from google.genai import types

from flowloom.errors import ConfigurationError
from flowloom.extras import absent, missing_extra, require
from flowloom.models.http import load_transport
from flowloom.models.request import LlmRequest
from flowloom.models.server_parts import made_file
from flowloom.models.server_tools import Asked
from flowloom.providers.openai_chat import NO_SERVER_TOOLS, chat_body
from flowloom.providers.openai_chat_answers import ChatReader
from flowloom.providers.openai_items import kept_item
from flowloom.providers.openai_responses import responses_body
from flowloom.providers.openai_responses_answers import ResponsesReader
from flowloom.providers.openai_tools import openai_refusal
from flowloom.providers.sdk_answers import objects_of
from flowloom.providers.sdk_call import AnswerReader, SentRequest
from flowloom.providers.sdk_model import MadeFile, SdkModel
from flowloom.providers.sdk_request import DROPPED_OR_REFUSED, Treatment

try:
    import openai
except ImportError as error:
    if TYPE_CHECKING:
        raise
    openai = absent(missing_extra("OpenAI's models need its SDK", "openai", error))

_OPENAI_URL = "https://api.openai.com/v1"
_OLLAMA_URL = "http://127.0.0.1:11434"
_AZURE = ("openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com")
_NO_KEY = "none"  # local servers ask for no key, the SDK does
_SENT = (
    "http_options system_instruction temperature top_p candidate_count max_output_tokens response_logprobs logprobs "
    "response_mime_type response_schema response_json_schema tools tool_config response_modalities thinking_config "
    "service_tier store"
)
_CHAT_ONLY = ("seed", "presence_penalty", "frequency_penalty")
_SHARED: Mapping[str, Treatment] = {**DROPPED_OR_REFUSED, **dict.fromkeys(_SENT.split(), "sent"), "top_k": "dropped"}
CHAT_SETTINGS: Mapping[str, Treatment] = {**_SHARED, **dict.fromkeys(_CHAT_ONLY, "sent"), "stop_sequences": "sent"}
"""What becomes of a request's settings in chat completions."""
RESPONSES_SETTINGS: Mapping[str, Treatment] = {
    **_SHARED,
    **dict.fromkeys(_CHAT_ONLY, "dropped"),
    "stop_sequences": "refused",
    "labels": "sent",
}
"""What becomes of a request's settings in the Responses API."""


class OpenAIModel(SdkModel):
    """A model of OpenAI's, or of any server that speaks its API: Ollama, vLLM, llama.cpp, LM Studio, OpenRouter...

    By name: `openai/gpt-5` (chat completions), `openai-responses/gpt-5` (the Responses API, which gives the thoughts of
    a reasoning model back to it), `ollama/llama3`, `http://localhost:8000/v1#name`. Where to call and with which key
    is given here or, where left out, by the SDK's environment variables: `OPENAI_API_KEY`, `OPENAI_BASE_URL`,
    `OPENAI_ORG_ID`, `OPENAI_PROJECT_ID`; for `ollama/...` by `OLLAMA_HOST`.
    """

    media_types: ClassVar[Sequence[str]] = ("image/png", "image/jpeg", "image/webp", "application/pdf")

    provider_name: ClassVar[str] = "openai"
    """As telemetry names it."""

    model: str = "gpt-5-mini"
    api: Literal["chat", "responses"] = "chat"
    """Which API is spoken: chat completions, which every server has, or OpenAI's Responses."""
    dialect: Literal["openai", "compatible"] | None = None
    """Whether the server knows all of OpenAI's API, as a gateway before it does, or what other servers know of it; by
    default told from its host, which is OpenAI's own, Azure's, or another's."""

    def _when_made(self) -> None:
        require(openai)
        super()._when_made()

    @classmethod
    def supported_models(cls) -> list[str]:
        """Names with `openai/`, `openai-responses/` or `ollama/` in front, and URLs of servers with a model's name."""
        return [r"openai(-responses)?/.+", r"ollama/.+", r"https?://.+#.+"]

    @classmethod
    def from_name(cls, name: str) -> Self:
        """The adapter for a `name` as `LLMRegistry` has it (see `supported_models`)."""
        if name.startswith(("http://", "https://")):
            url, _, model = name.partition("#")
            return cls(model=model, base_url=url)
        maker, _, model = name.partition("/")
        if maker == "ollama":
            return cls(model=model, base_url=_ollama_url())
        return cls(model=model, api="responses" if maker == "openai-responses" else "chat")

    @property
    def treatments(self) -> Mapping[str, Treatment]:
        """What becomes of each field of a request's config."""
        return CHAT_SETTINGS if self.api == "chat" else RESPONSES_SETTINGS

    @property
    def output_schema_and_tools(self) -> bool:
        """True for OpenAI itself; many servers that speak its API call no tools when an answer has a schema."""
        return self._speaks_openai

    @property
    def url(self) -> str:
        """Where requests go."""
        return self.base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI_URL

    @property
    def missing_credentials(self) -> str | None:
        """A key is needed wherever the server is OpenAI's own."""
        if self.api_key or os.environ.get("OPENAI_API_KEY") or not self._is_openai:
            return None
        return "Set `OPENAI_API_KEY`, or pass `api_key=` to `OpenAIModel`."

    @property
    def _is_openai(self) -> bool:
        """Whether the server is OpenAI's own, and its key may go there."""
        return self._is_at("openai.com")

    @property
    def _speaks_openai(self) -> bool:
        """Whether the server knows all of OpenAI's API."""
        if self.dialect is not None:
            return self.dialect == "openai"
        return self._is_openai or self._is_at(*_AZURE)

    def _is_at(self, *domains: str) -> bool:
        host = urlsplit(self.url).hostname or ""
        return any(host == domain or host.endswith(f".{domain}") for domain in domains)

    def _connected(self) -> Any:
        load_transport()
        # The key of the environment is OpenAI's: another server gets it only if the environment names that server.
        theirs = self.base_url is None or self._is_openai
        key = self.api_key or (os.environ.get("OPENAI_API_KEY") if theirs else None) or _NO_KEY
        client = openai.AsyncOpenAI(api_key=key.strip(), base_url=self.url, max_retries=0, http_client=self._http)
        if not theirs:
            client.organization = client.project = None  # those of the environment are OpenAI's as well
        _ = client.default_headers, self._method(client)  # what they load is not left for the first request
        return client

    def _method(self, client: Any) -> Callable[..., AbstractAsyncContextManager[SentRequest]]:
        if self.api == "chat":
            return partial(client.chat.completions.with_streaming_response.create, model="", messages=[])
        return client.responses.with_streaming_response.create

    def _body(self, request: LlmRequest, contents: list[types.Content], model: str, stream: bool) -> dict[str, Any]:
        if self.api == "chat":
            return chat_body(
                request,
                contents,
                model,
                stream=stream,
                drop=self._leave_out,
                openai=self._speaks_openai,
                server=self._server,
            )
        return responses_body(request, contents, model, stream=stream, drop=self._leave_out)

    def server_tool_refusal(self, asked: Asked, functions: Sequence[str], model: str | None = None) -> str | None:
        return NO_SERVER_TOOLS if self.api == "chat" else openai_refusal(asked)

    def _files_of(self, part: types.Part) -> list[MadeFile]:
        item = kept_item(part) if part.text and part.thought_signature is not None else None
        cited = (each for piece in objects_of((item or {}).get("content")) for each in objects_of(piece["annotations"]))
        return [
            MadeFile(each["file_id"], each.get("filename") or "", each["container_id"])
            for each in cited
            if each.get("type") == "container_file_citation"
        ]

    async def _download(self, client: Any, file: MadeFile) -> types.Part:
        content = await client.containers.files.content.retrieve(file.id, container_id=file.container)
        mime_type = guess_type(file.name)[0] or "application/octet-stream"
        return made_file(file.name or file.id, "code_execution", mime_type, content.read())

    def _reader(self, model: str) -> AnswerReader:
        return ChatReader(model, self._server) if self.api == "chat" else ResponsesReader(model)

    @property
    def _server(self) -> str:
        """Who gets its thoughts back in chat completions: servers other than OpenAI, which shows none there."""
        return "" if self._speaks_openai else urlsplit(self.url).netloc.rpartition("@")[2]


def _ollama_url() -> str:
    """Where Ollama listens, by its own variable: `host`, `host:port` or a URL."""
    host = os.environ.get("OLLAMA_HOST", "").strip(" \"'") or _OLLAMA_URL
    scheme, separator, _ = host.partition("://")
    try:
        split = urlsplit(host if separator else f"http://{host}")
        port = split.port or ({"http": 80, "https": 443}.get(scheme, 11434) if separator else 11434)
    except ValueError as error:
        raise ConfigurationError(f"`OLLAMA_HOST` is no address: {error}") from error
    name = split.hostname or "127.0.0.1"
    name = "127.0.0.1" if name == "0.0.0.0" else name
    return f"{split.scheme}://{f'[{name}]' if ':' in name else name}:{port}{split.path.rstrip('/')}/v1"

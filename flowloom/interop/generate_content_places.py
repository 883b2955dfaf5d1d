"""Where in the body of a request each setting of google-genai's `GenerateContentConfig` stands."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from google.genai import types
from pydantic.alias_generators import to_camel

from flowloom.interop.generate_content_codec import Codec, ModelCodec, codec_of, each, model_codec
from flowloom.interop.generate_content_misfit import Misfit, kind_of
from flowloom.interop.generate_content_schema import ResponseSchemaCodec

_IN_BODY = (
    "system_instruction tools tool_config safety_settings labels cached_content model_armor_config service_tier "
    "continuation_token generation_output_config store"
)
_IN_GENERATION_CONFIG = (
    "temperature top_p top_k candidate_count max_output_tokens stop_sequences response_logprobs logprobs "
    "presence_penalty frequency_penalty seed response_mime_type response_schema response_json_schema routing_config "
    "model_selection_config response_modalities media_resolution speech_config audio_timestamp thinking_config "
    "image_config enable_enhanced_civic_answers audio_transcription_config"
)
# Settings of a release of google-genai that has fewer of them are left out of the tables.
_KNOWN = types.GenerateContentConfig.model_fields
_RENAMED = {"model_selection_config": "modelConfig", "generation_output_config": "outputConfig"}

BODY: Mapping[str, str] = {name: _RENAMED.get(name, to_camel(name)) for name in _IN_BODY.split() if name in _KNOWN}
"""Settings that stand beside the contents."""
GENERATION_CONFIG: Mapping[str, str] = {
    name: _RENAMED.get(name, to_camel(name)) for name in _IN_GENERATION_CONFIG.split() if name in _KNOWN
}
"""Settings that stand in `generationConfig`."""
NAMES_IN_BODY: Mapping[str, str] = {
    spelling: name for name, alias in BODY.items() for spelling in (name, to_camel(name), alias)
}
NAMES_IN_GENERATION_CONFIG: Mapping[str, str] = {
    spelling: name for name, alias in GENERATION_CONFIG.items() for spelling in (name, to_camel(name), alias)
}
LEFT_OUT: Mapping[str, str] = {
    "http_options": "how the request is sent",
    "should_return_http_response": "what the client gives back",
    "automatic_function_calling": "what the client does with calls",
    "automatic_continuation": "what the client does with an answer that was cut off",
}
"""Settings that are no part of the wire."""


class SystemInstruction(Codec):
    """One plain text of the user's role is a `str`; all else is a `Content`."""

    def read(self, value: Any) -> Any:
        content = model_codec(types.Content).read(value)
        parts: Any = content.parts
        if content.role != "user" or content.model_extra or parts is None or len(parts) != 1:
            return content
        [part] = parts
        plain = part.text is not None and part == types.Part(text=part.text)
        return part.text if plain else content

    def write(self, value: Any, *, url_safe: bool) -> Any:
        return model_codec(types.Content).write(self._content(value), url_safe=url_safe)

    def _content(self, value: Any) -> Any:
        if isinstance(value, types.Content):
            return value
        if isinstance(value, list | tuple):
            return types.Content(role="user", parts=each(value, _part))
        if isinstance(value, Mapping) and {"parts", "role"} & cast("Mapping[str, Any]", value).keys():
            return cast("Mapping[str, Any]", value)
        part = _part(value)
        return types.Content(role="user" if part.function_call is None else "model", parts=[part])


def _part(value: Any) -> types.Part:
    if isinstance(value, str):
        return types.Part(text=value)
    if isinstance(value, types.File):
        return types.Part(file_data=types.FileData(file_uri=value.uri, mime_type=value.mime_type))
    if isinstance(value, types.Part | Mapping):
        return model_codec(types.Part).read(value)
    raise Misfit(f"{kind_of(value)} cannot be part of a system instruction: give it as a `types.Part`")


class _Tools(Codec):
    """Tools as they are declared. What is run here, functions and sessions, has to be declared first."""

    def read(self, value: Any) -> list[types.Tool]:
        return each(value, model_codec(types.Tool).read)

    def write(self, value: Any, *, url_safe: bool) -> list[Any]:
        return each(value, partial(self._written, url_safe=url_safe))

    def _written(self, tool: Any, *, url_safe: bool) -> Any:
        if isinstance(tool, types.FunctionDeclaration):
            tool = types.Tool(function_declarations=[tool])
        if isinstance(tool, types.Tool | Mapping):
            return model_codec(types.Tool).write(tool, url_safe=url_safe)
        name = getattr(tool, "__name__", type(tool).__name__)
        raise Misfit(
            f"`{name}` is no declaration: give a `types.Tool` with a declaration of it, or make it a `FunctionTool` "
            f"and put it there with `LlmRequest.append_tools`"
        )


class _Modalities(Codec):
    """Members of an enum, which google-genai has as texts."""

    _member = codec_of(types.Modality)

    def read(self, value: Any) -> list[str]:
        return each(value, lambda item: str(self._member.read(item).value))

    def write(self, value: Any, *, url_safe: bool) -> list[Any]:
        return each(value, partial(self._member.write, url_safe=url_safe))


class _Speech(Codec):
    """A voice by its name is short for a config with that voice."""

    def read(self, value: Any) -> types.SpeechConfig:
        if isinstance(value, str):
            voice = types.VoiceConfig(prebuilt_voice_config=types.PrebuiltVoiceConfig(voice_name=value))
            return types.SpeechConfig(voice_config=voice)
        return model_codec(types.SpeechConfig).read(value)

    def write(self, value: Any, *, url_safe: bool) -> Any:
        return model_codec(types.SpeechConfig).write(self.read(value), url_safe=url_safe)


_special: Mapping[str, Codec] = {
    "system_instruction": SystemInstruction(),
    "tools": _Tools(),
    "response_schema": ResponseSchemaCodec(),
    "speech_config": _Speech(),
    "response_modalities": _Modalities(),
}
CONFIG = ModelCodec(types.GenerateContentConfig, _special)
"""The codec of all settings, wherever they stand."""

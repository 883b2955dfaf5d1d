"""The parts of a chat message's content, to and from `types.Part`s."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from typing import Any, cast
from urllib.parse import unquote_to_bytes

from google.genai import types

from flowloom.errors import UnsupportedFeatureError
from flowloom.events.parts import text_part
from flowloom.events.wire import fields_of
from flowloom.interop.chat_messages import AudioPart, ContentPart, FileContent, MediaUrl
from flowloom.providers.openai_chat import image_detail
from flowloom.providers.sdk_request import code_text

_UNKNOWN_TYPE = "application/octet-stream"
_TYPES = mimetypes.MimeTypes()  # the same on every machine
_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}
# What a part says beside what it holds; chat messages have no words for it, and it is no reason to refuse the part.
_BESIDE = frozenset(
    "text thought thought_signature part_metadata media_resolution video_metadata media_processing speech_metadata "
    "document_metadata spreadsheet_metadata audio_metadata audio_transcription".split()
)


def part_of(item: ContentPart) -> types.Part:
    """The part for one of a message's. Raises `ValueError` for base64 or a `data:` URI that cannot be read."""
    if item["type"] == "text":
        return text_part(item["text"])
    if item["type"] == "refusal":
        return text_part(item["refusal"])
    if item["type"] == "image_url":
        return _at(item["image_url"]["url"], "image/jpeg", None)
    if item["type"] == "video_url":
        return _at(item["video_url"]["url"], "video/mp4", None)
    if item["type"] == "input_audio":
        audio = item["input_audio"]
        return types.Part(inline_data=types.Blob(data=_decoded(audio["data"]), mime_type=f"audio/{audio['format']}"))
    return _of_file(item["file"])


def _of_file(file: FileContent) -> types.Part:
    name, data = file.get("filename"), file.get("file_data")
    if data is None:
        held = types.FileData(file_uri=file.get("file_id"), mime_type=file.get("format"), display_name=name)
        return types.Part(file_data=held)
    if data.startswith("data:") or "://" in data[:10]:
        return _at(data, file.get("format"), name)
    mime_type = file.get("format") or _guessed(name or "") or _UNKNOWN_TYPE
    return types.Part(inline_data=types.Blob(data=_decoded(data), mime_type=mime_type, display_name=name))


def _at(url: str, otherwise: str | None, name: str | None) -> types.Part:
    """What a URL leads to, or holds; `otherwise` is its MIME type, unless the URL tells a closer one of that kind."""
    if url.startswith("data:"):
        mime_type, data = _read_data_url(url)
        return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type, display_name=name))
    guess = _guessed(url)
    fits = guess is not None and (otherwise is None or guess.partition("/")[0] == otherwise.partition("/")[0])
    mime_type = guess if fits else otherwise
    return types.Part(file_data=types.FileData(file_uri=url, mime_type=mime_type, display_name=name))


def _guessed(path: str) -> str | None:
    """The MIME type that a file's name or address tells."""
    return _TYPES.guess_type(path.partition("?")[0], strict=False)[0]


def _read_data_url(url: str) -> tuple[str, bytes]:
    head, comma, body = url.removeprefix("data:").partition(",")
    if not comma:
        raise ValueError("a `data:` URI has a comma before its data, and this one has none")
    mime_type, is_base64, rest = head.rpartition(";base64")
    if is_base64 and not rest:
        return mime_type or "text/plain", _decoded(unquote_to_bytes(body).decode("ascii", "replace"))
    return head or "text/plain", unquote_to_bytes(body)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"its base64 cannot be read ({error})") from error


def item_of(part: types.Part, place: str) -> ContentPart | None:
    """A part as one of a message's; None for one that says nothing. `place` is where it stands, for errors.

    Raises `UnsupportedFeatureError` for a part that chat messages have no words for.
    """
    if part.inline_data is not None:
        return _inline_item(part, part.inline_data)
    if part.file_data is not None:
        return _file_item(part, part.file_data)
    text = part.text if part.text is not None else code_text(part)
    if text is not None:
        return {"type": "text", "text": text}
    for name, value in fields_of(part).items():
        if value is not None and name not in _BESIDE:
            raise unwritable(f"{place}.{name}", "is nothing that they know")
    return None


def unwritable(field: str, why: str) -> UnsupportedFeatureError:
    """The error for what chat messages have no words for."""
    return UnsupportedFeatureError(f"The contents cannot be written as chat messages: `{field}` {why}.", field=field)


def _inline_item(part: types.Part, blob: types.Blob) -> ContentPart:
    mime_type = blob.mime_type or _UNKNOWN_TYPE
    data = base64.b64encode(blob.data or b"").decode()
    url = f"data:{mime_type};base64,{data}"
    major, _, minor = mime_type.partition("/")
    if major == "audio" and minor.isalnum() | (minor in _AUDIO_FORMATS):
        audio: AudioPart = {
            "type": "input_audio",
            "input_audio": {"data": data, "format": _AUDIO_FORMATS.get(minor, minor)},
        }
        return audio
    if major in ("image", "video"):
        return _media_item(part, major, url)
    file: FileContent = {"file_data": url}
    if blob.display_name is not None:
        file["filename"] = blob.display_name
    return {"type": "file", "file": file}


def _file_item(part: types.Part, held: types.FileData) -> ContentPart:
    uri = held.file_uri or ""
    mime_type = held.mime_type or _guessed(uri) or ""
    major = mime_type.partition("/")[0]
    if major in ("image", "video"):
        return _media_item(part, major, uri)
    file: FileContent = {"file_id": uri}
    if held.mime_type is not None:
        file["format"] = held.mime_type
    if held.display_name is not None:
        file["filename"] = held.display_name
    return {"type": "file", "file": file}


def _media_item(part: types.Part, major: str, url: str) -> ContentPart:
    media: MediaUrl = {"url": url}
    if major == "video":
        return {"type": "video_url", "video_url": media}
    media.update(cast(Any, image_detail(part)))
    return {"type": "image_url", "image_url": media}

"""What an answer becomes for the model: data, text, files beside it, or an error (protocols spec §3, Answers)."""

from __future__ import annotations

import hashlib
import json
import mimetypes
import re
from typing import Any, NoReturn, cast

from flowloom.auth.fields import without
from flowloom.context import Context
from flowloom.errors import JsonDataError
from flowloom.events.json_data import as_json
from flowloom.protocols.files import file_told, kept_file
from flowloom.protocols.results import size, within_limit

MAX_ERROR_BYTES = 4096
"""How much of the body of an answer that is an error the model is given."""

_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)
_FILENAME = re.compile(r"filename\*?\s*=\s*(?:UTF-8'[^']*')?\"?([^\";]+)", re.IGNORECASE)
_TEXTS = re.compile(
    r"text/|application/(?:javascript|ecmascript|sql|graphql|x-www-form-urlencoded|x?html?\+xml|yaml|x-yaml|toml|x-ndjson|"
    r"jsonl)$|.*[/+](?:xml|yaml)$"
)
_SHOWN = ("image/", "audio/", "application/pdf")
"""How the types begin of files that models are shown."""


async def result_of(answer: Any, context: Context | None, tool: str, limit: int) -> dict[str, Any]:
    """What the model is given of an `answer` with a status below 400, of at most `limit` bytes of text.

    What is longer, and files that are not shown, are kept as artifacts of the session of `context`, named after `tool`.
    """
    media, body = answer.media, answer.body
    if not body or answer.status in (204, 205):
        return {"result": None}
    if media == "application/json" or media.endswith("+json"):
        result = _data(answer)
    elif _TEXTS.match(media) or (not media and _is_text(body)):
        result = {"result": _text(answer)}
    elif context is None:
        return {"result": f"[{media or 'bytes'}, {size(len(body))}]"}
    elif media.startswith(_SHOWN) and not answer.is_cut:
        return {"result": await file_told(body, media, context, tool, name=_file_name(answer, tool, media))}
    else:
        return await _kept(answer, context, tool)
    if answer.is_cut:
        result["note"] = f"Only the first {size(len(body))} were read."
    return result if context is None else await within_limit(result, limit, context, tool)


def error_of(answer: Any, label: str, secrets: list[str]) -> dict[str, Any]:
    """What the model is given of an answer to the operation `label` that says that it failed, without `secrets`."""
    told = f"HTTP {answer.status} {answer.reason}".rstrip()
    text = without(_text(answer), secrets)
    body: Any = text
    if len(text.encode("utf-8", "replace")) > MAX_ERROR_BYTES:
        cut = text.encode("utf-8", "replace")[:MAX_ERROR_BYTES].decode("utf-8", "ignore")
        body = f"{cut}\n[cut after {size(MAX_ERROR_BYTES)}]"
    elif not _is_text(answer.body):
        body = f"[{answer.media or 'bytes'}, {size(len(answer.body))}]"
    else:
        try:
            body = as_json(json.loads(text, parse_constant=_no_number))
        except (ValueError, RecursionError):
            pass
    return {"error": f"{told} for {label}", "status": answer.status, "body": body or None}


def _data(answer: Any) -> dict[str, Any]:
    """The data of an answer that says it is JSON, or its text with a note if it is none."""
    try:
        data = as_json(json.loads(answer.body, parse_constant=_no_number))
    except (ValueError, RecursionError, JsonDataError):
        return {"result": _text(answer), "note": "The answer says that it is JSON, but it is not."}
    return cast(dict[str, Any], data) if isinstance(data, dict) else {"result": data}


def _text(answer: Any) -> str:
    named = _CHARSET.search(answer.headers.get("content-type", ""))
    try:
        return answer.body.decode(named[1] if named else "utf-8-sig", "replace")
    except LookupError:
        return answer.body.decode("utf-8", "replace")


def _is_text(body: bytes) -> bool:
    try:
        return "\0" not in body.decode("utf-8")
    except UnicodeDecodeError:
        return False


async def _kept(answer: Any, context: Context, tool: str) -> dict[str, Any]:
    """A file that no model is shown: saved as an artifact, and named."""
    media = answer.media or "application/octet-stream"
    mark = f"{media}, {size(len(answer.body))}" + (" and more, which was not read" if answer.is_cut else "")
    name = _file_name(answer, tool, media)
    told = {"result": f"[{mark}: {await kept_file(answer.body, media, context, name)}]"}
    return told | ({"artifact": name} if name in context.actions.artifact_delta else {})


def _file_name(answer: Any, tool: str, media: str) -> str:
    """What the server calls a file, without a folder; else the tool's name, with what tells it from others."""
    named = _FILENAME.search(answer.headers.get("content-disposition", ""))
    name = re.sub(r"[^\w.() -]", "_", named[1].replace("\\", "/").rpartition("/")[2]).strip(". ") if named else ""
    if name:
        return name[:100]
    return f"{tool}_{hashlib.sha256(answer.body).hexdigest()[:8]}{mimetypes.guess_extension(media) or '.bin'}"


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")

"""Files that come with a result: shown to a model that takes them, else kept as artifacts (protocols spec §1)."""

from __future__ import annotations

from google.genai import types

from flowloom.context import Context
from flowloom.errors import ContextError
from flowloom.protocols.results import size

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TAKEN = {
    "anthropic": (*_IMAGES, "application/pdf"),
    "openai": (*_IMAGES, "application/pdf"),
    "gemini": ("image/", "audio/", "video/", "text/", "application/pdf"),
}
"""How the types of the files begin that models of a provider take; those of others are given any."""


async def file_told(
    content: bytes, mime_type: str, context: Context, tool: str, address: str | None = None, name: str | None = None
) -> str:
    """What a result says of a file, of its `content` and `mime_type`: `[image/png, 4 kB]`.

    It is put beside the result in `context`, which is the call's; if the agent's model does not take files of that
    type, it is kept as an artifact, named `name`, or after the `tool`. `address` is where it came from.
    """
    named = f"{address}, " if address else ""
    mark = f"{named}{mime_type}, {size(len(content))}"
    if not _takes(context, mime_type):
        return f"[{mark}: {await kept_file(content, mime_type, context, name or _name(mime_type, context, tool))}]"
    blob = types.FunctionResponseBlob(data=content, mime_type=mime_type, display_name=address)
    context.files = [*(context.files or ()), types.FunctionResponsePart(inline_data=blob)]
    return f"[{mark}]"


async def kept_file(content: bytes, mime_type: str, context: Context, name: str) -> str:
    """Save a file that no model is shown as the artifact `name`; where it is, in words."""
    part = types.Part(inline_data=types.Blob(data=content, mime_type=mime_type))
    try:
        await context.save_artifact(name, part)
    except ContextError:
        return "the model cannot take it, and the runner keeps no files"
    return f"kept as the file `{name}`"


def _name(mime_type: str, context: Context, tool: str) -> str:
    number = len(context.actions.artifact_delta)
    return f"{tool}_{context.function_call_id or 'file'}_{number}.{mime_type.partition('/')[2] or 'bin'}"


def _takes(context: Context, mime_type: str) -> bool:
    model = context.invocation_context.model
    kind = "gemini" if type(model).__name__ == "Gemini" else str(getattr(model, "provider_name", ""))
    taken = _TAKEN.get(kind)
    return taken is None or mime_type.startswith(taken)

"""The file_uploads processor: file names that the Gemini API refuses (spec §11b)."""

from __future__ import annotations

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.events.parts import parts_of
from flowloom.models.contents import own_content, special_contents
from flowloom.models.request import LlmRequest
from flowloom.processors.model_choice import model_of


def file_uploads(ctx: InvocationContext, request: LlmRequest) -> None:
    """Clear the display names of files, which the Gemini API refuses. The session keeps them.

    Reads: the model's backend, `contents`.
    Writes: `contents[i].parts[j].inline_data.display_name` and `.file_data.display_name`.
    Must come after: everything that writes contents.
    """
    if ctx.llm_agent is None or request.shows_words_only:
        return
    named = [index for index, content in special_contents(request.contents) if _named(content)]
    if named and model_of(ctx).backend == "gemini_api":
        for index in named:
            _clear_names(own_content(request.contents, index))


def _named(content: types.Content) -> bool:
    return any(
        (part.inline_data is not None and part.inline_data.display_name)
        or (part.file_data is not None and part.file_data.display_name)
        for part in parts_of(content)
    )


def _clear_names(content: types.Content) -> None:
    for part in parts_of(content):
        if part.inline_data is not None:
            part.inline_data.display_name = None
        if part.file_data is not None:
            part.file_data.display_name = None

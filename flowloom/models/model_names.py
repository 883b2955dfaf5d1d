"""What a model's name tells about it (spec §10.1, §10.2). Pure functions; they never look at the environment.

Names may come with a path in front (`models/gemini-2.5-flash`, `projects/p/locations/l/publishers/google/models/...`);
only what follows the last `/` counts, in any case.
"""

from __future__ import annotations

import re

from flowloom.models.base_llm import Backend

_GEMINI = "gemini-"
_VERSION = re.compile(r"gemini-(\d+)(?:\.(\d+))?")


def base_name(name: str) -> str:
    """The name without its path, in lower case."""
    return name.rpartition("/")[2].lower()


def model_name(path: str) -> str:
    """A model's name out of `models/<name>`, as Gemini's messages have it; other resource names stay as they are."""
    name = path.removeprefix("models/")
    return path if "/" in name else name


def is_gemini(name: str) -> bool:
    """Whether the name is that of a Gemini model."""
    return base_name(name).startswith(_GEMINI)


def gemini_version(name: str) -> tuple[int, int] | None:
    """Major and minor version of a Gemini model, `(2, 0)` for `gemini-2-pro`; None where the name gives none."""
    match = _VERSION.match(base_name(name))
    return None if match is None else (int(match[1]), int(match[2] or 0))


def is_gemini_from(name: str, version: tuple[int, int]) -> bool:
    """Whether this is a Gemini model of that version or a later one. False when the name tells no version."""
    found = gemini_version(name)
    return found is not None and found >= version


def is_gemini_up_to(name: str, version: tuple[int, int]) -> bool:
    """Whether this is a Gemini model of that version or an earlier one. False when the name tells no version."""
    found = gemini_version(name)
    return found is not None and found <= version


def supports_schema_with_tools(name: str, backend: Backend | None) -> bool:
    """Whether the model itself combines a response schema with tools: Gemini 2.0 or later on Vertex AI."""
    return backend == "vertex_ai" and is_gemini_from(name, (2, 0))


def needs_schema_tool(name: str, backend: Backend | None) -> bool:
    """Whether an answer in a schema must come through a tool call when there are other tools (spec §10.1).

    True for Gemini models that cannot combine the two, an unknown backend included. Models of other makers
    get the schema in their config.
    """
    return is_gemini(name) and not supports_schema_with_tools(name, backend)

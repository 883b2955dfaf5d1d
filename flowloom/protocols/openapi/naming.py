"""What operations and their parameters are called here (protocols spec §3, Names).

Names are in snake_case, as google-adk has them, unless the document's own are to be kept. What goes over the wire is
always the document's name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from flowloom.protocols.names import HASH_LENGTH, LONGEST, fit_name

PLACES = ("path", "query", "header", "cookie", "body")
"""Where an argument may go; of several with one name, the first of these has it as it is."""


def snake_case(text: str) -> str:
    """`listPets`, `X-Request-ID` and `HTTPStatus` as `list_pets`, `x_request_id` and `http_status`."""
    text = re.sub(r"[^a-zA-Z0-9]+", "_", text)
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text)
    text = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", text)
    return re.sub(r"_+", "_", text.lower()).strip("_")


def fitting(original: str, *, preserve: bool) -> str:
    """`original` as a name that every model takes: in snake_case, or, with `preserve`, as it is if it fits."""
    return fit_name(original if preserve else snake_case(original) or original)


def operation_name(operation_id: str | None, method: str, path: str, *, preserve: bool) -> str:
    """The name of an operation: of its id, else of `method` and `path`."""
    if operation_id:
        return fitting(operation_id, preserve=preserve)
    return fitting(f"{method.lower()} {path}", preserve=False)


def hashed(name: str, original: str) -> str:
    """`name` with a hash of `original` at its end, which tells it from others of that name."""
    told = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_LENGTH]
    return f"{name[: LONGEST - HASH_LENGTH - 1]}_{told}"


def argument_names(parameters: Sequence[tuple[str, str]], *, preserve: bool) -> list[str]:
    """The names of arguments for `parameters`, each a place (of `PLACES`) with the document's name.

    Where several have one name, it is that of the first place; the others have their place at the end (`id`,
    `id_query`, `id_body`), and a hash if that is taken too.
    """
    plain = [fitting(name, preserve=preserve) for _, name in parameters]
    order = sorted(range(len(parameters)), key=lambda index: (PLACES.index(parameters[index][0]), index))
    names: dict[int, str] = {}
    for index in order:
        if plain[index] not in names.values():
            names[index] = plain[index]
    for index in order:
        place, original = parameters[index]
        if index not in names:
            name = fit_name(f"{plain[index]}_{place}")
            names[index] = name if name not in names.values() else hashed(plain[index], f"{place} {original}")
    return [names[index] for index in range(len(parameters))]

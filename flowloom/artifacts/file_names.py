"""Names of any kind as names of folders that every file system takes and tells apart."""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[a-z0-9_-](?:[a-z0-9._-]{0,58}[a-z0-9_-])?")
"""No capitals: many file systems take `A` for `a`. No dot at an end: one at the start hides, one at the end is lost."""
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
"""Devices on Windows, with any extension."""
_SIGN = "%"
"""Stands in the folder's name of a name that could not be taken as it is."""


def folder_name(name: str) -> str:
    """The folder that stands for `name`: the name itself if it is plain, or else a likeness with its checksum."""
    if _PLAIN.fullmatch(name) and name.partition(".")[0] not in _RESERVED:
        return name
    checksum = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return re.sub(r"[^a-z0-9_-]", "_", name[:40].lower()) + _SIGN + checksum


def plain_name(folder: str) -> str | None:
    """The name that a folder stands for, if it can be told from the folder's name alone."""
    return None if _SIGN in folder else folder

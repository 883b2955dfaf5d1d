"""Names of tests as names of files that every file system takes and tells apart."""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"[a-z0-9_.\[\]-]+")
"""No capitals: many file systems take `A` for `a`."""
_ODD = re.compile(r"[^\w.\[\]-]+")
_SIGN = "~"
"""Stands in the file's name of a name that could not be taken as it is."""


def file_name(name: str, most: int = 120) -> str:
    """The file that stands for the test `name`, without its suffix: the name if it is plain, else a likeness with its
    checksum. Two names never have one file. `most` is how many bytes of the name it may show."""
    if len(name) <= most and _PLAIN.fullmatch(name):
        return name
    checksum = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return _ODD.sub("_", name).encode("utf-8", "ignore")[:most].decode("utf-8", "ignore") + _SIGN + checksum

"""Identifiers: UUIDs (version 4) made from the system's randomness, many at a time.

`uuid.uuid4` makes one system call and one object per id; a step needs several ids.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from struct import iter_unpack

CLIENT_CALL_PREFIX = "adk-"
"""Marks function-call ids that were minted here and not by a model (decision 16)."""

_BATCH = 128
_pool: list[str] = []
_VERSION = bytes(0x40 | byte & 0x0F for byte in range(256))
_VARIANT = bytes(0x80 | byte & 0x3F for byte in range(256))
_source: Callable[[], str] | None = None


def new_id() -> str:
    """A random UUID, version 4, as text. Safe in threads and after a fork."""
    if _source is not None:
        return _source()
    try:
        return _pool.pop()
    except IndexError:
        made = _more()
        mine = made.pop()  # another thread may take all that the pool gets
        _pool.extend(made)
        return mine


def _more() -> list[str]:
    random = bytearray(os.urandom(16 * _BATCH))
    random[6::16] = random[6::16].translate(_VERSION)
    random[8::16] = random[8::16].translate(_VARIANT)
    groups = iter_unpack("8s4s4s4s12s", random.hex().encode())  # all in C: a third of what slices cost
    return b" ".join(map(b"-".join, groups)).decode().split()


def set_source(source: Callable[[], str] | None) -> Callable[[], str] | None:
    """Take ids from elsewhere, or with None from the system's randomness again; returns the source before."""
    global _source
    before, _source = _source, source
    return before


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.clear)

INPUT_ID_PREFIX = "adk-input-"
"""How the ids of calls begin by which a tool asks for input; models see those no more than requests to confirm."""

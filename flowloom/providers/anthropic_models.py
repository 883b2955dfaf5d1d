"""What each generation of Claude takes: how it can be made to think, and which settings it refuses."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal

# The digits behind the name of a family, or, in old names, before it: `claude-opus-4-8`, `claude-3-7-sonnet-20250219`.
_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)")
_ALWAYS_THINKING = ("fable", "mythos")

_Version = tuple[int, int]
_Off = Literal["omitted", "disabled", "between_tools"]


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a model takes. The defaults are for a name that says nothing: all is sent, and the server decides."""

    budget: bool = True
    """It can be told how many tokens to think."""
    adaptive: bool = False
    """It decides itself how much to think, and can be told how hard."""
    thinks: bool = False
    """It thinks unless it is told not to."""
    off: _Off | None = "disabled"
    """How it is told not to think; None if it always thinks."""
    xhigh: bool = False
    """It knows the effort `xhigh`."""
    sampling: bool = True
    """It takes `temperature`, `top_p` and `top_k`."""
    one_sampling: bool = False
    """It takes only one of `temperature` and `top_p`."""
    forced: bool = True
    """It can be made to call a function."""
    bound: bool = False
    """Its thoughts are refused when what stood before them has changed."""


@functools.lru_cache(maxsize=256)
def abilities_of(model: str) -> Abilities:
    """What the model of that name takes."""
    name = model.lower()
    found = _VERSION.search(name)
    always = any(f"claude-{family}" in name for family in _ALWAYS_THINKING)
    if found is None and not always:
        return Abilities()
    version = _version(found)
    bound = version >= (5, 1)
    return Abilities(
        budget=version < (4, 7),
        adaptive=version >= (4, 6),
        thinks=version >= (5, 0),
        off=_off(name, version, always=always),
        xhigh=version >= (4, 7),
        sampling=version < (4, 7),
        one_sampling=version >= (4, 1),
        forced=not (bound or always),
        bound=bound,
    )


def version_of(model: str) -> tuple[int, int] | None:
    """Major and minor version of a model; None where its name tells none."""
    found = _VERSION.search(model.lower())
    return None if found is None else _version(found)


def _version(found: re.Match[str] | None) -> _Version:
    return (int(found[1]), int(found[2] or 0)) if found is not None else (5, 0)


def _off(name: str, version: _Version, *, always: bool) -> _Off | None:
    if always or ("opus" in name and version >= (5, 1)):
        return None
    if (4, 7) <= version < (5, 0):
        return "omitted"
    return "between_tools" if "sonnet" in name and version >= (5, 1) else "disabled"

"""How the offline model compares words: stems, small talk, and what fits a message best."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_WORD = re.compile(r"[^\W_]+")
_CLAUSE = re.compile(
    r"(?<=[?!;])\s+|(?<=[a-z)\d]\.)\s+|\n+|,?\s+(?:and|then|also|plus)\s+(?=(?:also|then|please|what|how|which|where|"
    r"when|who|do|does|is|are|can|could|find|book|show|tell|give|get|convert|plan|search|check|list|add|write)\b)",
    re.I,
)
_SUFFIXES = (("ies", "y", 5), ("sses", "ss", 5), ("ches", "ch", 5), ("shes", "sh", 5), ("xes", "x", 4))

STOP_WORDS = frozenset(
    """a about after again all also am an and any are as at be been before but by can could did do does for from get
    give go had has have he her here hers him his how i if in into is it its just let like long many may me might more
    most much must my need no not now of off on one or our out over own please really shall she should show so some
    such take tell than thank thanks that the their them then there these they thing this those to too up us use user
    very want was we well were what when where which who whom why will with within without would yes you your call
    agent question answer""".split()
)
_SMALL_TALK = frozenset(
    """hello hi hey good morning afternoon evening night thanks thank you bye goodbye ok okay yes no sure great nice
    cool cheers please how are is it going who what can do help me with there everyone all very much a lot the so
    that perfect fine sorry welcome""".split()
)

NAME_WEIGHT = 3.0
TEXT_WEIGHT = 1.5
PARAMETER_WEIGHT = 0.4
FITS = 1.0
"""The score from which on a candidate is taken: more than a word that all share, less than one word of its own."""


def stem(word: str) -> str:
    """A word without the endings that carry number and tense; rough, but the same for both sides."""
    word = word.lower()
    for ending, instead, least in _SUFFIXES:
        if word.endswith(ending) and len(word) >= least:
            return _bare(word.removesuffix(ending) + instead)
    if word.endswith("s") and len(word) > 3 and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return _bare(word)


def _bare(word: str) -> str:
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return _undoubled(word.removesuffix(ending))
    return _undoubled(word[:-1]) if len(word) > 4 and word[-1] in "ey" else word


def _undoubled(word: str) -> str:
    """A word without the consonant that an ending doubled: planned, sunny."""
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz" else word


def stems(text: str) -> list[str]:
    """The stems of the words that mean something, in order."""
    return [stem(word) for word in _WORD.findall(text) if word.lower() not in STOP_WORDS and len(word) > 1]


def plain_words(text: str) -> list[str]:
    """All words, in lower case."""
    return [word.lower() for word in _WORD.findall(text)]


def clauses(text: str) -> list[str]:
    """The parts of a message that may each ask for something else."""
    parts = [part.strip(" ,") for part in _CLAUSE.split(text)]
    return [part for part in parts if stems(part)] or [text.strip()]


def is_small_talk(text: str) -> bool:
    """Whether a message only greets, thanks or asks what there is."""
    words = plain_words(text)
    return bool(words) and len(words) <= 8 and all(word in _SMALL_TALK for word in words)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tool or an agent that could be chosen: its words, each with a weight."""

    name: str
    weights: Mapping[str, float]
    factor: float = 1.0


def candidate(name: str, description: str, others: Iterable[str] = (), factor: float = 1.0) -> Candidate:
    """A candidate of this name and description; `others` are texts that say less about it."""
    weights: dict[str, float] = {}
    for text in others:
        weights.update((word, PARAMETER_WEIGHT) for word in stems(text))
    weights.update((word, TEXT_WEIGHT) for word in stems(description))
    weights.update((word, NAME_WEIGHT) for word in stems(name))
    return Candidate(name, weights, factor)


def ranked(text: str, candidates: Iterable[Candidate]) -> list[tuple[float, str]]:
    """Score and name of each candidate, the best first; a word counts less the more of them have it."""
    pool = list(candidates)
    wanted = dict.fromkeys(stems(text))
    holders = {word: sum(word in each.weights for each in pool) for word in wanted}
    scored = [
        (each.factor * sum(each.weights[word] / holders[word] ** 0.5 for word in wanted if word in each.weights), index)
        for index, each in enumerate(pool)
    ]
    scored.sort(key=lambda pair: (-pair[0], pair[1]))
    return [(score, pool[index].name) for score, index in scored]

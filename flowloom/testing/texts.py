"""Texts made up from what a schema says of them: length, format, and simple patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

_MAX_TRIES = 64
_MAX_RANGE = 200
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
_DAY = datetime(2024, 1, 1, 12, tzinfo=UTC)

_FORMATS: dict[str, Callable[[int], str]] = {
    "date": lambda nth: (_DAY + timedelta(days=nth)).date().isoformat(),
    "date-time": lambda nth: (_DAY + timedelta(days=nth)).isoformat().replace("+00:00", "Z"),
    "time": lambda nth: (_DAY + timedelta(minutes=nth)).time().isoformat() + "Z",
    "duration": lambda nth: f"P{nth + 1}D",
    **dict.fromkeys(("email", "idn-email"), lambda nth: f"user{nth or ''}@example.com"),
    "name-email": lambda nth: f"User <user{nth or ''}@example.com>",
    **dict.fromkeys(("uri", "url", "uri-reference", "iri"), lambda nth: f"https://example.com/{nth or ''}"),
    **dict.fromkeys(("hostname", "idn-hostname"), lambda nth: f"host{nth or ''}.example.com"),
    **{
        f"uuid{v or ''}": lambda nth, v=v or 4: f"00000000-0000-{v}000-8000-{nth:012d}"
        for v in (0, 1, 3, 4, 5, 6, 7, 8)
    },
    **dict.fromkeys(("ipv4", "ipvanyaddress", "ipv4interface", "ipvanyinterface"), lambda nth: f"192.0.2.{nth + 1}"),
    **dict.fromkeys(("ipv4network", "ipvanynetwork"), lambda nth: f"192.0.{nth + 2}.0/24"),
    **dict.fromkeys(("ipv6", "ipv6interface"), lambda nth: f"2001:db8::{nth + 1:x}"),
    "ipv6network": lambda nth: f"2001:db8:{nth:x}::/48",
    **dict.fromkeys(("byte", "base64", "base64url"), lambda nth: "dGV4" * (nth + 1)),
    "json-string": str,
    "json-pointer": lambda nth: f"/{nth}",
    "regex": lambda nth: "a" * (nth + 1),
}


def text_for(schema: Mapping[str, Any], word: str, nth: int = 0) -> str:
    """A text that fits `minLength`, `maxLength`, `pattern` (one or a list) and `format`; `word` itself, if it may be.

    `nth` asks for another one than smaller numbers give. Raises `ValueError` with the reason if none is found.
    """
    least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
    given: Any = schema.get("pattern", [])
    patterns: list[str] = [given] if isinstance(given, str) else given
    try:
        tests = [re.compile(pattern) for pattern in patterns]
        for text in _texts(schema.get("format", ""), word, patterns, least, most, nth):
            if least <= len(text) <= (len(text) if most is None else most) and all(test.search(text) for test in tests):
                return text
    except (re.error, ValueError, RecursionError) as error:
        raise ValueError(f"its pattern {_shown(patterns)} is not understood: {error}") from error
    wanted = [f"the pattern {_shown(patterns)}"] if patterns else []
    wanted += [f"the format `{schema['format']}`"] if "format" in schema else []
    if least or most is not None:
        wanted.append(f"a length of {least} to {'any' if most is None else most}")
    raise ValueError(f"no text was found that has {' and '.join(wanted)}" + (" and is still unused" if nth else ""))


def _shown(patterns: Iterable[str]) -> str:
    return " and ".join(f"`{pattern}`" for pattern in patterns)


def _texts(form: str, word: str, patterns: Sequence[str], least: int, most: int | None, nth: int) -> Iterator[str]:
    """Texts that may fit, the best first."""
    if form in _FORMATS:
        yield _FORMATS[form](nth)
        if not patterns:
            return
    yield _sized(word or "text", least, most, nth)
    for repeats in range(min(least, _MAX_TRIES) + 2):
        for pattern in patterns:
            for pick in range(nth, nth + _MAX_TRIES):
                text = _Pattern(pattern, repeats, pick).sample()
                padding = "a" * (least - len(text))
                yield from (text, text + padding, padding + text)


def _sized(word: str, least: int, most: int | None, nth: int) -> str:
    """The word, made different by a number, longer by being said again, and shorter by being cut."""
    number = str(nth + 1) if nth else ""
    wanted = max(least, len(word) + len(number))
    kept = max((wanted if most is None else min(wanted, most)) - len(number), 0)
    return (word * (kept // len(word) + 1))[:kept] + number


class _Pattern:
    """A reader of simple regular expressions that writes a text as it reads.

    `repeats` is how often more than need be repeated things are; `pick` says which alternative, and which character
    of a class, is taken. What it leaves out of account (anchors, what is looked for ahead) the caller checks. Raises
    `ValueError` for what it cannot read.
    """

    def __init__(self, pattern: str, repeats: int, pick: int) -> None:
        self._pattern = pattern
        self._at = 0
        self._repeats = repeats
        self._pick = pick

    def sample(self) -> str:
        """A text that probably matches."""
        text = self._alternatives()
        if self._at < len(self._pattern):
            raise ValueError(f"at position {self._at}")
        return text

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self, form: str) -> re.Match[str] | None:
        """What stands here, if it is of this form."""
        match = re.compile(form).match(self._pattern, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _alternatives(self) -> str:
        texts = [self._sequence()]
        while self._take(r"\|"):
            texts.append(self._sequence())
        return texts[self._pick % len(texts)]

    def _sequence(self) -> str:
        text = ""
        while self._peek() not in ("", "|", ")"):
            text += self._repeated(self._atom())
        return text

    def _repeated(self, text: str) -> str:
        match = self._take(r"([*+?])[?+]?|\{(\d*)(,?)(\d*)\}[?+]?")
        if match is None:
            return text
        sign, low, comma, high = match.groups()
        if sign:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        else:
            least = int(low or 0)
            most = int(high) if high else (None if comma else least)
        return text * (least + self._repeats if most is None else min(least + self._repeats, most))

    def _atom(self) -> str:
        if self._take(r"[\^$]|\\[bBAzZ]"):
            return ""
        if self._peek() == "(":
            return self._group()
        if self._take(r"\["):
            return self._one_of(self._class())
        escape = self._escaped()
        if escape is not None:
            return self._one_of(escape)
        character = self._peek()
        self._at += 1
        return self._one_of(_LETTERS) if character == "." else character

    def _group(self) -> str:
        if self._take(r"\(\?[a-zA-Z-]+\)"):  # flags
            return ""
        ahead = self._take(r"\(\?<?[=!]")
        if ahead is None and self._take(r"\(\?P?<\w+>|\(\?[a-zA-Z-]*:|\((?!\?)") is None:
            raise ValueError(f"at position {self._at}")
        text = self._alternatives()
        if self._take(r"\)") is None:
            raise ValueError(f"at position {self._at}")
        return "" if ahead else text

    def _class(self) -> str:
        negated = self._take(r"\^") is not None
        held = "]" if self._take(r"\]") else ""
        while not self._take(r"\]"):
            first = self._member()
            if len(first) == 1 and self._take(r"-(?!\])"):
                last = ord(self._member()[0])
                first = "".join(map(chr, range(ord(first), min(last, ord(first) + _MAX_RANGE) + 1)))
            held += first
        return _without(held) if negated else held

    def _member(self) -> str:
        """The characters of one entry of a class."""
        escaped = self._escaped()
        if escaped is not None:
            return escaped
        match = self._take(r"(?s:.)")
        if match is None:
            raise ValueError(f"at position {self._at}")
        return match[0]

    def _escaped(self) -> str | None:
        """The characters that an escape here stands for; None if there is none."""
        match = self._take(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))")
        if match is None:
            return None
        if match[1] or match[2]:
            return chr(int(match[1] or match[2], 16))
        name = match[3]
        if name in _CLASSES:
            return _CLASSES[name]
        if name.isalnum():
            raise ValueError(f"at position {match.start()}")
        return name

    def _one_of(self, characters: str) -> str:
        if not characters:
            raise ValueError(f"at position {self._at}")
        return characters[self._pick % len(characters)]


def _without(characters: str) -> str:
    return "".join(each for each in _LETTERS + _LETTERS.upper() + _DIGITS + " -_.,:/" if each not in characters)


_CLASSES = {
    "d": _DIGITS,
    "D": _LETTERS,
    "w": _LETTERS + _DIGITS,
    "W": " -",
    "s": " ",
    "S": _LETTERS + _DIGITS,
    "n": "\n",
    "t": "\t",
    "r": "\r",
}

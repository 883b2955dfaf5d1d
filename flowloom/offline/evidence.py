"""What a text holds that could be an argument: numbers, dates, names, codes, quotations.

Each find is given out once, so that two parameters of one call do not get the same words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from flowloom.offline.words import STOP_WORDS, stem

_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = "(?:" + "|".join(f"{month[:3]}(?:{month[3:]})?" for month in _MONTHS) + r")\b\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = re.compile(
    rf"\b(?:\d{{4}}-\d{{2}}-\d{{2}}|{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{4}})?|{_MONTH}\s+{_DAY}\b(?:,?\s+\d{{4}})?|"
    r"(?:today|tonight|tomorrow|(?:next|this)\s+(?:week|month|weekend|\w+day)|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
    r")(?=\W|$)",
    re.I,
)
_MONTH_NAME = re.compile(
    r"\b(?:" + "|".join(month for month in _MONTHS if month != "may") + r"|May)\b|\bin may\b", re.I
)
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)|`([^`]+)`")
_CODE = re.compile(r"\b(?=[A-Za-z-]*\d)[A-Za-z][A-Za-z-]*\d[\w-]*\b")
_EMAIL = re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.]+\b")
_NUMBER = re.compile(r"(?<![\w.-])(-?\d[\d,]*(?:\.\d+)?)(?![\d])\s?([^\W\d_]+|[°%])?")
_NUMBER_WORD = re.compile(
    r"\b(one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b(?:\s+([^\W\d_]+))?", re.I
)
_WORDS_AS_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_UPPER = re.compile(r"\b[A-Z]{2,5}\b")
_SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}
_TOKEN = re.compile(r"[^\W\d_][^\W_]*(?:['’-][^\W_]+)*")
_LINKS = ("in", "at", "near", "around", "of", "about", "to", "for", "from", "into", "visit", "visiting", "leaving")
_NO_NAMES = STOP_WORDS | frozenset(
    """be go fly travel see book visit know find stay make eat buy sleep convert exchange leave drive rent pay spend
    least most all home today tomorrow tonight week month year day days night nights morning weekend people person
    persons adult adults
    summer winter spring autumn mon tue monday tuesday wednesday thursday friday saturday sunday euros dollars hotel
    hotels flight flights trip holiday weather""".split()
)

_JOINING = ("de", "da", "do", "del", "della", "di", "du", "la", "le", "of", "van", "von")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a text, and the word that leads to it."""

    text: str
    link: str
    span: Span


class Evidence:
    """The finds of one text. `known` are stems of words that are no names even when they begin a sentence."""

    def __init__(self, text: str, known: Collection[str] = ()) -> None:
        self.text = text
        self._used: list[Span] = []
        self._known = known
        self._dates = [match.span() for match in _DATE.finditer(text)]
        self._codes = [match.span() for match in _CODE.finditer(text)]
        self._capitals = self._find_names()
        self._lower_case = self._lower_case_names()

    # -- one kind each; None or nothing when the text has no more of it ------------------------------------

    def date(self) -> str | None:
        """The next date, as written."""
        return self._take(self._dates)

    def month(self) -> str | None:
        """The next name of a month."""
        found = self._take(match.span() for match in _MONTH_NAME.finditer(self.text))
        return found and found.split()[-1].capitalize()

    def quoted(self) -> str | None:
        """The next quotation, without its marks."""
        found = self._take(match.span() for match in _QUOTED.finditer(self.text))
        return found and found[1:-1]

    def code(self) -> str | None:
        """The next word of letters and digits, or of capitals."""
        return self._take(self._codes) or self.capitals()

    def capitals(self) -> str | None:
        """The next word in capitals only."""
        return self._take(match.span() for match in _UPPER.finditer(self.text))

    def email(self) -> str | None:
        """The next e-mail address."""
        return self._take(match.span() for match in _EMAIL.finditer(self.text))

    def number(self, nouns: Collection[str] = (), *, only_beside: bool = False) -> float | None:
        """The next number; rather one that stands before a word with one of the stems `nouns`."""
        found = [m for m in _NUMBER.finditer(self.text) if not self._inside(m.span(1), self._dates + self._codes)]
        found += _NUMBER_WORD.finditer(self.text)
        found = sorted((m for m in found if not self._inside(m.span(1), self._used)), key=lambda m: m.start())
        best = next((m for m in found if m.group(2) and stem(m.group(2)) in nouns), None)
        if best is None and found and not only_beside:
            best = found[0]
        if best is None:
            return None
        self._used.append(best.span(1))
        word = best.group(1).lower()
        number = float(_WORDS_AS_NUMBERS.index(word) if word in _WORDS_AS_NUMBERS else word.replace(",", ""))
        return number if math.isfinite(number) else None

    def unit(self, side: str) -> str | None:
        """The unit or currency of an amount: `from` what it is given in, `to` what it is wanted in."""
        text = self.text
        if side == "from":
            symbol = next((name for mark, name in _SYMBOLS.items() if mark in text), None)
            if symbol:
                return symbol
            patterns = (
                r"\d\s?(?:degrees?\s+|°\s?)?([^\W\d_]+)",
                r"\bfrom\s+([^\W\d_]+)",
                r"\b([^\W\d_]+)\s+(?:to|in|into)\s+[^\W\d_]+\W*$",
            )
        else:
            patterns = (
                r"\bhow (?:many|much)\s+([^\W\d_]+)",
                r"\b(?:to|in|into|as)\s+(?:degrees?\s+|°\s?)?([^\W\d_]+)",
            )
        for pattern in patterns:
            for match in re.finditer(pattern, text, re.I):
                span = match.span(1)
                if match.group(1).lower() not in _NO_UNITS and not self._inside(span, self._used):
                    self._used.append(span)
                    return match.group(1)
        return None

    def nationality(self) -> str | None:
        """Where somebody is said to be from, as an adjective."""
        return self._take(match.span(1) for pattern in _NATIONALITY for match in pattern.finditer(self.text))

    def name(self, links: Iterable[str] = (), *, leave: int = 0, person: bool = False) -> str | None:
        """The next name; rather one after a word of `links`, in their order.

        Without such a word, one that has none at all is preferred, and `leave` names stay for others; a name that
        another word of place leads to is not taken when a `person` is looked for.
        """
        free = [name for name in self._capitals if not self._inside(name.span, self._used)]
        if not free and not (person and self._capitals):
            free = [name for name in self._lower_case if not self._inside(name.span, self._used)]
        for link in links:
            for name in free:
                if name.link == link:
                    return self._use(name)
        if person:
            free = [name for name in free if name.link not in _LINKS]
        if len(free) <= leave:
            return None
        return self._use(min(free, key=lambda name: name.link in _LINKS))

    def rest(self) -> str:
        """The words that were not given out and are not about the call itself."""
        words = [
            match.group()
            for match in re.finditer(r"[^\s,;:?!]+", self.text)
            if not self._inside(match.span(), self._used)
            and match.group().lower() not in STOP_WORDS
            and stem(match.group().strip(".")) not in self._known
        ]
        return " ".join(words).strip(" .")

    # -- finding ---------------------------------------------------------------------------------------

    def _take(self, spans: Iterable[Span]) -> str | None:
        for span in spans:
            if not self._inside(span, self._used):
                self._used.append(span)
                return self.text[span[0] : span[1]]
        return None

    def _use(self, name: Name) -> str:
        self._used.append(name.span)
        return name.text

    @staticmethod
    def _inside(span: Span, spans: Iterable[Span]) -> bool:
        return any(span[0] < end and start < span[1] for start, end in spans)

    def _find_names(self) -> list[Name]:
        """The capitalised names."""
        found: list[Name] = []
        tokens = list(_TOKEN.finditer(self.text))
        index = 0
        while index < len(tokens):
            last = index
            if self._is_capital(tokens[index]):
                while (step := self._step(tokens[last : last + 3])) > 0:
                    last += step
                found.append(self._name(tokens, index, last))
            index = last + 1
        return found

    def _step(self, tokens: list[re.Match[str]]) -> int:
        """How far away the next word of a name is: 1, 2 over a joining word (Casa do Rio), or 0 when it ends."""
        for step, following in enumerate(tokens[1:], 1):
            if self.text[tokens[step - 1].end() : following.start()] != " ":
                return 0
            if self._is_capital(following):
                return step
            if following.group() not in _JOINING:
                return 0
        return 0

    def _is_capital(self, token: re.Match[str]) -> bool:
        word = token.group()
        if not word[0].isupper() or self._inside(token.span(), self._dates + self._codes) or _UPPER.fullmatch(word):
            return False
        if word.lower() in _MONTHS or word.lower() in STOP_WORDS:
            return False
        begins = not self.text[: token.start()].strip() or self.text[: token.start()].rstrip()[-1] in ".!?:;\"“'"
        return not (begins and (stem(word) in self._known or word.lower() in _NO_NAMES))

    def _name(self, tokens: list[re.Match[str]], first: int, last: int, change: Callable[[str], str] = str) -> Name:
        span = (tokens[first].start(), tokens[last].end())
        link = tokens[first - 1].group().lower() if first else ""
        if link in ("and", "or") or (first and "," in self.text[tokens[first - 1].end() : span[0]]):
            link = ""
        return Name(change(self.text[span[0] : span[1]]), link, span)

    def _lower_case_names(self) -> list[Name]:
        """The words after a preposition, for people who do without capitals."""
        tokens = list(_TOKEN.finditer(self.text))
        found: list[Name] = []
        for index in range(1, len(tokens)):
            word = tokens[index].group().lower()
            if (
                tokens[index - 1].group().lower() in _LINKS
                and word not in _NO_NAMES
                and word not in _MONTHS
                and stem(word) not in self._known
                and not self._inside(tokens[index].span(), self._dates)
                and tokens[index].group() == word
            ):
                found.append(self._name(tokens, index, index, str.title))
        return found


_NATIONALITY = (
    re.compile(r"\b([A-Z][a-z]+)\s+(?:passport|citizen|national|travell?er)s?\b", re.I),
    re.compile(r"\b(?:am|I'm|I’m|are|as an?|for an?)\s+(?:an?\s+)?([A-Z][a-z]+)\b"),
)
_NO_UNITS = frozenset("a an the and or of to in is are night nights day days people person me my our it for".split())

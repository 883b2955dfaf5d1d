"""How the offline model fills the arguments of a call from what was said, by their types and names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from flowloom.offline.evidence import Evidence
from flowloom.offline.request import Function
from flowloom.offline.words import plain_words, stem, stems
from flowloom.schemas.keywords import keywords_of

_KINDS: list[tuple[str, frozenset[str]]] = [
    (kind, frozenset(words.split()))
    for kind, words in (
        ("email", "email mail"),
        ("month", "month season"),
        ("date", "date day when checkin checkout weekday until since deadline"),
        ("nationality", "nationality citizenship passport"),
        ("currency", "currency currencies"),
        ("unit", "unit units"),
        ("person", "passenger guest traveller traveler customer person who author name"),
        ("code", "id code number reference ref key sku serial booking"),
        (
            "free",
            """query question text request message topic content prompt note reason title subject search keyword
            keywords task goal summary description draft feedback comment result""",
        ),
        (
            "place",
            """city cities place places location origin destination country airport town region where area address
            start end from to""",
        ),
    )
]
_FROM = frozenset("from source base origin start departure".split())
_LASTING = frozenset({"place", "date", "month", "nationality", "currency", "unit"})
_CHOICES = ("anyOf", "oneOf", "allOf")
_MAX_DEPTH = 4
_MAX_ITEMS = 12
_MAX_LENGTH = 10_000


@dataclass(slots=True)
class Filled:
    """Arguments, the required ones that nothing was found for, and how many rest on something that was found."""

    args: dict[str, Any] = field(default_factory=dict[str, Any])
    missing: list[str] = field(default_factory=list[str])
    found: int = 0


@dataclass(slots=True)
class Filler:
    """Fills arguments from `clause`, then the whole `message`, then what was said `earlier` (latest first).

    `given` are values that the message itself has by name, `facts` those that results have; `known` are stems that
    are no content. With `whole` set nothing
    stays missing: it is the text for what has to be said, and every other type gets its plainest value.
    """

    clause: str
    message: str = ""
    earlier: Sequence[str] = ()
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    known: Collection[str] = ()
    whole: str | None = None
    _definitions: dict[str, Any] = field(default_factory=dict[str, Any])
    _sources: list[Evidence] = field(default_factory=list[Evidence])
    _current: int = 0
    """How many of the sources are of the message at hand."""

    def arguments(self, function: Function) -> Filled:
        """The arguments of one call."""
        return self.filled(function.schema)

    def filled(self, schema: dict[str, Any]) -> Filled:
        """An object of this schema."""
        self._definitions = schema.get("$defs") or {}
        current = dict.fromkeys(text for text in (self.clause, self.message) if text)
        self._sources = [Evidence(text, self.known) for text in (*current, *self.earlier)]
        self._current = len(current)
        return self._object(schema, 0)

    def value(self, schema: dict[str, Any]) -> Any:
        """A value of any schema; nothing stays missing."""
        return self.filled({"properties": {"value": schema}, "required": ["value"], "$defs": schema.get("$defs")}).args[
            "value"
        ]

    def _object(self, schema: dict[str, Any], depth: int) -> Filled:
        filled = Filled()
        required = set(cast(list[str], schema.get("required") or []))
        properties = cast(dict[str, Any], schema.get("properties") or {})
        # what can be told by its form is taken first, so that it is not used up as mere words
        order = sorted(properties, key=lambda name: _rank(name, self._resolved(properties[name])))
        values: dict[str, Any] = {}
        for name in order:
            each = self._resolved(properties[name])
            value = self._value(name, each, name in required, depth)
            if value is not None:
                values[name] = value
                filled.found += 1
            elif name in required and "default" not in each:
                value = self._plain(name, each, depth)
                if value is None:
                    filled.missing.append(name)
                else:
                    values[name] = value
        filled.args = {name: values[name] for name in properties if name in values}
        return filled

    def _resolved(self, given: Any) -> dict[str, Any]:
        """A schema behind its reference, or the first of several that is not null."""
        schema = keywords_of(given)
        for _ in range(_MAX_DEPTH):
            options: list[Any] = []
            for key in _CHOICES:
                options += schema.get(key) or ()
            reference = schema.get("$ref")
            if reference is not None:
                schema = keywords_of(self._definitions.get(str(reference).rsplit("/", 1)[-1]))
            elif options:
                others = {key: value for key, value in schema.items() if key not in _CHOICES}
                nothing: dict[str, Any] = {}
                schema = others | next(
                    (each for each in map(keywords_of, options) if each.get("type") != "null"), nothing
                )
            else:
                break
        return schema

    # -- one value -------------------------------------------------------------------------------------

    def _value(self, name: str, schema: dict[str, Any], required: bool, depth: int) -> Any:
        """What is known of a parameter; None for nothing."""
        fact = self.facts.get(name)
        if name in self.given and _fits(self.given[name], schema):
            return self.given[name]
        if fact is not None and _fits(fact, schema) and _kind_of(name) in ("", "free"):
            return fact
        said = self._said(name, schema, required, depth)
        return fact if said is None and fact is not None and _fits(fact, schema) else said

    def _said(self, name: str, schema: dict[str, Any], required: bool, depth: int) -> Any:
        """What the texts say about a parameter."""
        if schema.get("const") is not None:
            return schema["const"]
        if schema.get("enum"):
            return self._one_of(schema["enum"])
        kind = _type_of(schema)
        if kind == "boolean":
            return self._yes_or_no(name)
        if kind in ("integer", "number"):
            return self._number(name, schema, required)
        if kind == "array":
            return self._list(name, self._resolved(schema.get("items") or {})) or None
        if kind == "object":
            inner = self._object(schema, depth + 1) if depth < _MAX_DEPTH else Filled()
            return inner.args if inner.args and not inner.missing else None
        return self._text(name, schema, required)

    def _one_of(self, values: Sequence[Any]) -> Any:
        for source in self._sources[: self._current]:
            words = plain_words(source.text)
            parts = {stem(word) for word in words}
            joined = f" {' '.join(words)} "
            for value in values:
                mine = plain_words(str(value))
                if f" {' '.join(mine)} " in joined or (len(mine) == 1 and len(mine[0]) > 2 and stem(mine[0]) in parts):
                    return value
        return None

    def _yes_or_no(self, name: str) -> bool | None:
        wanted = set(stems(re.sub(r"^(is|has|with|include|need|want)_", "", name)))
        words = plain_words(self._sources[0].text) if self._sources else []
        for index, word in enumerate(words):
            if stem(word) in wanted:
                return not {"no", "not", "without", "non"} & set(words[max(0, index - 2) : index])
        return None

    def _number(self, name: str, schema: dict[str, Any], required: bool) -> int | float | None:
        nouns = set(stems(f"{name} {schema.get('description', '')}"))
        for source in self._sources if required else self._sources[: self._current]:
            number = source.number(nouns, only_beside=not required)
            if number is not None:
                return int(number) if number == int(number) or _type_of(schema) == "integer" else number
        return None

    def _list(self, name: str, items: dict[str, Any]) -> list[Any]:
        values: list[Any] = []
        if items.get("enum"):
            words = {stem(word) for word in plain_words(self.message or self.clause)}
            return [value for value in items["enum"] if set(map(stem, plain_words(str(value)))) <= words]
        places = _kind_of(name) == "place"
        for source in self._sources[: self._current]:
            numeric = _type_of(items) in ("integer", "number")
            for take in (source.number,) if numeric else (source.quoted, source.code, source.name):
                if places and take != source.name:
                    continue
                while len(values) < _MAX_ITEMS and (value := take()) is not None:
                    values.append(int(value) if isinstance(value, float) and value.is_integer() else value)
                if values:
                    return values
        return values

    def _text(self, name: str, schema: dict[str, Any], required: bool) -> str | None:
        kind = "date" if schema.get("format") in ("date", "date-time") else _kind_of(name)
        if kind == "free":
            return self._free(required)
        # what was said before stands for what is left out, but a thing or a person has to be named again
        for source in self._sources if required and kind in _LASTING else self._sources[: self._current]:
            found = self._typed(source, kind, name, required)
            if found is not None:
                return _as_iso(found) if schema.get("format") == "date" else found
        return None

    def _typed(self, source: Evidence, kind: str, name: str, required: bool) -> str | None:
        side = "from" if _FROM & set(plain_words(name.replace("_", " "))) else "to"
        if kind in ("currency", "unit"):
            return source.unit(side) or (source.capitals() if kind == "currency" else None)
        if kind == "place":
            if side == "from":
                return source.name(("from", "leaving"), leave=1)
            return source.name(("to", "in", "at", "near", "for", "visit"))
        if kind == "person":
            return source.name(("is", "for", "passenger", "guest", "name"), person=True)
        if kind in ("date", "month", "code", "email", "nationality"):
            return getattr(source, kind)()
        return source.quoted() or (source.code() or source.name(()) if required else None)

    def _free(self, required: bool) -> str | None:
        if self.whole is not None:
            return self.whole if required else None
        quoted = self._sources[0].quoted() if self._sources else None
        return quoted or (self.clause.strip() or None if required else None)

    # -- what is left ------------------------------------------------------------------------------------

    def _plain(self, name: str, schema: dict[str, Any], depth: int) -> Any:
        """A value for a required parameter about which nothing was said; None if it has to be asked for."""
        kind = _type_of(schema)
        if schema.get("enum"):
            return schema["enum"][0]
        if kind == "boolean":
            return False
        if self.whole is None:
            words = self._sources[0].rest() if self._sources and kind == "string" and _kind_of(name) == "" else ""
            return words or None
        if kind in ("integer", "number"):
            least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            return least + 1 if "exclusiveMinimum" in schema else max(least, 0)
        if kind == "array":
            count = min(schema.get("minItems", 0), _MAX_ITEMS)
            return [self._plain(name, self._resolved(schema.get("items") or {}), depth) for _ in range(count)]
        if kind == "object":
            if depth >= _MAX_DEPTH:
                return {}
            return self._object(schema, depth + 1).args
        if schema.get("format") == "date":
            return "2000-01-01"
        if schema.get("format") == "date-time":
            return "2000-01-01T00:00:00Z"
        least, most = min(schema.get("minLength", 0), _MAX_LENGTH), schema.get("maxLength")
        return self.whole.ljust(least, ".")[:most]


def _type_of(schema: dict[str, Any]) -> str:
    given: Any = schema.get("type")
    if isinstance(given, list):
        given = next((each for each in cast(list[Any], given) if each != "null"), None)
    if given is None:
        given = "object" if "properties" in schema else "string"
    return str(given).lower()


def _kind_of(name: str) -> str:
    words = set(plain_words(name.replace("_", " "))) | {stem(word) for word in plain_words(name.replace("_", " "))}
    if "check" in words:
        return "date"
    return next((kind for kind, marks in _KINDS if words & marks), "")


def _rank(name: str, schema: dict[str, Any]) -> int:
    """When a parameter is filled: the more its values can be told by their form, the earlier."""
    kind = _type_of(schema)
    if schema.get("enum") or kind == "boolean" or schema.get("format"):
        return 0
    if kind in ("integer", "number"):
        return 2
    if kind != "string":
        return 20  # lists take all that is left
    order = {
        "date": 0,
        "email": 0,
        "code": 1,
        "nationality": 1,
        "unit": 1,
        "currency": 1,
        "month": 3,
        "place": 3,
        "person": 4,
    }
    rank = order.get(_kind_of(name), 6)
    return rank * 2 + (_kind_of(name) == "place" and not _FROM & set(plain_words(name.replace("_", " "))))


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    if schema.get("enum"):
        return value in schema["enum"]
    wanted: dict[str, tuple[type, ...]] = {
        "string": (str,),
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
        "array": (list,),
        "object": (dict,),
    }
    return isinstance(value, wanted.get(_type_of(schema), (object,)))


def _as_iso(text: str) -> str:
    """A date with a year in the form that a schema asks for; others as written."""
    cleaned = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b|,|\bof\b", " ", text)
    cleaned = " ".join(cleaned.split())
    for form in ("%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y"):
        try:
            return datetime.strptime(cleaned, form).date().isoformat()
        except ValueError:
            continue
    return text

"""`Secrets`: what is declared to be a secret, and data without it."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast
from urllib.parse import quote, quote_plus

from pydantic import BaseModel, SecretBytes, SecretStr

from flowloom.auth.fields import is_secret_field, plain_name
from flowloom.inspection.canonical import HIDDEN, Data

SHORTEST = 8
"""Shorter values are not looked for: they would be found in the middle of words."""
MARK = re.compile(r'<redacted [^<>"\\]+>')
"""What stands in the place of a secret."""

_NAMING = ("key", "token", "secret", "password", "passwd", "pwd", "passphrase", "credential", "authorization", "cookie")
"""What a word in the name of a variable, setting or header ends in if the value is a secret."""
_FIELDS = frozenset(
    "authorization proxyauthorization cookie setcookie xapikey xgoogapikey xauthtoken passwd passphrase authtoken "
    "sessiontoken bearertoken secretkey secretaccesskey awssecretaccesskey awssessiontoken".split()
)
"""Plain names of headers and fields whose values are secrets, besides those of credentials."""
_SCHEMAS = ("properties", "patternProperties", "$defs", "defs", "definitions")
"""Fields whose own fields are schemas, by the names of what these describe."""
_SCHEMES = ("bearer", "basic", "token")
_NO_NAME = re.compile(r'[^ -~]|[<>"\\]')


class _Span(NamedTuple):
    start: int
    end: int
    name: str


class Secrets:
    """What is a secret because it is declared to be one; nothing is guessed from how a text looks.

    `values` are pairs of a name and a secret of 8 characters or more. They are found as they are, escaped for JSON or
    for URLs, and in base64; in texts, in keys, in numbers, and over the pieces of a stream.

    `fields` are names of fields and headers whose values are secrets whatever they hold, in any spelling (`api_key`,
    `apiKey`, `Api-Key`). The secret fields of credentials, and the headers that carry keys, tokens and cookies, are
    always among them. They are found in data, and in texts that are JSON.
    """

    def __init__(self, values: Iterable[tuple[str, str]] = (), fields: Iterable[str] = ()) -> None:
        names: dict[str, str] = {}
        for name, value in sorted(values):
            value = without_scheme(value)
            if len(value) >= SHORTEST:
                names.setdefault(value, name)
        self._names = names
        self._patterns = _patterns(tuple(names.items()))
        self._fields = _FIELDS | {plain_name(name) for name in fields}

    @classmethod
    def known(
        cls, *owners: BaseModel | None, values: Iterable[tuple[str, str]] = (), fields: Iterable[str] = ()
    ) -> Secrets:
        """`values` and `fields`, and the secrets in the environment as it is now and in the attributes of `owners`.

        A variable, an attribute or an entry holds a secret if its name says so: if a word of it ends in key, token,
        secret, password, credential, authorization, cookie or the like. A `SecretStr` always does.
        """
        named = [(name, value) for name, value in os.environ.items() if is_secret_name(name)]
        held = [each for owner in owners if owner is not None for each in _attributes(owner, 0)]
        return cls([*named, *held, *values], fields)

    def redact(self, value: Data) -> Data:
        """JSON values with `<redacted NAME>` in the place of each secret. What is given stays as it is."""
        return self._without_values(self._without_fields(value))

    def redact_pieces(self, texts: Sequence[str]) -> list[str]:
        """Texts that follow each other, as in a stream, without the secrets that begin in one and end in another."""
        pieces = list(texts)
        whole = "".join(texts)
        for span in reversed(self._spans(whole)):
            at, replacement = 0, _mark(span.name)
            for index, text in enumerate(texts):
                start, end = max(span.start - at, 0), min(span.end - at, len(text))
                if start < end:
                    pieces[index] = pieces[index][:start] + replacement + pieces[index][end:]
                    replacement = ""
                at += len(text)
        return pieces

    # -- fields ------------------------------------------------------------------------------------

    def _without_fields(self, value: Data, *, in_schema: bool = False) -> Data:
        if isinstance(value, str):
            return self._json_without_fields(value) if value[:1] in ("{", "[") else value
        if isinstance(value, list):
            return [self._without_fields(item) for item in cast(list[Data], value)]
        if not isinstance(value, dict):
            return value
        entries = cast(dict[str, Data], value)
        return {
            name: _hidden(name, item)
            if self._is_declared(name, entries) and not (in_schema and isinstance(item, dict))
            else self._without_fields(item, in_schema=name in _SCHEMAS)
            for name, item in entries.items()
        }

    def _is_declared(self, name: str, beside: dict[str, Data]) -> bool:
        if name == "token" and "logProbability" in beside:  # a word of the answer
            return False
        return is_secret_field(name) or plain_name(name) in self._fields

    def _json_without_fields(self, text: str) -> str:
        try:
            data = json.loads(text)
            redacted = self._without_fields(data)
        except (ValueError, RecursionError):
            return text
        return text if redacted == data else json.dumps(redacted, ensure_ascii=False)

    # -- values ------------------------------------------------------------------------------------

    def _without_values(self, value: Data) -> Data:
        if isinstance(value, str):
            return _redact_base64(value, self._replace) or self._replace(value)
        if isinstance(value, list):
            return [self._without_values(item) for item in cast(list[Data], value)]
        if isinstance(value, dict):
            return {self._replace(k): self._without_values(v) for k, v in cast(dict[str, Data], value).items()}
        if isinstance(value, int | float) and not isinstance(value, bool):
            name = self._names.get(str(value))
            return value if name is None else _mark(name)
        return value

    def _replace(self, text: str) -> str:
        for span in reversed(self._spans(text)):
            text = text[: span.start] + _mark(span.name) + text[span.end :]
        return text

    def _spans(self, text: str) -> list[_Span]:
        """Where secrets are, in order and apart from each other. Marks are none."""
        if len(text) < SHORTEST:
            return []
        found = sorted(self._found(text), key=lambda span: (span.start, -span.end))
        if not found:
            return []
        marks = [match.span() for match in MARK.finditer(text)]
        spans: list[_Span] = []
        for span in found:
            if any(start <= span.start and span.end <= end for start, end in marks):
                continue
            if spans and span.start < spans[-1].end:
                spans[-1] = spans[-1]._replace(end=max(spans[-1].end, span.end))
            else:
                spans.append(span)
        return spans

    def _found(self, text: str) -> Iterator[_Span]:
        for name, regex in self._patterns:
            for match in regex.finditer(text):
                yield _Span(*match.span(), name)


def is_secret_name(name: str) -> bool:
    """Whether a variable, setting or header of that name holds a secret."""
    words = re.split("[^a-z]+", name.lower())
    return any(word.removesuffix("s").endswith(_NAMING) for word in words)


def without_scheme(value: str) -> str:
    """The secret in the value of an `Authorization` header, or in a value like it."""
    value = value.strip()
    scheme, _, rest = value.partition(" ")
    return rest.lstrip() if scheme.lower() in _SCHEMES else value


def _mark(name: str) -> str:
    return f"<redacted {_NO_NAME.sub('_', name) or 'secret'}>"


def _hidden(name: str, value: Data) -> Data:
    """The value of a declared field with a mark in the place of each text and number in it."""
    if isinstance(value, list):
        return [_hidden(name, item) for item in cast(list[Data], value)]
    if isinstance(value, dict):
        return {key: _hidden(name, item) for key, item in cast(dict[str, Data], value).items()}
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value
    text = str(value)
    return value if not text or text == HIDDEN or MARK.fullmatch(text) else _mark(name)


@lru_cache(maxsize=16)
def _patterns(names: tuple[tuple[str, str], ...]) -> list[tuple[str, re.Pattern[str]]]:
    patterns: list[tuple[str, re.Pattern[str]]] = []
    for value, name in names:
        forms = sorted({re.escape(form) for form in _forms(value)}, key=len, reverse=True)
        patterns.append((name, re.compile("|".join(forms))))
    return patterns


def _forms(value: str) -> Iterator[str]:
    """How a secret may be written."""
    yield value
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]
    data = value.encode("utf-8", "surrogateescape")
    yield quote(data)
    yield quote(data, safe="")
    yield quote_plus(data)
    for ahead in range(3):  # where it begins in a group of three bytes
        coded = base64.b64encode(bytes(ahead) + data).decode()
        # digits that depend on the bytes before and after are left out
        certain = coded[(0, 2, 3)[ahead] : (ahead + len(data)) * 8 // 6]
        if len(certain) >= SHORTEST:
            yield certain
            yield certain.replace("+", "-").replace("/", "_")


def _redact_base64(text: str, redact: Callable[[str], str]) -> str | None:
    """A text that is base64 throughout, with the secrets in what it stands for redacted; None if there are none."""
    if len(text) % 4 or len(text) < SHORTEST:
        return None
    digits = b"-_" if "-" in text or "_" in text else b"+/"
    try:
        data = base64.b64decode(text, digits, validate=True)
    except ValueError:
        return None
    plain = data.decode("utf-8", "surrogateescape")
    redacted = redact(plain)
    if redacted == plain:
        return None
    return base64.b64encode(redacted.encode("utf-8", "surrogateescape"), digits).decode()


def _attributes(owner: Any, depth: int) -> Iterator[tuple[str, str]]:
    """Names and values of the secrets in an object's attributes, and in those of the objects there."""
    for name, value in _items(owner):
        if isinstance(value, SecretStr | SecretBytes):
            given = value.get_secret_value()
            yield name, given if isinstance(given, str) else given.decode("utf-8", "replace")
        elif isinstance(value, str):
            if is_secret_name(name):
                yield name, value
        elif depth < 3 and (isinstance(value, BaseModel | dict) or is_secret_name(name)):
            yield from _attributes(value, depth + 1)


def _items(owner: Any) -> Iterable[tuple[str, Any]]:
    fields = cast(dict[Any, Any], owner if isinstance(owner, dict) else getattr(owner, "__dict__", {}))
    if isinstance(owner, BaseModel):
        fields = fields | (owner.__pydantic_private__ or {}) | (owner.__pydantic_extra__ or {})
    return [(str(name).lstrip("_"), value) for name, value in fields.items()]

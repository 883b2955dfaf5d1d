"""`Secrets`: what must not be written down, and data without it."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast
from urllib.parse import quote, quote_plus

from pydantic import BaseModel, SecretBytes, SecretStr

from flowloom.models import BaseLlm
from flowloom.views.canonical import HIDDEN, Data

SHORTEST = 8
"""Shorter values are not looked for: they would be found in the middle of words."""
MARK = re.compile(r'<redacted [^<>"\\]+>')
"""What stands in the place of a secret."""

_SECRET_NAME = re.compile(
    r"key(?!board|map|word|stone|note)|token(?!iz)|secret|passw|passphrase|_pwd|credential|authorization|cookie", re.I
)
_SECRET_FIELDS = frozenset(
    "authorization proxyauthorization apikey xapikey xgoogapikey xauthtoken authtoken accesstoken "
    "refreshtoken idtoken sessiontoken clientsecret secretkey secretaccesskey awssecretaccesskey privatekey password "
    "passwd passphrase".split()
)
"""Names of fields whose value is a secret whatever it looks like, in lower case without `-` and `_`."""

# A token begins where no word goes on; in JSON that is inside of JSON, an escaped line break may stand before it.
_EDGE = r"(?:(?<![\w-])|(?<=\\[nrt]))"
_NO_WORD = r"(?![A-Za-z][a-z]{0,14}[^\w~+/=-]*(?:\s|\Z))"  # prose goes on with a word
_IS = r"\\?[\"']?\s*[:=]\s*\\?[\"']?"
_OPAQUE = r"[^\s\"',;<>\\&()\[\]{}]"
_SHAPES = {
    "google api key": rf"{_EDGE}AIza[\w-]{{16,}}",
    "google access token": rf"{_EDGE}ya29\.[\w.-]{{10,}}",
    "google client secret": rf"{_EDGE}GOCSPX-[\w-]{{10,}}",
    "api key": rf"{_EDGE}sk-(?:(?=[\w-]*\d)[\w-]{{12,}}|[\w-]{{20,}})",
    "stripe key": rf"{_EDGE}[srp]k_(?:live|test)_\w{{10,}}",
    "github token": rf"{_EDGE}(?:gh[pousr]_[A-Za-z0-9]{{16,}}|github_pat_\w{{20,}})",
    "gitlab token": rf"{_EDGE}glpat-[\w-]{{16,}}",
    "hugging face token": rf"{_EDGE}hf_[A-Za-z0-9]{{20,}}",
    "npm token": rf"{_EDGE}npm_[A-Za-z0-9]{{20,}}",
    "slack token": rf"{_EDGE}xox[a-z]-[\w-]{{8,}}",
    "aws key": rf"{_EDGE}(?:AKIA|ASIA)[0-9A-Z]{{12,}}",
    "jwt": rf"{_EDGE}eyJ[\w-]{{5,}}\.[\w-]{{5,}}(?:\.[\w-]*)*",
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.*?-----END [A-Z ]*PRIVATE KEY-----|.*\Z)",
    "bearer token": rf"{_EDGE}(?i:bearer)\s+{_NO_WORD}(?P<it>[\w.~+/=-]{{8,}})",
    "header": (
        r"(?i:authorization|x-api-key|x-goog-api-key|x-auth-token|api[_-]?key|access[_-]?token|client[_-]?secret)"
        rf"{_IS}(?:(?i:bearer|basic|token)\s+{_NO_WORD}|(?={_OPAQUE}*\d))(?P<it>{_OPAQUE}{{8,}})"
    ),
    "cookie": rf"(?i:cookie){_IS}(?P<it>[\w.$-]+=[^\s\"'<>\\]{{4,}})",
    "url password": r"://[^/\s:@\"'<>{}]*:(?P<it>[^/\s@\"'<>{}]+)@",
}
_SCHEME = re.compile(r"\A(?i:bearer|basic|token)\s+")
_NO_NAME = re.compile(r'[^ -~]|[<>"\\]')
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}|[A-Za-z0-9_-]{16,}={0,2}")


class _Span(NamedTuple):
    start: int
    end: int
    name: str


class _Pattern(NamedTuple):
    name: str
    regex: re.Pattern[str]


class Secrets:
    """The secrets that this process knows of, and the shapes that secrets usually have.

    Known are: values of environment variables and of the models' attributes whose names look like secrets (key,
    token, secret, password, credential, ...), if they have 8 characters or more. They are found as they are, escaped
    for JSON or for URLs, and in base64; in texts, in keys, in numbers, and over the pieces of a stream. Besides, the
    values of fields named like `authorization`, `api_key` or `password`, and what looks like a well-known token.
    """

    def __init__(self, named: Iterable[tuple[str, str]] = ()) -> None:
        names: dict[str, str] = {}
        for name, value in sorted(named):
            value = _SCHEME.sub("", value.strip())
            if len(value) >= SHORTEST:
                names.setdefault(value, name)
        self._numbers = names
        self._patterns = [*_known_patterns(tuple(names.items())), *_shapes()]

    @classmethod
    def known(cls, *models: BaseLlm) -> Secrets:
        """The secrets in the environment as it is now, and in the attributes of these models."""
        named = [(name, value) for name, value in os.environ.items() if is_secret_name(name)]
        return cls([*named, *(each for model in models for each in _attributes(model, 0))])

    def redact(self, value: Data) -> Data:
        """JSON values with `<redacted NAME>` in the place of each secret. What is given stays as it is."""
        if isinstance(value, str):
            return self._redact_text(value)
        if isinstance(value, list):
            return [self.redact(item) for item in cast(list[Data], value)]
        if isinstance(value, dict):
            return {self._redact_text(k): self._redact_field(k, v) for k, v in cast(dict[str, Data], value).items()}
        if isinstance(value, int | float) and not isinstance(value, bool):
            name = self._numbers.get(str(value))
            return value if name is None else _mark(name)
        return value

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

    def _redact_field(self, name: str, value: Data) -> Data:
        plain = name.replace("-", "").replace("_", "").lower()
        if plain in _SECRET_FIELDS and isinstance(value, str | int | float) and not isinstance(value, bool):
            text = str(value)
            return value if not text or text == HIDDEN or MARK.fullmatch(text) else _mark(name)
        return self.redact(value)

    def _redact_text(self, text: str) -> str:
        return _redact_base64(text, self._replace) or self._replace(text)

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
                yield _Span(*(match.span("it") if "it" in regex.groupindex else match.span()), name)


def is_secret_name(name: str) -> bool:
    """Whether what goes by that name is likely to be a secret."""
    return _SECRET_NAME.search(name) is not None


def _mark(name: str) -> str:
    return f"<redacted {_NO_NAME.sub('_', name) or 'secret'}>"


@lru_cache(maxsize=1)
def _shapes() -> list[_Pattern]:
    return [_Pattern(name, re.compile(shape, re.DOTALL)) for name, shape in _SHAPES.items()]


@lru_cache(maxsize=16)
def _known_patterns(names: tuple[tuple[str, str], ...]) -> list[_Pattern]:
    patterns: list[_Pattern] = []
    for value, name in names:
        forms = sorted({re.escape(form) for form in _forms(value)}, key=len, reverse=True)
        patterns.append(_Pattern(name, re.compile("|".join(forms))))
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
    if len(text) % 4 or not _BASE64.fullmatch(text):
        return None
    url_safe = "-" in text or "_" in text
    try:
        data = (base64.urlsafe_b64decode if url_safe else base64.b64decode)(text)
    except binascii.Error:
        return None
    plain = data.decode("utf-8", "surrogateescape")
    redacted = redact(plain)
    if redacted == plain:
        return None
    coded = redacted.encode("utf-8", "surrogateescape")
    return (base64.urlsafe_b64encode if url_safe else base64.b64encode)(coded).decode()


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

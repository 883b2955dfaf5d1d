"""`RequestView`: a request in a form that two runs have in common."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Any

from flowloom.inspection.canonical import Data, canonical_field
from flowloom.inspection.sections import INTERNAL, Section, ordinals_of, sections_of
from flowloom.inspection.text import write_sections
from flowloom.inspection.tree import Fields, tree_of
from flowloom.models.request import LlmRequest
from flowloom.objects.given import of_kind


class RequestView:
    """What a model is given, as data and as text, the same whenever the same is said.

    Contents, tools and the user's own dicts keep the order of the wire, fields are sorted by name. Ids are ordinals in
    order of appearance (`call_1`), bytes `sha256:… (n bytes)`, signatures shortened, values of HTTP headers hidden.
    What a model does not get (`tools_dict`, `dynamic_instructions`) is left out. The request is looked at once, here.
    Raises `InputValidationError` for what is no request.
    """

    def __init__(self, request: LlmRequest) -> None:
        self._tree = tree_of(of_kind(LlmRequest, request, "A `RequestView` is that of an `LlmRequest`."))
        self._ordinals = ordinals_of(self._tree)
        self._sections: list[Section] | None = None

    @property
    def tree(self) -> Fields:
        """The request in full, nothing shortened."""
        return self._tree

    @cached_property
    def data(self) -> dict[str, Data]:
        """JSON values: `model`, `config`, `contents`, and what else is set. For any assertion or snapshot library."""
        known = ["model", "config", *sorted(name for name in self._tree if name not in INTERNAL), "contents"]
        return {name: canonical_field(name, self._tree[name], self._ordinals) for name in known if name in self._tree}

    @property
    def sections(self) -> list[Section]:
        """The request in pieces, in the order of the wire."""
        if self._sections is None:
            _ = self.data  # names the ids in its order
            self._sections = sections_of(self._tree, self._ordinals)
        return self._sections

    @cached_property
    def text(self) -> str:
        """A line for each leaf, longer texts in blocks."""
        return write_sections(self.sections)

    @property
    def json(self) -> str:
        """`data` as JSON on one line."""
        return json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """A name for this request: 16 hexadecimal digits of the SHA-256 of `json`."""
        return hashlib.sha256(self.json.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, RequestView) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    def __repr__(self) -> str:
        return f"<RequestView {self.digest}>"

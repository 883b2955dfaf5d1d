"""What connections and tools need of the toolset that they belong to, so that they need not know it."""

from __future__ import annotations

from typing import Any, Protocol, TextIO

from flowloom.protocols.mcp.calls import OpenCall, Question, QuestionKind


class Host(Protocol):
    """What a connection needs of its toolset."""

    errlog: TextIO | None
    roots: tuple[str, ...]
    offers: frozenset[QuestionKind]
    """What the server may ask."""

    async def answered(self, question: Question, call: OpenCall | None) -> Any:
        """The answer to a question that a callback of the program gives; None if the call's tool is to answer."""
        ...

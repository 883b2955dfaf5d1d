"""`Paid`: what the responses of a model have cost, until the event of an answer says it."""

from __future__ import annotations

from typing import TypeVar

from flowloom.context.protocols import AnyLlmAgent
from flowloom.context.totals import Totals
from flowloom.events.response import LlmResponse
from flowloom.events.wire import replace

ResponseT = TypeVar("ResponseT", bound=LlmResponse)
_KEPT = ("usage_metadata", "model_version", "finish_reason")


class Paid:
    """The responses with a usage that no event says yet, though wrappers and callbacks may drop or replace them."""

    __slots__ = ("_metered", "_responses")

    def __init__(self) -> None:
        self._responses: list[LlmResponse] = []
        self._metered: LlmResponse | None = None  # the latest partial one of an answer that is not complete

    def note(self, response: LlmResponse) -> None:
        """Take in a response of the model itself; those that are partial and without a usage may be left out."""
        if response.usage_metadata is not None:
            self._metered = response
        if not response.partial:
            self.break_off()

    def break_off(self) -> None:
        """No further response of this call of the model comes."""
        if self._metered is not None:
            self._responses.append(self._metered)
            self._metered = None

    def told_by(self, response: LlmResponse) -> LlmResponse:
        """A complete response as it becomes an event: with the usage of the model's, unless it has its own."""
        if not self._responses:
            return response
        usage = response.usage_metadata
        if usage is None:
            return with_paid(response, self._responses.pop())
        said = [each.usage_metadata for each in self._responses]
        # a usage that is none of the model's stands for all of them
        del self._responses[said.index(usage) if usage in said else slice(None)]
        return response

    def count_rest(self, totals: Totals, agent: AnyLlmAgent | None) -> None:
        """Count what no event says."""
        self.break_off()
        for response in self._responses:
            if response.usage_metadata is not None:
                totals.count_tokens(response.usage_metadata, agent)


def with_paid(response: ResponseT, paid: LlmResponse) -> ResponseT:
    """A response in the place of another, with that one's usage, model version and finish reason where it has none."""
    missing = {name: getattr(paid, name) for name in _KEPT if getattr(response, name) is None}
    if not any(value is not None for value in missing.values()):
        return response
    return replace(response, **missing)

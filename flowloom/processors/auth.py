"""The auth processor: the slot for credentials that a user has given (spec §6)."""

from __future__ import annotations

from flowloom.context import InvocationContext
from flowloom.models.request import LlmRequest


def auth(ctx: InvocationContext, request: LlmRequest) -> None:
    """Nothing yet: no tool of this release asks for credentials.

    Reads: nothing.
    Writes: nothing.
    Must come after: tools; before contents, because tools that it resumes append results.
    """

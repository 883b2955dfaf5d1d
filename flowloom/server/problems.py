"""What a request is told that cannot be answered: `{"detail", "code", "errorId"?}` (server spec §2)."""

from __future__ import annotations

from flowloom.errors import FlowloomError


class ProblemError(FlowloomError):
    """A request cannot be answered: the HTTP `status`, and the `code` that programs compare."""

    def __init__(self, status: int, code: str, detail: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}

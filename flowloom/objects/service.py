"""`Service`: what the services of a runner have in common."""

from __future__ import annotations

from typing import Self


class Service:
    """Is used by runners, and closed by the code that made it: by `close`, or as an asynchronous context manager."""

    async def close(self) -> None:
        """Finish what was asked for and let go of connections and threads. Closing twice is fine."""
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

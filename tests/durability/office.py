"""A company whose tools keep a diary in a file: what has begun and what has ended is known of a process that died."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from resuming.company import ByTurn, Company

from flowloom import BaseAgent, FunctionTool, LlmAgent, SequentialAgent, ToolContext
from flowloom.sql import Connection, Database
from flowloom.testing import call

Kind = Literal["start", "end", "statement", "commit", "committed", "event", "time"]
"""A place to die at: a tool's start or end, a statement or the commit of a write, a commit's return, an event seen."""


@dataclass
class Fuse:
    """Tells when the `number`th thing of one kind has happened; `burn` is what happens then."""

    kind: Kind = "time"
    number: int = 0
    burn: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        self.counts: dict[str, int] = {}

    def passes(self, kind: Kind) -> None:
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind == self.kind and count == self.number:
            self.burn()


class Office(Company):
    """The company with an office that asks for several things at once, non-idempotent ones among them."""

    def __init__(self, diary: Path, fuse: Fuse, *, pause: float = 0.001) -> None:
        super().__init__()
        self.fuse = fuse
        self.pause = pause
        self._diary = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def close(self) -> None:
        """Close the diary."""
        os.close(self._diary)

    def _do(self, name: str, tool_context: ToolContext) -> None:
        self._write("start", name, tool_context)
        self.fuse.passes("start")
        time.sleep(self.pause)
        self._write("end", name, tool_context)
        self.fuse.passes("end")

    def _write(self, what: str, name: str, tool_context: ToolContext) -> None:
        os.write(self._diary, f"{os.getpid()} {what} {name} {tool_context.function_call_id}\n".encode())

    def search(self, topic: str, tool_context: ToolContext) -> dict[str, str]:  # type: ignore[override]
        """Look something up."""
        self._do("search", tool_context)
        return super().search(topic)

    def book(self, what: str, tool_context: ToolContext) -> dict[str, str]:
        """Book something; twice is not the same as once."""
        self._do("book", tool_context)
        return super().book(what, tool_context)

    def good_enough(self, tool_context: ToolContext) -> dict[str, bool]:
        """End the rounds."""
        self._do("good_enough", tool_context)
        return super().good_enough(tool_context)

    def root(self) -> BaseAgent:
        counter = LlmAgent(
            name="counter",
            model=ByTurn(
                [call("book", what="table"), call("search", topic="opera"), call("book", what="box")],
                [call("book", what="taxi"), call("search", topic="rain")],
                "All booked.",
            ),
            tools=[FunctionTool(self.book, idempotent=False), self.search],
            output_key="counter",
        )
        return SequentialAgent(name="office", sub_agents=[counter, super().root()])


class Fused(Connection):
    """A connection that passes the fuse with each statement."""

    def __init__(self, connection: Connection, fuse: Fuse) -> None:
        self._connection = connection
        self._fuse = fuse

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        result = self._connection.execute(sql, parameters)
        self._fuse.passes("statement")
        return result

    def executemany(self, sql: str, rows: Any, /) -> object:
        result = self._connection.executemany(sql, rows)
        self._fuse.passes("statement")
        return result


def fused(database: Database, fuse: Fuse) -> None:
    """Have the writes of a database pass the fuse."""
    write, write_buffered = database.write, database.write_buffered

    def watched(work: Any) -> Any:
        def watched_work(connection: Connection) -> Any:
            result = work(Fused(connection, fuse))
            fuse.passes("commit")
            return result

        return watched_work

    async def fused_write(work: Any, **options: Any) -> Any:
        result = await write(watched(work), **options)
        fuse.passes("committed")
        return result

    def fused_write_buffered(work: Any, **options: Any) -> None:
        write_buffered(watched(work), **options)

    database.write, database.write_buffered = fused_write, fused_write_buffered  # type: ignore[method-assign]

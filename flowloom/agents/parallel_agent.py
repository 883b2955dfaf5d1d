"""`ParallelAgent`: agents side by side, each on its own branch (spec §17.7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from flowloom.agents.base_agent import BaseAgent
from flowloom.context import InvocationContext
from flowloom.context.ending import all_ended
from flowloom.events.event import Event


class ParallelAgent(BaseAgent):
    """Runs its sub-agents at the same time; they do not see each other's events.

    A member goes on only when its event has been taken in, so that it sees its own history. The first error
    cancels the others; it is raised when they have ended. A member that escalates ends its own branch only; the others
    finish, and a loop around them then ends (decision 33).
    """

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        members = self._members(ctx)
        if not members:
            return
        events: asyncio.Queue[tuple[Event, asyncio.Event] | asyncio.Task[None]] = asyncio.Queue()
        tasks = [asyncio.create_task(self._run_member(child, below, events)) for child, below in members]
        for task in tasks:
            task.add_done_callback(events.put_nowait)
        running = len(tasks)
        try:
            while running:
                item = await events.get()
                if isinstance(item, asyncio.Task):
                    running -= 1
                    item.result()
                    continue
                event, taken = item
                yield event
                taken.set()
        finally:
            for task in tasks:
                task.cancel()
            await all_ended(tasks)

    def _members(self, ctx: InvocationContext) -> list[tuple[BaseAgent, InvocationContext]]:
        """The members, each with its branch; one whose turn was over, or waits still, has nothing to do in it."""
        members: list[tuple[BaseAgent, InvocationContext]] = []
        path = ctx.workflow_path()
        for child in self.sub_agents:
            below = ctx.member(child, path)
            below.taken_up = ctx.taken_up
            leaf = f"{self.name}.{child.name}"
            below.branch = f"{ctx.branch}.{leaf}" if ctx.branch else leaf
            members.append((child, below))
        return members

    async def _run_member(
        self,
        child: BaseAgent,
        ctx: InvocationContext,
        events: asyncio.Queue[tuple[Event, asyncio.Event] | asyncio.Task[None]],
    ) -> None:
        stream = child.run_async(ctx)
        try:
            async for event in stream:
                taken = asyncio.Event()
                events.put_nowait((event, taken))
                await taken.wait()
        except Exception as error:
            error.add_note(f"in branch `{child.name}` of parallel agent `{self.name}`")
            raise
        finally:
            await stream.aclose()

"""Workers in processes of their own, for a suite: `main` is called in a process whose argument is `MODULE:CLASS`.

It imports everything once, and forks a worker for each line `{"store": ..., ...}` that it reads; it answers with the
process id. What the tools of a worker do is written to a diary, a line for each beginning and end.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from google.genai import types

from flowloom.agents import LlmAgent
from flowloom.context import Context
from flowloom.durable import ConcurrencyLimit, ModelLimit, Worker
from flowloom.durable.limits import Limit
from flowloom.events.parts import call_part, text_part
from flowloom.events.response import LlmResponse
from flowloom.models import BaseLlm, LlmRequest
from flowloom.runner import Runner
from flowloom.sessions import PostgresSessionService, SqliteSessionService
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.tools import FunctionTool

APP = "crew"


def opened(store: str) -> SqlSessionService:
    """The service of a store: a PostgreSQL URL, or the path of a SQLite file."""
    if store.startswith("postgres"):
        return PostgresSessionService(store, max_connections=4)
    return SqliteSessionService(store)


class CrewModel(BaseLlm):
    """Does what the latest message says, by what has results already: `steps 3` takes three steps, `pay 5` pays."""

    model: str = "crew"
    pause: float = 0.0
    """Seconds before each answer, and between the parts of one."""
    diary: Path | None = None
    """Where each call is written down, if it is."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """See `BaseLlm`."""
        self._note("asks")
        try:
            async for response in self._answers(llm_request, stream):
                yield response
        finally:
            self._note("told")

    def _note(self, what: str) -> None:
        if self.diary is not None:
            _write(self.diary, f"{what} - - {os.getpid()}")

    async def _answers(self, llm_request: LlmRequest, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        said, answers = "", list[types.FunctionResponse]()
        for content in llm_request.contents:
            for part in content.parts or ():
                if part.text and content.role == "user":
                    said, answers = part.text, []
                elif part.function_response is not None:
                    answers.append(part.function_response)
        await asyncio.sleep(self.pause)
        what, _, rest = said.partition(" ")
        count = int(rest.split()[0]) if rest[:1].isdigit() else 0
        if what == "steps" and len(answers) < count:
            yield _answer(call_part(None, "step", {"number": len(answers) + 1}))
            return
        if what == "pay" and not answers:
            yield _answer(call_part(None, "pay", {"amount": count}))
            return
        refused = any("error" in (answer.response or {}) for answer in answers)
        words = ["Refused" if refused else "Done", ": ", said]
        for word in words if stream else ():
            yield LlmResponse(content=_content(text_part(word)), partial=True)
            await asyncio.sleep(self.pause)
        yield _answer(text_part("".join(words)))


def _content(part: types.Part) -> types.Content:
    return types.Content(role="model", parts=[part])


def _answer(part: types.Part) -> LlmResponse:
    return LlmResponse(content=_content(part))


def _write(diary: Path, line: str) -> None:
    with diary.open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def crew_runner(service: SqlSessionService, diary: Path, pause: float, *, asked: bool = False) -> Runner[Any]:
    """The runner of a worker: its tools write to the `diary`, and take `pause` seconds; `asked`: its model, too."""

    def note(what: str, context: Context) -> None:
        _write(diary, f"{what} {context.idempotency_key} {context.invocation_id} {os.getpid()}")

    async def step(number: int, tool_context: Context) -> str:
        """Take a step."""
        note("begin", tool_context)
        await asyncio.sleep(pause)
        note("end", tool_context)
        return f"did {number}"

    async def pay(amount: int, tool_context: Context) -> str:
        """Pay."""
        note("begin", tool_context)
        note("end", tool_context)
        return f"paid {amount}"

    model = CrewModel(pause=pause, diary=diary if asked else None)
    agent = LlmAgent(name="crew", model=model, tools=[step, FunctionTool(pay, require_confirmation=True)])
    return Runner(app_name=APP, agent=agent, session_service=service)


async def work(suite: Any, options: dict[str, Any]) -> None:
    """Be a worker until the process is told to end."""
    service = opened(options["store"])
    limits: list[Limit] = [ConcurrencyLimit("user", options["most"])] if "most" in options else []
    at_once: int | None = options.get("model_calls")
    if at_once is not None:
        limits.append(ModelLimit("crew", concurrent=at_once))
    worker = Worker(
        crew_runner(service, Path(options["diary"]), options.get("pause", 0.01), asked=at_once is not None),
        courier=suite.make_courier(options["store"], service, APP),
        concurrency=options.get("concurrency", 4),
        heartbeat=options.get("heartbeat", 0.1),
        dead_after=options.get("dead_after", 0.5),
        drain=options.get("drain", 5.0),
        sweep=options.get("sweep", 0.5),
        max_takeovers=options.get("max_takeovers", 50),
        limits=limits,
    )
    try:
        await worker.run()
    finally:
        await service.close()


def main() -> None:
    """Fork workers until the input ends; then kill what is left."""
    module, _, name = sys.argv[1].partition(":")
    suite: Any = getattr(import_module(module), name)()
    gc.freeze()
    children: set[int] = set()

    def reap(number: int, frame: object) -> None:
        _reap(children)

    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        options: dict[str, Any] = json.loads(line)
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(0)
            code = 1
            try:
                asyncio.run(work(suite, options))
                code = 0
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                os._exit(code)
        children.add(pid)
        print(pid, flush=True)
    for child in list(children):
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def _reap(children: set[int]) -> None:
    for child in list(children):
        with suppress(ChildProcessError):
            if os.waitpid(child, os.WNOHANG)[0]:
                children.discard(child)

"""`to_ag_ui`: an agent for front ends that speak AG-UI, as an ASGI application (protocols spec §5)."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from copy import copy
from typing import Any, Literal

from pydantic import ValidationError

from flowloom.agents import BaseAgent, LlmAgent
from flowloom.asgi import PRINCIPAL, Auth, Guard, GuardRules, Principal
from flowloom.context import RunConfig, StreamingMode
from flowloom.errors import ConfigurationError, InputValidationError
from flowloom.events.event import Event
from flowloom.events.json_data import without_halves
from flowloom.plugins import PluginManager
from flowloom.protocols.ag_ui.data import as_mapping
from flowloom.protocols.ag_ui.legs import BUSY, whole_run
from flowloom.protocols.ag_ui.page import PagePlugin, page_tools, page_words
from flowloom.protocols.ag_ui.reading import MESSAGE_IDS, StaleAnswerError, read_request, system_words
from flowloom.protocols.ag_ui.sdk import (
    JSONResponse,
    Middleware,
    Request,
    Response,
    Route,
    Starlette,
    StreamingResponse,
    core,
)
from flowloom.protocols.ag_ui.telling import Emit, ag_ui_events
from flowloom.run_stream import RunFailed, RunStarted, RunStreamEvent
from flowloom.runner import InMemoryRunner, Runner
from flowloom.runner.routing import agents_of
from flowloom.sessions import Session

_log = logging.getLogger("flowloom.ag_ui")
User = str | Callable[[Any, Principal], str]
"""Whose the sessions are: a user id, or what gives one for a `RunAgentInput` and who asks."""
_SSE = "text/event-stream"


def to_ag_ui(
    agent_or_runner: BaseAgent[Any] | Runner[Any],
    *,
    path: str = "/",
    runner: Runner[Any] | None = None,
    user: User | None = None,
    state: Literal["session", "none"] = "session",
    client_tools: bool = True,
    emit: Emit = "1.0",
    system_messages: bool = False,
    auth: Auth | None = None,
    host: str = "localhost",
    allow_origins: Sequence[str] = (),
) -> Starlette:
    """An application that runs an agent for a front end: `POST path` with a `RunAgentInput`, answered by its events.

    `agent_or_runner` is the agent, run by `runner`, by default one in memory; or the runner itself. A thread is a
    session; `user` says whose, by default who `auth` says that asks, else one for each thread. `state="none"` neither
    tells nor takes the session's state. With `client_tools` the page's tools are declared to the model, and called by
    the page alone. `emit="legacy"` leaves out what came with version 1.0 of the protocol. With `system_messages` what
    a page says as system or developer are instructions of the run; else it is left out. `auth` says who asks; `host` is
    the address that it is served at, `allow_origins` are pages of other origins that may use it.

    Raises `ConfigurationError` for a runner that is given twice.
    """
    if isinstance(agent_or_runner, Runner):
        if runner is not None:
            raise ConfigurationError("Give the runner once: as the first argument, or as `runner`.")
        runner = agent_or_runner
    serving = _Serving(runner or _runner_of(agent_or_runner), user, state == "session", client_tools, emit)
    serving.system_messages = system_messages

    @asynccontextmanager
    async def living(_: Starlette) -> AsyncGenerator[None]:
        yield
        if runner is None:
            await serving.runner.close()

    rules = GuardRules(host, auth=auth, allow_unauthenticated=True, allow_origins=allow_origins)
    route = Route(path, serving.answer, methods=["POST"])
    return Starlette(routes=[route], middleware=[Middleware(Guard, rules)], lifespan=living)


def mount_ag_ui(app: Any, agent_or_runner: BaseAgent[Any] | Runner[Any], path: str, **options: Any) -> Starlette:
    """Serve an agent, or a runner, at `path` of `app`, an application of Starlette's or FastAPI's; returns what is
    mounted.

    `options` are those of `to_ag_ui`. What it opens is closed with `app`.
    """
    mounted = to_ag_ui(agent_or_runner, **options)
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def both(entered: Any) -> AsyncGenerator[Any]:
        async with mounted.router.lifespan_context(mounted), outer(entered) as held:
            yield held

    app.router.lifespan_context = both
    app.mount(f"/{path.strip('/')}", mounted)
    return mounted


class _Serving:
    """Answers the requests of one application."""

    def __init__(self, runner: Runner[Any], user: User | None, state: bool, client_tools: bool, emit: Emit) -> None:
        self.runner = runner
        self._user, self._state, self._client_tools = user, state, client_tools
        self._emit: Emit = emit
        self.system_messages = False
        agent = runner.agent
        tools = [tool for each in agents_of(agent) if isinstance(each, LlmAgent) for tool in each.own_tools]
        self._own = {getattr(tool, "name", None) for tool in tools}
        self._structured = isinstance(agent, LlmAgent) and agent.output_schema is not None

    async def answer(self, request: Request) -> Response:
        """The stream of a run, or why there is none."""
        if not _takes_sse(request.headers.get("accept")):
            return _problem(406, "not_acceptable", f"The answer is a stream of events: accept `{_SSE}`.")
        try:
            given = core.RunAgentInput.model_validate_json(await request.body())
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            return _problem(422, "invalid_input", f"This is no `RunAgentInput`: `{place}`: {first['msg']}")
        if not given.thread_id.strip():
            return _problem(422, "invalid_input", "This names no thread: its `threadId` is empty.")
        user_id = self._user_id(given, request.scope[PRINCIPAL])
        try:
            session = await self._session(user_id, given.thread_id)
            asked = read_request(given, session, takes_state=self._state)
            for content in asked.before:
                await self._remember(session, content)
        except StaleAnswerError as stale:
            return _problem(409, "stale_answer", str(stale))
        except InputValidationError as refused:
            return _problem(422, "invalid_input", str(refused))
        given.tools = self._page_tools(given.tools or ())
        runner, config = self._for_page(given, asked.message_ids)
        where: dict[str, Any] = {"user_id": user_id, "session_id": session.id}
        delta = asked.state_delta or None
        stream = runner.run_stream(**where, new_message=asked.message, state_delta=delta, run_config=config)
        first = [await anext(stream)]
        if isinstance(first[0], RunStarted) and not first[0].invocation_id:  # it has not begun: at once it says why
            first.append(await anext(stream))
        if isinstance(first[-1], RunFailed) and first[-1].error_code == BUSY:
            await stream.aclose()
            return _problem(409, "session_busy", first[-1].error_message)
        told = whole_run(runner, _behind(first, stream), config, **where)
        state = {**session.state, **asked.state_delta} if self._state else None
        return StreamingResponse(self._frames(stream, told, given, state), media_type=_SSE, headers=_HEADERS)

    async def _frames(self, stream: Any, events: Any, given: Any, state: Any) -> AsyncIterator[str]:
        """The `events` as they go out, of a run that gives them as a `stream`. A client that goes away closes both, and
        with them the run."""
        async with aclosing(stream), aclosing(events):
            told = ag_ui_events(events, given, state=state, structured=self._structured, emit=self._emit)
            async for event in told:
                yield f"data: {_written(event)}\n\n"

    def _page_tools(self, given: Sequence[Any]) -> list[Any]:
        """Those of a page's tools that the run takes: of a name that an agent's own has, ours is meant."""
        taken: dict[str, Any] = {}
        for tool in given if self._client_tools else ():
            if tool.name in self._own:
                _log.warning("The page has a tool `%s`, and so has an agent; the page's is left out.", tool.name)
            elif taken.setdefault(tool.name, tool) is not tool:
                _log.warning("The page has two tools `%s`; the second is left out.", tool.name)
        return [*taken.values()]

    def _for_page(self, given: Any, new_ids: list[str]) -> tuple[Runner[Any], RunConfig]:
        """The runner and the settings of one run: with the page's tools, and with what it tells."""
        tools = page_tools(given.tools)
        told = page_words(given.context or [])
        ordered = system_words(given.messages) if self.system_messages else []
        config = RunConfig(streaming_mode=StreamingMode.SSE)
        config.pause_on_tool_calls = paused = [tool.name or "" for tool in tools]
        config.forward_agent_tool_events = self._emit == "1.0"
        config.custom_metadata = {**(as_mapping(given.forwarded_props) or {}), MESSAGE_IDS: new_ids}
        if not tools and not told and not ordered:
            return self.runner, config
        page = PagePlugin(tools, told, ordered, given.tools, paused)
        runner = copy(self.runner)
        runner.plugin_manager = PluginManager([*self.runner.plugin_manager.plugins, page])
        return runner, config

    def _user_id(self, given: Any, principal: Principal) -> str:
        if callable(self._user):
            return self._user(given, principal)
        if self._user is not None:
            return self._user
        return principal.user_id or f"ag_ui_user_{given.thread_id}"

    async def _session(self, user_id: str, thread_id: str) -> Session:
        names: dict[str, Any] = {"app_name": self.runner.app_name, "user_id": user_id, "session_id": thread_id}
        return await self.runner.session_service.get_or_create_session(**names)

    async def _remember(self, session: Session, content: Any) -> None:
        """Keep what was said before in a thread that the session does not know."""
        author = "user" if content.role == "user" else self.runner.agent.name
        await self.runner.session_service.append_event(session, Event(author=author, content=content))


_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def _behind(first: Sequence[RunStreamEvent], stream: Any) -> AsyncIterator[RunStreamEvent]:
    """A stream of which the `first` events have been read."""
    for event in first:
        yield event
    async for event in stream:
        yield event


def _written(event: Any) -> str:
    """The JSON text of an event of the protocol; halves of surrogate pairs, which no encoding has, become U+FFFD."""
    try:
        return event.model_dump_json(by_alias=True)
    except ValueError:
        return without_halves(json.dumps(event.model_dump(by_alias=True), ensure_ascii=False, default=str))


def _takes_sse(accept: str | None) -> bool:
    kinds = [kind.partition(";")[0].strip().lower() for kind in (accept or "*/*").split(",")]
    return any(kind in (_SSE, "text/*", "*/*") for kind in kinds)


def _problem(status: int, code: str, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail, "code": code}, status_code=status)


def _runner_of(agent: Any) -> Runner[Any]:
    if not isinstance(agent, BaseAgent):
        raise ConfigurationError(f"`to_ag_ui` takes an agent or a runner, not a `{type(agent).__name__}`.")
    return InMemoryRunner(agent, app_name=agent.name)  # pyright: ignore[reportUnknownArgumentType]

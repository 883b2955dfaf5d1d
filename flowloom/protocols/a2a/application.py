"""`to_a2a`: an agent of ours for others, as an ASGI application (protocols spec §4, Server)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from flowloom.agents import BaseAgent
from flowloom.asgi import PRINCIPAL, Auth, Guard, GuardRules, Principal
from flowloom.errors import ConfigurationError
from flowloom.protocols.a2a.cards import given_card
from flowloom.protocols.a2a.executor import RunExecutor
from flowloom.protocols.a2a.links import WELL_KNOWN
from flowloom.protocols.a2a.own_card import ToolsetSkills, agent_card_of
from flowloom.protocols.a2a.push import StateNotifier
from flowloom.protocols.a2a.sdk import (
    AgentCard,
)
from flowloom.protocols.a2a.server_sdk import (
    DefaultRequestHandlerV2,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    Middleware,
    PushNotificationConfigStore,
    Request,
    ServerCallContext,
    ServerCallContextBuilder,
    Starlette,
    TaskStore,
    User,
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
    get_requested_extensions,
)
from flowloom.protocols.a2a.stores import TidyTaskStore
from flowloom.runner import App, InMemoryRunner, Runner

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
_PARKED_SECONDS = 600.0
"""How long what a waiting task holds in memory is kept; a reply after that finds it in the store."""
EXTENSIONS = ("calls",)
"""What `to_a2a` can tell beside answers."""


def to_a2a(
    agent: BaseAgent[Any] | App[Any],
    *,
    host: str = "localhost",
    port: int = 8000,
    protocol: str = "http",
    rpc_path: str = "",
    agent_card: AgentCard | str | Path | None = None,
    push_config_store: PushNotificationConfigStore | None = None,
    task_store: TaskStore | None = None,
    runner: Runner[Any] | None = None,
    lifespan: Lifespan | None = None,
    security_schemes: Mapping[str, Any] | None = None,
    default_skill_security: Sequence[Mapping[str, Sequence[str]]] | None = None,
    auth: Auth | None = None,
    allow_private_push: bool = False,
    extensions: Sequence[str] = (),
) -> Starlette:
    """An application that serves `agent`, or an `App`, over A2A: JSON-RPC and HTTP+JSON, of the versions 1.0 and 0.3.

    `protocol`, `host` and `port` say where others reach it, `rpc_path` below which path. Its card is made from the
    agent, its toolsets (listed when the card is first asked for) and the version of the app, or is `agent_card`, or
    in the file of that path. `runner` runs the agent, by default one in memory; sessions are contexts. `task_store`
    and `push_config_store` keep tasks, and where notifications of them go, by default in memory; a store in a
    database lets other processes tell of a task. `lifespan` is entered with the application. `security_schemes` and
    `default_skill_security` stand in the card. `auth` says who asks: the user of their sessions and tasks, and gets
    the extended card; without it each context is a user of its own. `allow_private_push` lets notifications go to
    addresses that are not of the open internet. With `extensions=["calls"]` thoughts, calls and results are told,
    too.

    Raises `ConfigurationError` for an extension that there is not, or a card that cannot be read.
    """
    unknown = [each for each in extensions if each not in EXTENSIONS]
    if unknown:
        raise ConfigurationError(f"`to_a2a` has no extension {', '.join(unknown)}; it has {', '.join(EXTENSIONS)}.")
    prefix = f"/{path}" if (path := rpc_path.strip("/")) else ""
    if isinstance(agent, App):
        own_runner, agent = runner or InMemoryRunner(agent), agent.root_agent
    else:
        own_runner = runner or InMemoryRunner(agent, app_name=agent.name)
    url = f"{protocol}://{host}:{port}{prefix}"
    options: dict[str, Any] = {
        "version": own_runner.app_version,
        "extensions": extensions,
        "extended": auth is not None,
        "security_schemes": security_schemes,
        "default_skill_security": default_skill_security,
    }
    card = _card(agent, agent_card, url, **options)
    listed, all_listed = (
        ToolsetSkills(agent, default_skill_security, whole_tree=whole_tree).added for whole_tree in (False, True)
    )
    configs: PushNotificationConfigStore = push_config_store or InMemoryPushNotificationConfigStore()
    notifier = StateNotifier(configs, allow_private=allow_private_push)
    handler = DefaultRequestHandlerV2(
        agent_executor=RunExecutor(own_runner, calls="calls" in extensions),
        task_store=TidyTaskStore(task_store or InMemoryTaskStore()),
        agent_card=card,
        extended_agent_card=agent_card_of(agent, url, whole_tree=True, **options) if auth is not None else None,
        extended_card_modifier=all_listed,
        interrupted_task_timeout=_PARKED_SECONDS,
        push_config_store=configs,
        push_sender=notifier,
        push_url_validator=notifier.is_allowed,
    )
    callers = _Callers()
    routes = [
        *create_agent_card_routes(
            card,
            card_modifier=listed if agent_card is None else None,
            card_url=f"{prefix}{WELL_KNOWN}",
            cache_control="no-cache",
        ),
        *create_jsonrpc_routes(handler, f"{prefix}/", callers, enable_v0_3_compat=True),
        *create_rest_routes(handler, callers, enable_v0_3_compat=True, path_prefix=prefix),
    ]

    @asynccontextmanager
    async def living(app: Starlette) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as stack:
            if lifespan is not None:
                await stack.enter_async_context(lifespan(app))
            if runner is None:
                stack.push_async_callback(own_runner.close)
            stack.push_async_callback(notifier.close)
            stack.push_async_callback(handler.aclose)
            yield

    rules = GuardRules(host, auth=auth, allow_unauthenticated=True, open_paths=[f"{prefix}{WELL_KNOWN}"])
    return Starlette(routes=routes, middleware=[Middleware(Guard, rules)], lifespan=living)


def mount_a2a(app: Any, agent: BaseAgent[Any] | App[Any], path: str, **options: Any) -> Starlette:
    """Serve `agent` below `path` of `app`, an application of Starlette's or FastAPI's; returns what is mounted.

    `options` are those of `to_a2a`, where `host`, `port` and `protocol` say where `app` is reached. The runs end with
    the lifespan of `app`.
    """
    prefix = f"/{path.strip('/')}"
    if "rpc_path" in options:
        raise ConfigurationError("`mount_a2a` takes the path as `path`, and no `rpc_path`.")
    mounted = to_a2a(agent, rpc_path=prefix, **options)
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def both(entered: Any) -> AsyncGenerator[Any, None]:
        async with mounted.router.lifespan_context(mounted), outer(entered) as state:
            yield state

    app.router.lifespan_context = both
    app.mount(prefix, _Unprefixed(mounted))
    return mounted


class _Unprefixed:
    """An application that knows its whole path, where it is mounted below a part of it."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        below = dict(scope)
        below["root_path"] = scope.get("app_root_path", "")
        await self._app(below, receive, send)


class _Caller(User):
    """Who asks, as the guard knows them."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    @property
    def is_authenticated(self) -> bool:
        return bool(self.user_name)

    @property
    def user_name(self) -> str:
        """The user whose tasks and sessions are meant; empty if it is not known."""
        return self._principal.user_id


class _Callers(ServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        """The context of a request."""
        return ServerCallContext(
            user=_Caller(request.scope[PRINCIPAL]),
            state={"headers": dict(request.headers)},
            requested_extensions=get_requested_extensions(request.headers.getlist("a2a-extensions")),
        )


def _card(agent: BaseAgent[Any], given: Any, url: str, **options: Any) -> AgentCard:
    if given is None:
        return agent_card_of(agent, url, **options)
    known = given_card(agent.name, str(given) if isinstance(given, Path) else given)
    if known is None:
        raise ConfigurationError("`agent_card` takes a card or the path of a file with one, not an address.")
    return known.card

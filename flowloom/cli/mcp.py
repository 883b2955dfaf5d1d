"""`flowloom mcp`: an agent, or its tools, for the clients of MCP (protocols spec §2)."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flowloom.asgi import token_auth
from flowloom.cli.display import Display
from flowloom.cli.loading import load_app
from flowloom.cli.model_choice import ModelChoice
from flowloom.cli.options import AgentPath, AllowImports, AllowStdio, ModelName
from flowloom.cli.usage_error import UsageError
from flowloom.errors import FlowloomError
from flowloom.extras import missing_extra
from flowloom.runner.app import App

if TYPE_CHECKING:
    from flowloom.protocols.mcp.serving import AgentServer


def mcp(
    path: AgentPath,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Serve HTTP at this port, 0 for any that is free; without it, stdin and stdout.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; 127.0.0.1 by default.", show_default=False)
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name that it may be asked by; may be repeated.", show_default=False),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="FLOWLOOM_TOKEN", help="A bearer token that all requests have to bring.", show_default=False
        ),
    ] = None,
    expose: Annotated[
        Literal["agent", "tools", "both"], typer.Option(help="What is served: the agent, its tools, or both.")
    ] = "agent",
    session: Annotated[
        Literal["connection", "context", "call"], typer.Option(help="Which calls are one conversation.")
    ] = "connection",
    instructions: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What clients are told of the server.", show_default=False)
    ] = None,
    prompts: Annotated[bool, typer.Option("--prompts", help="Serve the agent's instruction as a prompt.")] = False,
    model: ModelName = None,
    allow_imports: AllowImports = None,
    allow_stdio: AllowStdio = False,
    debug: Annotated[bool, typer.Option("--debug", help="Log each step on stderr.")] = False,
) -> None:
    """Serve an agent to MCP clients, over stdin and stdout or over HTTP.

    Whatever agents and tools print goes to stderr, as does the address over HTTP.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("flowloom").setLevel(logging.DEBUG if debug else logging.WARNING)
    display = Display(sys.stdout, sys.stderr)
    try:
        if port is None and (host or allowed_host):
            raise UsageError("`--host` and `--allowed-host` are for HTTP. Give its port, too: `--port N`.")
        with _on_stderr():
            loaded = load_app(path, allow_imports=allow_imports or (), allow_stdio=allow_stdio)
            choice = ModelChoice(loaded.agent, model, watched=False)
            for notice in (loaded.notice, choice.notice):
                display.notice(notice or "")
            plugins = [*choice.plugins, *loaded.plugins]
            app = loaded.app or App(name=loaded.name, root_agent=loaded.agent)
            server = _server(
                app.model_copy(update={"plugins": plugins}),
                expose=expose,
                session=session,
                instructions=instructions,
                prompts=prompts,
                allowed_hosts=allowed_host or (),
                auth=None if token is None else token_auth(token),
            )
            if port is not None:
                _serve_http(server, host or "127.0.0.1", port)
        if port is None:
            server.run()
    except UsageError as error:
        display.error(str(error))
        raise typer.Exit(2) from None
    except FlowloomError as error:
        display.error(str(error))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@contextmanager
def _on_stderr() -> Generator[None]:
    """What is printed meanwhile, by whomever, goes to stderr: stdout is the client's."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _server(app: App[Any], **options: Any) -> AgentServer:
    from flowloom.protocols.mcp import to_mcp_server

    return to_mcp_server(app, **options)


def _serve_http(server: AgentServer, host: str, port: int) -> None:
    try:
        from flowloom.server.serving import run_server
        from flowloom.server.settings import ServerSettings
    except ImportError as error:
        raise missing_extra("Serving over HTTP needs uvicorn", "server", error) from error

    app = server.streamable_http_app(host=host)
    run_server(app, ServerSettings(host=host, port=port, url_prefix="mcp"))

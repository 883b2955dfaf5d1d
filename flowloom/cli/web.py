"""`flowloom web` and `flowloom api_server`: a folder of agents over HTTP (server spec §1)."""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from typer.core import TyperCommand

from flowloom.asgi import token_auth
from flowloom.cli.display import Display
from flowloom.cli.options import AllowImports, AllowStdio, plain_flag
from flowloom.cli.usage_error import UsageError
from flowloom.errors import FlowloomError
from flowloom.server.later import LATER, refusal

AgentsDir = Annotated[
    Path, typer.Argument(metavar="AGENTS_DIR", help="The folder of your agents' folders.", show_default=False)
]
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def _text(name: str, help_text: str, metavar: str = "TEXT", **more: Any) -> Any:
    return typer.Option(f"--{name}", metavar=metavar, help=help_text, show_default=False, **more)


@dataclass(slots=True, kw_only=True)
class ServeOptions:
    """What both commands understand; `_` and `-` are the same in the names of flags."""

    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 for any that is free.")] = 8000
    session_service_uri: Annotated[
        str | None,
        _text("session_service_uri", "Sessions: memory://, sqlite:///FILE or postgresql://... Default: local.", "URI"),
    ] = None
    artifact_service_uri: Annotated[
        str | None, _text("artifact_service_uri", "Artifacts: memory:// or file://FOLDER. Default: local files.", "URI")
    ] = None
    memory_service_uri: Annotated[
        str | None,
        _text("memory_service_uri", "Memories: the same forms as sessions. Default: memory://.", "URI"),
    ] = None
    fleet: Annotated[
        bool,
        typer.Option(
            "--fleet", help="Workers (`flowloom worker`) that share the store of --session_service_uri run the agents."
        ),
    ] = False
    use_local_storage: Annotated[
        bool | None,
        typer.Option(
            "--use_local_storage/--no_use_local_storage",
            help="Keep sessions and artifacts in a hidden folder of each app. On by default; without it, in memory.",
            show_default=False,
        ),
    ] = None
    allow_origins: Annotated[
        list[str] | None,
        _text("allow_origins", "An origin that may use it, `regex:PATTERN`, or `*`; may be repeated.", "ORIGIN"),
    ] = None
    reload: Annotated[bool, typer.Option("--reload/--no-reload", help="Start anew when a source changes.")] = False
    reload_agents: Annotated[
        bool, typer.Option("--reload_agents", help="Load an app anew at its next use when its sources have changed.")
    ] = False
    max_llm_calls: Annotated[
        int | None, _text("max_llm_calls", "The most model calls of a run; 0 or less for any number.", "N")
    ] = None
    default_llm_model: Annotated[
        str | None, _text("default_llm_model", "The model of agents that have none.", "NAME")
    ] = None
    models: Annotated[
        str | None,
        _text("models", "The model of all agents: `human` asks a person, `offline` needs no key.", "NAME"),
    ] = None
    url_prefix: Annotated[str, _text("url_prefix", "The path below which a proxy serves it.", "PATH")] = ""
    extra_plugins: Annotated[
        list[str] | None,
        _text("extra_plugins", "Full names of plugins, with commas between.", "NAMES"),
    ] = None
    allow_imports: AllowImports = None
    allow_stdio: AllowStdio = False
    logo_text: Annotated[str | None, _text("logo-text", "What the web UI shows as its name.")] = None
    logo_image_url: Annotated[str | None, _text("logo-image-url", "The picture beside that text.", "URL")] = None
    max_body_bytes: Annotated[int, typer.Option("--max_body_bytes", min=1, help="The largest body of a request.")] = (
        32 * 1024 * 1024
    )
    keep_alive: Annotated[
        float, typer.Option("--keep_alive", min=0.1, help="Seconds of silence after which a stream sends a comment.")
    ] = 15.0
    on_busy: Annotated[
        Literal["reject", "queue"] | None,
        typer.Option(
            "--on_busy",
            help="What happens to a second run of a session. Default: `web` queues it, `api_server` rejects it.",
            show_default=False,
        ),
    ] = None
    dev_ui: Annotated[
        str | None, _text("dev_ui", "google-adk's web UI at /dev-ui/: its folder, or `auto`.", "DIR|auto")
    ] = None
    resume_grace: Annotated[
        float, typer.Option("--resume_grace", min=0.0, help="Seconds for which a run outlives its client.")
    ] = 0.0
    shutdown_grace: Annotated[
        float, typer.Option("--shutdown_grace", min=0.0, help="Seconds that open runs have when the server stops.")
    ] = 10.0
    token: Annotated[
        str | None, _text("token", "A bearer token that all requests have to bring.", envvar="FLOWLOOM_TOKEN")
    ] = None
    allow_unauthenticated: Annotated[
        bool, typer.Option("--allow_unauthenticated", help="Listen on a public address without a token.")
    ] = False
    log_level: Annotated[str, typer.Option("--log_level", metavar="LEVEL", help="What is logged on stderr.")] = "INFO"
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="The same as `--log_level DEBUG`.")] = False


class ServerCommand(TyperCommand):
    """A command that knows the flags of google-adk's which it does not have yet."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for arg in args[: args.index("--")] if "--" in args else args:
            flag = arg.partition("=")[0]
            name = plain_flag(flag.lstrip("-"))
            if flag.startswith("--") and name in LATER:
                raise typer.BadParameter(refusal(name, flag), ctx)
        return super().parse_args(ctx, args)


COMMAND = ServerCommand
"""What the commands of this module are made of."""


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the flags of `ServeOptions` in the place of its parameter `options`."""
    hints = get_type_hints(ServeOptions, include_extras=True)
    shared = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in fields(ServeOptions)
    ]
    own = get_type_hints(command, include_extras=True)
    kept = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=own[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "options"
    ]

    def run(**given: Any) -> None:
        options = ServeOptions(**{each.name: given.pop(each.name) for each in shared})
        command(**given, options=options)

    parameters = sorted([*kept, *shared], key=lambda each: each.default is not inspect.Parameter.empty)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__doc__ = command.__doc__
    return run


@_with_options
def web(*, agents_dir: AgentsDir = Path(), options: ServeOptions) -> None:
    """Serve agents with a page to talk to them and to look into them.

    The address is printed when it can be opened: `Listening on http://127.0.0.1:8000`.
    """
    _serve(agents_dir, options, web=True)


@_with_options
def api_server(
    *,
    agents_dir: AgentsDir = Path(),
    auto_create_session: Annotated[
        bool, typer.Option("--auto_create_session", help="Make the session that a run names.")
    ] = False,
    with_ui: Annotated[bool, typer.Option("--with_ui", help="Serve the page, too.")] = False,
    options: ServeOptions,
) -> None:
    """Serve agents to programs: no page, and nothing that shows how they are made."""
    options.on_busy = options.on_busy or "reject"
    _serve(agents_dir, options, web=with_ui, auto_create_session=auto_create_session)


def _serve(agents_dir: Path, options: ServeOptions, **more: Any) -> None:
    display = Display(sys.stdout, sys.stderr)
    _set_up_logging(options)
    try:
        port = _run(agents_dir, options, more)
    except FlowloomError as error:
        display.error(str(error))
        raise typer.Exit(2) from None
    if port is not None:  # a source has changed
        os.execv(sys.executable, [*sys.orig_argv, "--port", str(port)])


def _run(agents_dir: Path, options: ServeOptions, more: dict[str, Any]) -> int | None:
    from flowloom.server.application import get_fast_api_app
    from flowloom.server.serving import run_server

    if options.use_local_storage is not None and (options.session_service_uri or options.artifact_service_uri):
        raise UsageError(
            "`--use_local_storage` and `--no_use_local_storage` say where sessions and artifacts are kept, and so do "
            "`--session_service_uri` and `--artifact_service_uri`. Give one of them."
        )
    settings = asdict(options)
    for name in ("reload", "token", "log_level", "verbose"):
        del settings[name]
    settings["use_local_storage"] = options.use_local_storage is not False
    settings["allow_imports"] = options.allow_imports or ()
    settings["on_busy"] = options.on_busy or "queue"
    settings["auth"] = None if options.token is None else token_auth(options.token)
    app = get_fast_api_app(agents_dir=agents_dir, **settings, **more)
    return run_server(app, app.state.served.settings, watched=agents_dir.resolve() if options.reload else None)


def _set_up_logging(options: ServeOptions) -> None:
    level = "DEBUG" if options.verbose else options.log_level.upper()
    if level not in _LEVELS:
        raise typer.BadParameter(f"`{options.log_level}` is none of {', '.join(_LEVELS)}.", param_hint="--log_level")
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("flowloom").setLevel(level)
    logging.getLogger("uvicorn").setLevel(logging.INFO if level == "DEBUG" else logging.WARNING)

"""`flowloom worker` and `flowloom workers`: what runs the runs of the fleet (durable design, section 4)."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flowloom import __version__
from flowloom.cli.display import Display
from flowloom.cli.fleet import in_store, show_data, show_table
from flowloom.cli.loading import Loaded, load_app
from flowloom.cli.model_choice import ModelChoice
from flowloom.cli.options import AGENT_HELP, AllowImports, AllowStdio, AsJson, FleetStoreName, ModelName
from flowloom.cli.stores import Store, store_named
from flowloom.cli.tables import moment
from flowloom.errors import ConfigurationError, MissingExtraError
from flowloom.objects.notebook import count
from flowloom.runner import Runner

if TYPE_CHECKING:
    from flowloom.durable import Courier, WorkerInfo


def worker(
    agent: Annotated[Path, typer.Argument(metavar="AGENT", help=AGENT_HELP, show_default=False)],
    store: FleetStoreName = None,
    courier: Annotated[
        Literal["store", "dbos"] | None,
        typer.Option(
            help="What brings the runs: by default DBOS on PostgreSQL, if it is installed, and else the store itself.",
            show_default=False,
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="The most runs at a time.")] = 32,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL", help="What this worker can do; may be repeated.", show_default=False),
    ] = None,
    heartbeat: Annotated[float, typer.Option(metavar="SECONDS", help="How often it reports that it is alive.")] = 2.0,
    dead_after: Annotated[
        float, typer.Option(metavar="SECONDS", help="After this long without a report, other workers resume its runs.")
    ] = 10.0,
    drain: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long its runs may continue after SIGTERM.")
    ] = 30.0,
    pin_version: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="Only workers of this version resume the runs that it begins.", show_default=False
        ),
    ] = None,
    deltas_host: Annotated[
        str | None,
        typer.Option(
            "--deltas_host",
            metavar="HOST",
            help="Name or address of this machine, at which clients on others get deltas.",
            show_default=False,
        ),
    ] = None,
    deltas_port: Annotated[
        int, typer.Option("--deltas_port", min=0, max=65535, help="The port for deltas; 0 takes one that is free.")
    ] = 0,
    deltas_cert: Annotated[
        Path | None,
        typer.Option(
            "--deltas_cert",
            metavar="FILE",
            help="The certificate (PEM) for deltas; may be self-signed.",
            show_default=False,
        ),
    ] = None,
    deltas_key: Annotated[
        Path | None,
        typer.Option("--deltas_key", metavar="FILE", help="The certificate's private key (PEM).", show_default=False),
    ] = None,
    insecure_deltas: Annotated[
        bool, typer.Option("--insecure_deltas", help="Deltas go to other machines as plain text, without TLS.")
    ] = False,
    model: ModelName = None,
    allow_imports: AllowImports = None,
    allow_stdio: AllowStdio = False,
    json: AsJson = False,
) -> None:
    """Execute the runs that are submitted to a store, with other workers of the same app.

    Prints `up` when it is ready. SIGTERM or Ctrl-C ends it: it takes no more runs, waits for those that it has, and
    leaves those that last longer than `--drain` to other workers.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)

    async def work(opened_store: Store) -> None:
        from flowloom.durable import Deltas, Worker

        if deltas_host is None and (deltas_port or deltas_cert or deltas_key or insecure_deltas):
            raise ConfigurationError("Deltas for other machines need `--deltas_host`, where clients reach this one.")
        deltas = deltas_host and Deltas(deltas_host, deltas_port, deltas_cert, deltas_key, insecure_deltas)
        display = Display(sys.stdout, sys.stderr)
        loaded = load_app(agent, allow_imports=allow_imports or (), allow_stdio=allow_stdio)
        choice = ModelChoice(loaded.agent, model, watched=False)
        for notice in (loaded.notice, choice.notice):
            display.notice(notice or "")
        runner = _runner(loaded, choice, opened_store)
        try:
            made = Worker(
                runner,
                courier=await _courier(courier, store, runner, display),
                concurrency=concurrency,
                labels=label or (),
                heartbeat=heartbeat,
                dead_after=dead_after,
                drain=drain,
                version=pin_version or __version__,
                pin_version=pin_version is not None,
                deltas=deltas or None,
            )
            await made.run(
                lambda: show_data({"status": "up", "worker": made.name}) if json else _say("up"),
                lambda: display.notice(_draining(made.running, drain)) if made.running else None,
            )
        finally:
            await runner.close()

    in_store(work, store, make=True)


def workers(
    app: Annotated[str | None, typer.Option(metavar="NAME", help="Only those of this app.", show_default=False)] = None,
    store: FleetStoreName = None,
    json: AsJson = False,
) -> None:
    """List the workers of a store."""

    async def work(opened_store: Store) -> list[WorkerInfo]:
        from flowloom.durable import WorkerInfo
        from flowloom.durable.registry import Registry

        rows, now = await Registry(opened_store.sessions).workers(app)
        return [WorkerInfo.of(row, now) for row in rows]

    found = in_store(work, store)
    if json:
        show_data([info.to_dict() for info in found])
        return
    rows = [
        (w.worker, w.app_name, _health(w), f"{w.running}/{w.capacity}", ",".join(w.labels), moment(w.started))
        for w in found
    ]
    show_table(("WORKER", "APP", "STATE", "RUNS", "LABELS", "STARTED"), rows, "There are no workers.")


def _health(info: WorkerInfo) -> str:
    if info.silent > info.dead_after:
        return f"silent for {info.silent:.0f} s"
    return "draining" if info.draining else "up"


def _draining(runs: int, seconds: float) -> str:
    return (
        f"No more runs are taken. {count(runs, 'run')} under way: what lasts longer than {seconds:g} s is handed over."
    )


def _say(text: str) -> None:
    typer.echo(text)
    sys.stdout.flush()


def _runner(loaded: Loaded, choice: ModelChoice, store: Store) -> Runner[Any]:
    runner: Runner[Any] = Runner(
        app_name=loaded.name,
        agent=loaded.agent,
        plugins=[*choice.plugins, *loaded.plugins],
        session_service=store.sessions,
        artifact_service=store.artifacts,
        memory_service=store.memory,
    )
    if loaded.app is not None:
        runner.take_settings(loaded.app)
    return runner


async def _courier(kind: str | None, store: str | None, runner: Runner[Any], display: Display) -> Courier | None:
    """The courier of that kind, with a queue for each app; None for the store's own, which also stands in for a DBOS
    that was not asked for: a second worker then says how to install it. Raises `ConfigurationError`, and
    `MissingExtraError` for a DBOS that was asked for."""
    name = store_named(store)
    if kind == "store" or (kind is None and not name.startswith(("postgresql://", "postgres://"))):
        return None
    from flowloom.durable import DbosCourier

    try:
        return DbosCourier(name, queue=f"flowloom.{runner.app_name}")
    except MissingExtraError as error:
        if kind == "dbos":
            raise
        if await _has_workers(runner):
            display.notice(f"The store itself brings the runs, which does for a worker or two. For more: {error}")
        return None


async def _has_workers(runner: Runner[Any]) -> bool:
    from flowloom.durable.registry import Registry

    rows, now = await Registry(runner.session_service).workers(runner.app_name)
    return any(now - row.beat <= row.patience for row in rows)

"""`flowloom schedules`: runs that are due at certain times (durable design, section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from flowloom.cli.fleet import AppName, Labels, client_of, in_store, show_data, show_table
from flowloom.cli.options import USER_ID, AsJson, FleetStoreName, User
from flowloom.cli.stores import Store
from flowloom.cli.tables import moment
from flowloom.cli.usage_error import UsageError
from flowloom.errors import quoted_list

if TYPE_CHECKING:
    from flowloom.durable import ScheduleInfo

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule.", show_default=False)]

schedules = typer.Typer(no_args_is_help=True, help="List, put and delete the schedules of runs.")


@schedules.command("list")
def list_schedules(app: AppName = None, store: FleetStoreName = None, json: AsJson = False) -> None:
    """List the schedules of an app: when each is due next, and what became of its latest run."""

    async def work(opened_store: Store) -> list[ScheduleInfo]:
        async with client_of(opened_store, app) as client:
            return list(await client.schedules.list())

    found = in_store(work, store)
    if json:
        show_data([info.to_dict() for info in found])
        return
    rows = [
        (
            info.schedule.name,
            info.schedule.cron,
            info.schedule.timezone,
            moment(info.next_due),
            "" if info.last_run is None else f"{info.last_run.run_id} {info.last_run.status}",
        )
        for info in found
    ]
    show_table(("NAME", "CRON", "TIMEZONE", "NEXT", "LATEST RUN"), rows, "There are no schedules.")


@schedules.command()
def put(
    name: Name,
    cron: Annotated[str, typer.Argument(metavar="CRON", help="When: `0 7 * * mon-fri`.", show_default=False)],
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="The message to answer.", show_default=False)],
    timezone: Annotated[str, typer.Option(metavar="ZONE", help="By whose clock: `Europe/Berlin`.")] = "UTC",
    app: AppName = None,
    user: User = USER_ID,
    session: Annotated[
        str, typer.Option(metavar="NAME", help="The session; by default each run has its own.", show_default=False)
    ] = "",
    overlap: Annotated[
        Literal["skip", "queue"], typer.Option(help="What happens to a run while the one before is not over.")
    ] = "skip",
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="Run all times that passed without a worker, not the latest only.")
    ] = False,
    priority: Annotated[int, typer.Option(help="Runs of a higher one come first.")] = 0,
    label: Labels = None,
    store: FleetStoreName = None,
    json: AsJson = False,
) -> None:
    """Keep a schedule, in the place of one of its name; prints when it is due first."""

    async def work(opened_store: Store) -> float:
        from flowloom.durable import Schedule

        given = Schedule(
            name,
            cron,
            timezone,
            message,
            user_id=user,
            session_id=session,
            overlap=overlap,
            catch_up=catch_up,
            priority=priority,
            labels=tuple(label or ()),
        )
        async with client_of(opened_store, app) as client:
            return await client.schedules.put(given)

    due = in_store(work, store, make=True)
    if json:
        show_data({"name": name, "next_due": due})
    else:
        typer.echo(moment(due))


@schedules.command()
def delete(name: Name, app: AppName = None, store: FleetStoreName = None, json: AsJson = False) -> None:
    """Forget a schedule. Runs that it has submitted stay."""

    async def work(opened_store: Store) -> None:
        async with client_of(opened_store, app) as client:
            if not await client.schedules.delete(name):
                names = [info.schedule.name for info in await client.schedules.list()]
                hint = f"There are: {quoted_list(names)}." if names else "There are none."
                raise UsageError(f"App `{client.app_name}` has no schedule `{name}`. {hint}")

    in_store(work, store)
    if json:
        show_data({"name": name, "deleted": True})

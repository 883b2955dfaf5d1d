"""`flowloom runs`: runs of the fleet, submitted, followed and answered from any process (durable design, section 4)."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer

from flowloom.cli.display import Display, call_text
from flowloom.cli.durations import seconds
from flowloom.cli.fleet import AppName, Labels, apps_of, client_of, client_of_run, in_store, show_data, show_table
from flowloom.cli.options import USER_ID, AsJson, FleetStoreName, User
from flowloom.cli.stores import Store, session_name
from flowloom.cli.tables import moment
from flowloom.cli.usage_error import UsageError
from flowloom.errors import quoted_list
from flowloom.events import new_id

if TYPE_CHECKING:
    from google.genai import types

    from flowloom.durable import RunInfo, SubmittedRun
    from flowloom.runner.pending import PendingCall

_T = TypeVar("_T")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)]

runs = typer.Typer(no_args_is_help=True, help="Submit runs to the workers; list, follow, stop and answer them.")


def _seconds(flag: str, help_text: str) -> Any:
    return typer.Option(flag, metavar="DURATION", parser=seconds, help=help_text, show_default=False)


@runs.command()
def submit(
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="The message to answer.", show_default=False)],
    app: AppName = None,
    user: User = USER_ID,
    session: Annotated[
        str | None, typer.Option(metavar="NAME", help="The session; by default a new one.", show_default=False)
    ] = None,
    run_id: Annotated[
        str | None,
        typer.Option("--id", metavar="RUN", help="The run's id; with one that exists, nothing new begins."),
    ] = None,
    priority: Annotated[int, typer.Option(help="Runs of a higher one come first.")] = 0,
    delay: Annotated[float | None, _seconds("--delay", "It begins no earlier than this from now: `45`, `90m`.")] = None,
    expires: Annotated[
        float | None, _seconds("--expires", "It fails if it has not begun by then: `45`, `90m`.")
    ] = None,
    attempts: Annotated[
        int, typer.Option(min=1, help="How often it is tried in all, if what failed may pass.", show_default=True)
    ] = 1,
    label: Labels = None,
    store: FleetStoreName = None,
    json: AsJson = False,
) -> None:
    """Have the workers answer a message; prints the run's id when it is on the disk."""
    from flowloom.durable import RetryPolicy

    async def work(opened_store: Store) -> RunInfo:
        if run_id is not None and not run_id.strip():
            raise UsageError(
                "The `--id` is empty, so that nothing tells the run from others. Give an id, or no `--id`."
            )
        async with client_of(opened_store, app) as client:
            run = await client.submit(
                message,
                user_id=user,
                session_id=new_id()[:8] if session is None else session_name(session),
                run_id=run_id,
                priority=priority,
                delay=delay,
                expires=expires,
                retry=RetryPolicy(attempts=attempts) if attempts > 1 else None,
                labels=label or (),
            )
            return await run.info()

    info = in_store(work, store, make=True)
    if json:
        show_data(info.to_dict())
    else:
        typer.echo(info.run_id)


@runs.command("list")
def list_runs(
    app: AppName = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Only this user's.", show_default=False)] = None,
    session: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those of this session.", show_default=False)
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(metavar="STATUS", help="Only those in this state; may be repeated.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The most that are listed of an app.")] = 100,
    store: FleetStoreName = None,
    json: AsJson = False,
) -> None:
    """List runs, the latest first."""
    from flowloom.durable import RunClient
    from flowloom.durable.records import Status

    known = get_args(Status)

    async def work(opened_store: Store) -> list[RunInfo]:
        for each in status or ():
            if each not in known:
                raise UsageError(f"`{each}` is no state of a run. The states are {quoted_list(known)}.")
        found: list[RunInfo] = []
        for name in [app] if app else await apps_of(opened_store):
            async with RunClient(name, opened_store.sessions) as client:
                found += await client.list(status or (), user, session, limit=limit)  # pyright: ignore[reportArgumentType]
        return sorted(found, key=lambda info: info.created, reverse=True)

    found = in_store(work, store)
    if json:
        show_data([info.to_dict() for info in found])
        return
    rows = [(i.run_id, _state(i), i.app_name, i.user_id, i.session_id, moment(i.created)) for i in found]
    show_table(("RUN", "STATUS", "APP", "USER", "SESSION", "SUBMITTED"), rows, "There are no such runs.")


@runs.command()
def show(run_id: RunId, store: FleetStoreName = None, json: AsJson = False) -> None:
    """Show in what state a run is, which worker has it, and what it waits for."""

    async def work(run: SubmittedRun) -> tuple[RunInfo, list[PendingCall]]:
        return await run.info(), await run.pending()

    info, pending = _with_run(work, run_id, store)
    said = info.to_dict()
    if json:
        show_data({**said, "pending": [_call(each) for each in pending]})
        return
    display = Display(sys.stdout, sys.stderr)
    for name, value in said.items():
        if name in ("due", "created", "started", "ended"):
            value = moment(value)
        if value not in ([], {}):
            display.page(f"{name}: {value if isinstance(value, str) else json_module.dumps(value, ensure_ascii=False)}")
    for each in pending:
        display.page(f"waits: {_told(each)}")


@runs.command()
def attach(
    run_id: RunId,
    after: Annotated[int, typer.Option(min=0, help="How many of its events to leave out.")] = 0,
    store: FleetStoreName = None,
    json: AsJson = False,
) -> None:
    """Show what a run says and does, from its beginning, as it happens; ends when it is over, or waits for a person.

    Ctrl-C leaves; the run goes on. Exits with 1 if the run failed. `--json` prints each event on a line.
    """

    async def work(run: SubmittedRun) -> tuple[RunInfo, list[PendingCall]]:
        display = Display(sys.stdout, sys.stderr)
        if not await run.has_log():
            raise UsageError(
                f"Session `{run.session_id}` of run `{run_id}` was deleted, and what the run has said with it."
            )
        if json:
            async for event in run.events(after):
                show_data(event.model_dump(mode="json", by_alias=True, exclude_none=True))
        else:
            info = await run.info()
            if info.status in ("waiting", "ready"):
                display.notice(f"Run {run_id} is {_state(info)}.")
            display.begin_turn()
            async for event in run.follow(after):
                if event.author == "user":
                    if event.text:
                        display.user(event.text)
                else:
                    display.show(event)
            display.end_turn()
        return await run.info(), await run.pending()

    info, pending = _with_run(work, run_id, store)
    display = Display(sys.stdout, sys.stderr)
    if not info.over:
        for each in pending:
            display.notice(f"It waits: {_told(each)}")
        display.notice(f"Run {run_id} is {info.status}.")
    elif info.status != "final":
        reason = info.outcome.error_message if info.outcome is not None else None
        display.error(f"Run {run_id} is {info.status}{f': {reason}' if reason else '.'}")
        raise typer.Exit(1)


@runs.command()
def cancel(
    run_id: RunId,
    after_step: Annotated[
        bool, typer.Option("--after-step", help="Only when the model's answer and its tool calls are complete.")
    ] = False,
    store: FleetStoreName = None,
    json: AsJson = False,
) -> None:
    """Stop a run; prints its state. One that is over stays as it is."""
    _asked(lambda run: run.cancel("after_step" if after_step else "now"), run_id, store, json)


@runs.command()
def pause(run_id: RunId, store: FleetStoreName = None, json: AsJson = False) -> None:
    """Let a run go no further than to its next model call, until `resume`; prints its state."""
    _asked(lambda run: run.pause(), run_id, store, json)


@runs.command()
def resume(run_id: RunId, store: FleetStoreName = None, json: AsJson = False) -> None:
    """Resume a run that was paused; prints its state."""
    _asked(lambda run: run.resume(), run_id, store, json)


@runs.command()
def retry(run_id: RunId, store: FleetStoreName = None, json: AsJson = False) -> None:
    """Resume a run that failed, or reached a limit, from its log; prints its state."""
    _asked(lambda run: run.retry(), run_id, store, json)


@runs.command()
def answer(
    run_id: RunId,
    approve: Annotated[bool, typer.Option("--approve", help="Let the call run.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="Do not let it run.")] = False,
    reason: Annotated[
        str | None, typer.Option(help="Why not; the model is told. With `--reject`.", show_default=False)
    ] = None,
    reply: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="The input, or the result of the call; JSON or text.", show_default=False),
    ] = None,
    call: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Which request; needed if the run waits for several.", show_default=False),
    ] = None,
    store: FleetStoreName = None,
    json: AsJson = False,
) -> None:
    """Give a run what it waits for; prints its state. The worker that asked need not live."""

    async def work(run: SubmittedRun) -> None:
        if approve + reject + (reply is not None) != 1 or (reason is not None and not reject):
            raise UsageError("Answer with one of `--approve`, `--reject` (with a `--reason`) and `--reply JSON`.")
        asked = _asked_for(await run.pending(), run_id, call, reply is None)
        await run.answer(_part(asked, approve, reason, reply))

    _asked(work, run_id, store, json)


def _part(asked: PendingCall, approve: bool, reason: str | None, reply: str | None) -> types.Part:
    if reply is None:
        return asked.approve() if approve else asked.reject(reason)
    try:
        return asked.reply(json_module.loads(reply))
    except ValueError as error:
        if not isinstance(error, json_module.JSONDecodeError):
            raise
        return asked.reply(reply)


def _asked_for(pending: list[PendingCall], run_id: str, call: str | None, decided: bool) -> PendingCall:
    """The request that is meant. Raises `UsageError`."""
    from flowloom.runner.pending import PendingCall

    found = [each for each in pending if call in (None, each.id)]
    if len(found) == 1:
        return found[0]
    if call is not None and decided:  # one that was decided about already: the same again is no mistake, the run tells
        return PendingCall(call, "confirmation", "", {}, "")
    if not pending:
        raise UsageError(f"Run `{run_id}` waits for no answer: `flowloom runs show {run_id}` says in what state it is.")
    ids = quoted_list(each.id for each in pending)
    raise UsageError(
        f"Run `{run_id}` waits for several answers: {ids}. Give `--call ID`."
        if call is None
        else f"Run `{run_id}` has no open request `{call}`. It waits for {ids}."
    )


def _asked(work: Callable[[SubmittedRun], Awaitable[object]], run_id: str, store: str | None, json: bool) -> None:
    """Ask something of a run, and print in what state it is then."""

    async def asked(run: SubmittedRun) -> RunInfo:
        await work(run)
        return await run.info()

    info = _with_run(asked, run_id, store)
    if json:
        show_data(info.to_dict())
    else:
        typer.echo(_state(info))


def _with_run(work: Callable[[SubmittedRun], Awaitable[_T]], run_id: str, store: str | None) -> _T:
    async def found(opened_store: Store) -> _T:
        async with client_of_run(opened_store, run_id) as client:
            return await work(await client.attach(run_id))

    return in_store(found, store)


def _state(info: RunInfo) -> str:
    """The status, with what is waited for or asked."""
    about = info.awaits or info.wish
    return f"{info.status} ({about})" if about else info.status


def _call(each: PendingCall) -> dict[str, Any]:
    names = ("id", "kind", "name", "args", "agent", "message")
    return {name: getattr(each, name) for name in names}


def _told(each: PendingCall) -> str:
    return f"{each.agent} asks for {each.kind} of {call_text(each.name, each.args)} [{each.id}]"

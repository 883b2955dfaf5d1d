"""The expense desk: what waits survives the process that asked, whoever is killed, and money is paid once."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flowloom import Event
from flowloom.cli.loading import load_app
from flowloom.testing import ScriptedModel, call

ROOT = Path(__file__).resolve().parents[2]
KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
TRAIN = "Train to Lyon, 180 euros"

load_app(ROOT / "examples" / "expense_approval")
desk: Any = importlib.import_module("expense_approval.desk")
ledger: Any = importlib.import_module("expense_approval.ledger")

Process = subprocess.Popen[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the desk keeps everything in this test, in all of its processes; the offline model answers."""
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EXPENSES_FOLDER", str(tmp_path / "expenses"))
    return tmp_path / "expenses"


def start(*arguments: str, code: str | None = None) -> Process:
    """A process of the desk, or of code that uses it."""
    what = ("-m", "examples.expense_approval") if code is None else ("-c", code)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, *what, *arguments], cwd=ROOT, env=os.environ, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def run(*arguments: str, code: str | None = None, ends: int = 0) -> str:
    """What a process of the desk prints until it ends."""
    process = start(*arguments, code=code)
    printed, complaints = process.communicate(timeout=120)
    assert process.returncode == ends, complaints
    return printed + complaints


async def submit(text: str = TRAIN, employee: str = "ann") -> str:
    """Hand in an expense; the id of the claim."""
    async with desk.opened() as runner:
        claim, _ = await desk.submit(runner, employee, text)
        return claim.id


async def approve(claim: str, *arguments: Any) -> str:
    """Approve a claim at a desk of its own; what the agent says then."""
    async with desk.opened() as runner:
        return (await desk.approve(runner, claim, *arguments)).text


async def waiting() -> list[str]:
    """The claims that wait."""
    async with desk.opened() as runner:
        return [claim.id for claim in await desk.waiting(runner)]


def paid() -> list[tuple[str, float]]:
    return [(payment["employee"], payment["amount"]) for payment in ledger.payments()]


async def test_a_small_expense_is_paid_at_once() -> None:
    await submit("Taxi to the airport, 38 euros")
    assert paid() == [("ann", 38)]
    assert await waiting() == []


async def test_a_manager_may_change_the_amount() -> None:
    """It is paid so, and nobody is asked again."""
    claim = await submit()
    assert paid() == []
    assert "Paid 150 euros to ann" in await approve(claim, "maria", 150.0)
    assert await waiting() == []
    assert paid() == [("ann", 150)]


async def test_an_amount_that_is_none_is_not_paid() -> None:
    claim = await submit()
    await approve(claim, "maria", -150.0)
    assert paid() == []


async def test_a_rejection_pays_nothing_and_says_why() -> None:
    claim = await submit()
    async with desk.opened() as runner:
        assert "no receipt" in (await desk.reject(runner, claim, "maria", "no receipt")).text
    assert await waiting() == paid() == []


async def test_nobody_decides_about_their_own_expenses() -> None:
    claim = await submit()
    with pytest.raises(PermissionError):
        await approve(claim, "ann")
    assert paid() == []
    assert await waiting() == [claim]


async def test_who_decided_is_in_the_log() -> None:
    """With every event of that run, so that it can be looked up years later."""
    claim = await submit()
    async with desk.opened() as runner:
        await desk.approve(runner, claim, "maria")
        session = await runner.session_service.get_session(app_name=runner.app_name, user_id="ann", session_id=claim)
    events: list[Event] = session.events
    marked = [event for event in events if event.custom_metadata == {"decided_by": "maria"}]
    assert "pay_expense" in [response.name for event in marked for response in event.get_function_responses()]


async def test_one_amount_does_not_stand_for_several_payments(monkeypatch: pytest.MonkeyPatch) -> None:
    trips = [call("pay_expense", amount=amount, description="Train") for amount in (180, 240)]
    monkeypatch.setattr(desk, "OfflineModel", lambda: ScriptedModel([trips, "Done."]))
    claim = await submit("There and back.")
    with pytest.raises(ValueError, match="2 payments"):
        await approve(claim, "maria", 150.0)
    assert paid() == []


# -- processes -----------------------------------------------------------------------------------------

SUBMIT = f"""
import asyncio, sys
from examples.expense_approval import desk

desk.LEASE_SECONDS = 0.2

async def main():
    async with desk.opened() as runner:
        claim, result = await desk.submit(runner, "ann", "{TRAIN}")
        print(claim.id, result.status, flush=True)
        sys.stdin.read()

asyncio.run(main())
"""

KILLED = """
import os, signal
from examples.expense_approval import __main__, desk, ledger

def pay_and_die(*arguments, pay=ledger.pay):
    {pay}
    os.kill(os.getpid(), signal.SIGKILL)

ledger.pay = pay_and_die
desk.LEASE_SECONDS = 0.2
__main__.asyncio.run(__main__.main(__main__.parsed()))
"""


@pytest.mark.soak
def test_a_claim_waits_though_its_process_is_killed_and_is_paid_once_by_another() -> None:
    """The second approval finds nothing that waits."""
    process = start(code=SUBMIT)
    assert process.stdout is not None
    claim, status = process.stdout.readline().split()
    process.kill()
    process.communicate()
    assert status == "paused"
    assert paid() == []
    assert run("waiting") == f"{claim}  ann: 180 euros, {TRAIN}\n"
    assert "Paid 180 euros to ann" in run("approve", claim)
    assert "waits" in run("approve", claim, ends=1)
    assert run("payments") == f"ann: 180 euros, {TRAIN}\n"


@pytest.mark.parametrize(
    "pay", [pytest.param("pass", id="before", marks=pytest.mark.soak), pytest.param("pay(*arguments)", id="after")]
)
async def test_an_approval_whose_process_is_killed_around_the_payment_is_gone_on_with(pay: str) -> None:
    """The payment is made again with the same key; going on once more does nothing."""
    claim = await submit()
    run("approve", claim, code=KILLED.format(pay=pay), ends=-9)
    assert "Paid 180 euros to ann" in run("resume")
    async with desk.opened() as runner:
        assert await desk.resume(runner) == []
    assert await waiting() == []
    assert paid() == [("ann", 180)]


@pytest.mark.soak
async def test_two_managers_at_the_same_time_pay_once() -> None:
    claim = await submit()
    both = [start("approve", claim, "--manager", name) for name in ("maria", "max")]
    for process in both:
        process.communicate(timeout=120)
    assert paid() == [("ann", 180)]
    assert await waiting() == []

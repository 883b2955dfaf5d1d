"""Handing in, looking through and deciding: each may be done by a process of its own, days apart."""

import os
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from google.genai import types

from flowloom import (
    App,
    BasePlugin,
    OfflineModel,
    PendingCall,
    RunConfig,
    Runner,
    RunResult,
    Session,
    SqliteSessionService,
    answers,
    pending_calls,
)
from flowloom.plugins import ModelOverride

from . import ledger
from .agent import root_agent

LEASE_SECONDS = 5.0
"""How long a claim stays locked after a process that worked on it died."""


@dataclass
class Claim:
    """What an employee has handed in, and the payments that wait for a manager."""

    id: str
    employee: str
    waiting: list[PendingCall]


class UnknownClaimError(LookupError):
    """There is no such claim, or nothing of it waits."""


@asynccontextmanager
async def opened() -> AsyncGenerator[Runner]:
    """A runner on the store that all processes share. Without a key for Gemini the offline stand-in answers."""
    has_key = os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY")
    plugins: list[BasePlugin] = [] if has_key else [ModelOverride(OfflineModel())]
    service = SqliteSessionService(ledger.folder() / "expenses.db")
    try:
        app = App(name="expense_approval", root_agent=root_agent, plugins=plugins)
        async with Runner(app=app, session_service=service, lease_seconds=LEASE_SECONDS) as runner:
            yield runner
    finally:
        await service.close()


async def submit(runner: Runner, employee: str, text: str) -> tuple[Claim, RunResult]:
    """Hand in an expense; it is paid, or waits, or the agent asks back."""
    claim_id = uuid.uuid4().hex[:6]
    await runner.session_service.create_session(app_name=runner.app_name, user_id=employee, session_id=claim_id)
    result = await runner.run_to_result(user_id=employee, session_id=claim_id, new_message=text)
    return Claim(claim_id, employee, result.pending), result


async def waiting(runner: Runner) -> list[Claim]:
    """The claims that wait for a manager, oldest first."""
    claims = [Claim(session.id, session.user_id, pending_calls(session.events)) for session in await _sessions(runner)]
    return [claim for claim in claims if claim.waiting]


async def approve(runner: Runner, claim_id: str, manager: str, amount: float | None = None) -> RunResult:
    """Let a claim be paid, with another amount if one is given.

    Raises `UnknownClaimError`, `PermissionError`, and `ValueError` for one amount where several payments wait.
    """
    claim = await _claim(runner, claim_id, manager)
    if amount is None:
        return await _answer(runner, claim, manager, [call.approve() for call in claim.waiting])
    if len(claim.waiting) > 1:
        raise ValueError(
            f"{len(claim.waiting)} payments of claim `{claim_id}` wait: approve them as they are, or reject."
        )
    (call,) = claim.waiting
    return await _answer(runner, claim, manager, [call.approve(edited_args={**call.args, "amount": amount})])


async def reject(runner: Runner, claim_id: str, manager: str, reason: str) -> RunResult:
    """Turn a claim down; the employee is told why. Raises `UnknownClaimError`, `PermissionError`."""
    claim = await _claim(runner, claim_id, manager)
    return await _answer(runner, claim, manager, [call.reject(reason) for call in claim.waiting])


async def resume(runner: Runner) -> list[tuple[str, RunResult]]:
    """Go on with what was cut off when a process died. A claim that is settled, or waits, stays as it is."""
    results: list[tuple[str, RunResult]] = []
    for session in await _sessions(runner):
        if session.events:
            result = await runner.run_to_result(
                user_id=session.user_id, session_id=session.id, invocation_id=session.events[-1].invocation_id
            )
            if result.events:
                results.append((session.id, result))
    return results


async def _answer(runner: Runner, claim: Claim, manager: str, parts: list[types.Part]) -> RunResult:
    """Give the decisions; each event of this run says who made them."""
    return await runner.run_to_result(
        user_id=claim.employee,
        session_id=claim.id,
        new_message=answers(*parts),
        run_config=RunConfig(custom_metadata={"decided_by": manager}),
    )


async def _claim(runner: Runner, claim_id: str, manager: str) -> Claim:
    claim = next((each for each in await waiting(runner) if each.id == claim_id), None)
    if claim is None:
        raise UnknownClaimError(f"No claim `{claim_id}` waits for a decision.")
    if claim.employee == manager:
        raise PermissionError("Nobody decides about expenses of their own.")
    return claim


async def _sessions(runner: Runner) -> list[Session]:
    """All claims with their events."""
    service, name = runner.session_service, runner.app_name
    listed = (await service.list_sessions(app_name=name)).sessions
    found = [await service.get_session(app_name=name, user_id=each.user_id, session_id=each.id) for each in listed]
    return [session for session in found if session is not None]

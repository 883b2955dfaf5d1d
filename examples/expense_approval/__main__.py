"""The desk on the command line: `python -m examples.expense_approval --help`."""

import argparse
import asyncio
import sys

from flowloom import FlowloomError, RunResult

from . import desk, ledger


def parsed() -> argparse.Namespace:
    """The command and its arguments."""
    parser = argparse.ArgumentParser(prog="expense_approval", description="Hand in expenses, and decide about them.")
    commands = parser.add_subparsers(dest="command", required=True)
    submit = commands.add_parser("submit", help="hand in an expense")
    submit.add_argument("employee")
    submit.add_argument("text", help='such as "Train to Lyon, 180 euros"')
    commands.add_parser("waiting", help="what waits for a manager")
    approve = commands.add_parser("approve", help="have a claim paid")
    approve.add_argument("claim")
    approve.add_argument("--amount", type=float, help="pay this amount instead")
    reject = commands.add_parser("reject", help="turn a claim down")
    reject.add_argument("claim")
    reject.add_argument("reason")
    for decision in (approve, reject):
        decision.add_argument("--manager", default="manager", help="who decides")
    commands.add_parser("resume", help="go on with what was cut off when a process died")
    commands.add_parser("payments", help="what was paid")
    return parser.parse_args()


async def main(given: argparse.Namespace) -> None:
    """Carry out one command."""
    if given.command == "payments":
        for payment in ledger.payments():
            print(f"{payment['employee']}: {payment['amount']:g} euros, {payment['description']}")
        return
    async with desk.opened() as runner:
        if given.command == "submit":
            claim, result = await desk.submit(runner, given.employee, given.text)
            tell(claim.id, result)
        elif given.command == "waiting":
            for claim in await desk.waiting(runner):
                for call in claim.waiting:
                    print(f"{claim.id}  {claim.employee}: {call.args['amount']:g} euros, {call.args['description']}")
        elif given.command == "approve":
            tell(given.claim, await desk.approve(runner, given.claim, given.manager, given.amount))
        elif given.command == "reject":
            tell(given.claim, await desk.reject(runner, given.claim, given.manager, given.reason))
        else:
            for claim_id, result in await desk.resume(runner):
                tell(claim_id, result)


def tell(claim_id: str, result: RunResult) -> None:
    """What came of a run."""
    for call in result.pending:
        print(f"{claim_id}  waits for a manager: {call.args['amount']:g} euros, {call.args['description']}")
    if result.text:
        print(f"{claim_id}  {result.text}")


if __name__ == "__main__":
    try:
        asyncio.run(main(parsed()))
    except (LookupError, PermissionError, ValueError, FlowloomError) as error:
        sys.exit(str(error))

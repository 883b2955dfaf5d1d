"""The agent that takes expenses. Who asks is the session's user, and never what the model says."""

from typing import Annotated, Any

from pydantic import Field

from flowloom import FunctionTool, LlmAgent, ToolContext

from . import ledger

APPROVAL_ABOVE = 100.0
"""Euros. What costs more waits for a manager."""

Amount = Annotated[float, Field(gt=0, allow_inf_nan=False, description="Euros.")]


def needs_manager(amount: float) -> bool:
    """Whether a manager has to approve the expense."""
    return amount > APPROVAL_ABOVE


def pay_expense(amount: Amount, description: str, tool_context: ToolContext) -> dict[str, Any]:
    """Pay an expense: refund what an employee has spent or paid for travel, food, books, or what else work needs.

    Args:
        amount: Euros.
        description: What the money was spent on.
    """
    employee = tool_context.user_id
    call = f"{tool_context.invocation_id}/{tool_context.function_call_id}"
    ledger.pay(call, employee, amount, description)
    return {"message": f"Paid {amount:g} euros to {employee} for “{description}”."}


def past_payments(tool_context: ToolContext) -> dict[str, Any]:
    """Show the payments that the employee got so far."""
    return {"payments": ledger.payments(tool_context.user_id)}


root_agent = LlmAgent(
    name="expense_approval",
    model="gemini-2.5-flash",
    description="Takes expenses of employees and has them paid.",
    instruction="Have each expense that the employee hands in paid by `pay_expense`. Ask for the amount in euros if it "
    "was not said. If a manager changed the amount or rejected the expense, say so, with the reason.",
    tools=[FunctionTool(pay_expense, require_confirmation=needs_manager), past_payments],
)

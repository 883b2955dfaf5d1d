"""What people were asked about a call, as the log tells: by its server or before it was sent, and what they decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from flowloom.context import Context
from flowloom.events.actions import ToolConfirmation
from flowloom.log.answers import read_decision

PAGE: Final = "mcp-page-"
"""What the credential key begins with of a page that a server sends a person to."""
FORM: Final = ("object", "boolean", "null")
"""The types of the answer to a form: `false` declines, null closes it."""


class Decided(NamedTuple):
    """What a person has decided: the id of the request, what was shown with it, and the decision."""

    request_id: str
    payload: Any
    decision: ToolConfirmation


def decided(context: Context) -> Sequence[Decided]:
    """What people have decided about the call of `context`, in the order asked."""
    requests = context.invocation_context.run.ledger.requests(context.function_call_id)
    found: list[Decided] = []
    for request in requests:
        answer = request.decision if request.kind == "confirmation" else None
        if answer is not None:
            asked: Any = (request.call.args or {}).get("toolConfirmation")
            shown = cast(dict[str, Any], asked).get("payload") if isinstance(asked, dict) else None
            found.append(Decided(request.id, shown, read_decision(answer.response)))
    return found


def about_call(context: Context, shown: Any = None) -> ToolConfirmation | None:
    """The decision about the call itself, with that before their eyes if something was `shown`: leave for a prompt of
    its server is none."""
    given = decided(context)
    if not given:
        return context.tool_confirmation
    fitting = (e for e in reversed(given) if not _is_prompt(e.payload) and (shown is None or e.payload == shown))
    return next((each.decision for each in fitting), None)


def has_server_asked(context: Context) -> bool:
    """Whether the call of `context` was sent before, and paused the run by what its server asked."""
    made = context.invocation_context.run.ledger.call(context.function_call_id)
    if made is None or not made.answers:
        return False
    actions, call_id = made.answers[-1].event.actions, made.id
    form = (actions.requested_inputs or {}).get(call_id)
    asked = actions.requested_tool_confirmations.get(call_id)
    page: dict[str, Any] = actions.requested_auth_configs.get(call_id) or {}
    return (
        (form is not None and (form.response_schema or {}).get("type") == [*FORM])
        or (asked is not None and _is_prompt(asked.payload))
        or str(page.get("credentialKey")).startswith(PAGE)
    )


def _is_prompt(payload: Any) -> bool:
    """Whether what a person was shown is a prompt that a server wants the model to answer."""
    return isinstance(payload, dict) and {"messages", "maxTokens"} <= cast(dict[str, Any], payload).keys()

"""Bodies of requests: read as a whole, and without what no store can keep (server spec §2)."""

from __future__ import annotations

import json
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flowloom.events.json_data import without_halves

_HALF = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]|\x00")
"""What stands in any JSON that may hold half of a surrogate pair: its escape or its bytes, in UTF-8 or another form of
Unicode."""
_UNUSUAL = (b"\\u", b"\xed", b"\x00")
"""How it begins, which is looked for in no time."""


class WholeTexts:
    """Has `app` read JSON in which U+FFFD stands for each half of a surrogate pair, as in all that is stored: such a
    text is no name, and no text of an answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_json(scope):
            data = await body_of(receive)
            if data is None:
                return
            receive = with_body(_mended(data), receive)
        await self._app(scope, receive, send)


def _is_json(scope: Scope) -> bool:
    return any(name == b"content-type" and b"json" in value.lower() for name, value in scope["headers"])


def _mended(data: bytes) -> bytes:
    if not any(each in data for each in _UNUSUAL) or _HALF.search(data) is None:
        return data
    try:
        return without_halves(json.dumps(json.loads(data), ensure_ascii=False)).encode()
    except (ValueError, RecursionError):  # who reads it says what is wrong
        return data


async def body_of(receive: Receive) -> bytes | None:
    """The whole body of a request; None if its client goes before the end."""
    pieces: list[bytes] = []
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


def with_body(data: bytes, receive: Receive) -> Receive:
    """What gives a body that was read before, and then what comes."""
    left: list[Message] = [{"type": "http.request", "body": data, "more_body": False}]

    async def receive_again() -> Message:
        return left.pop() if left else await receive()

    return receive_again

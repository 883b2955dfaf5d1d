"""Loading what talks to OAuth 2 servers, which needs the extra `auth`."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowloom.auth.exchange import MakeTransport, TokenExchange


@functools.cache
def token_exchange() -> TokenExchange:
    """What talks to OAuth 2 servers; loaded once. Raises `MissingExtraError` without the extra `auth`."""
    return importlib.import_module("flowloom.auth.exchange").TokenExchange()


def token_exchange_by(make_transport: MakeTransport) -> TokenExchange:
    """One whose requests go by transports that `make_transport` makes: for addresses that others named."""
    return importlib.import_module("flowloom.auth.exchange").TokenExchange(make_transport)

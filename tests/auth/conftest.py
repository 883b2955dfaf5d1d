"""The server of the tests of credentials."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from auth.oauth_server import OAuthServer


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    """A server that knows one client, on a port of its own."""
    with OAuthServer() as running:
        yield running

"""The service that the tests of this folder call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from protocols.openapi.service import Service, serving


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[Service]:
    with serving() as service:
        service.version = getattr(request, "param", service.version)
        yield service

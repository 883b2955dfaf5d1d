"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import settings

# the same examples on every machine: a failure that one run shows, the next one shows too
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

pytest_plugins = ["pytester"]

"""What is not installed is told with its extra; what is broken is told as it is."""

from __future__ import annotations

import pytest

from flowloom.errors import MissingExtraError
from flowloom.extras import missing_extra


def test_an_import_of_our_own_that_fails_is_no_missing_extra() -> None:
    """It is raised as it is: installing something would not help."""
    with pytest.raises(ImportError, match="nothing_here") as caught:
        try:
            from flowloom.errors import nothing_here  # type: ignore[attr-defined]  # noqa: F401
        except ImportError as error:
            raise missing_extra("The server needs FastAPI", "server", error) from error
    assert not isinstance(caught.value, MissingExtraError)


def test_a_library_that_is_not_there_names_its_extra() -> None:
    """With the command that installs it, and the library's name."""
    error = ModuleNotFoundError("No module named 'fastapi'", name="fastapi")
    missing = missing_extra("The server needs FastAPI", "server", error)
    assert (missing.extra, missing.name) == ("server", "fastapi")
    assert "pip install flowloom[server]" in str(missing)

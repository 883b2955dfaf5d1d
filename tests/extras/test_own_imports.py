"""What is not installed is told with its extra; what is broken is told as it is."""

from __future__ import annotations

import pytest

from flowloom.extras import missing_extra


def test_an_import_of_our_own_that_fails_is_no_missing_extra() -> None:
    """It is raised as it is: installing something would not help."""
    broken = ImportError("cannot import name 'x' from 'flowloom.errors'", name="flowloom.errors")
    with pytest.raises(ImportError) as caught:
        missing_extra("The server needs FastAPI", "server", broken)
    assert caught.value is broken


def test_a_library_that_is_not_there_names_its_extra() -> None:
    """With the command that installs it, and the library's name."""
    error = ModuleNotFoundError("No module named 'fastapi'", name="fastapi")
    missing = missing_extra("The server needs FastAPI", "server", error)
    assert (missing.extra, missing.name) == ("server", "fastapi")
    assert 'pip install "flowloom[server]"' in str(missing)

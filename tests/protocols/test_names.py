"""What tools from elsewhere are called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowloom.protocols.names import fit_name, is_fit, is_reserved, tool_names
from flowloom.protocols.words import cleaned

FITS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def test_a_name_that_fits_stays() -> None:
    """What every model takes is not changed."""
    assert tool_names(["get_time", "get-time", "_x", "a" * 64]) == {
        name: name for name in ("get_time", "get-time", "_x", "a" * 64)
    }


def test_characters_that_do_not_fit_become_underscores() -> None:
    """A dotted, a spaced and a slashed name, and one that begins with a digit."""
    assert fit_name("files.read") == "files_read"
    assert fit_name("füße/lesen jetzt") == "f__e_lesen_jetzt"
    assert fit_name("2fa") == "_2fa"


def test_a_long_name_is_cut_and_ends_in_a_hash() -> None:
    """Two long names that begin alike stay apart."""
    first, second = fit_name("a" * 80), fit_name("a" * 81)
    assert len(first) == len(second) == 64
    assert first != second
    assert re.fullmatch(r"a{55}_[0-9a-f]{8}", first)


def test_names_that_become_the_same_are_told_apart() -> None:
    """The one that fits keeps its name; of the others each ends in a hash of its own."""
    names = tool_names(["a.b", "a_b", "a/b"])
    assert names["a_b"] == "a_b"
    assert re.fullmatch(r"a_b_[0-9a-f]{8}", names["a.b"])
    assert names["a.b"] != names["a/b"]


def test_a_prefix_counts_into_the_length() -> None:
    """What does not fit with the prefix is cut as a whole."""
    assert tool_names(["x"], "files") == {"x": "files_x"}
    assert is_fit(tool_names(["a" * 64], "files")["a" * 64])


@given(st.lists(st.text(max_size=90), unique=True, max_size=12), st.randoms())
def test_any_names_become_fitting_ones_in_any_order(names: list[str], chance: object) -> None:
    """Each name fits, no two are the same, and the order of the list changes nothing."""
    made = tool_names(names)
    assert all(FITS.fullmatch(name) for name in made.values())
    assert len(set(made.values())) == len(names)
    assert tool_names(reversed(names)) == made


@pytest.mark.parametrize("name", ["transfer_to_agent", "set_model_response", "exit_loop", "adk_request_anything"])
def test_the_engines_names_are_reserved(name: str) -> None:
    """They are never taken from outside."""
    assert is_reserved(name)
    assert not is_reserved(f"{name}_") or name.startswith("adk_")


def test_invisible_characters_are_taken_out_of_words() -> None:
    """Control, bidi, zero-width, tag and variation characters; letters, emoji and line feeds stay."""
    hidden = "a\x00b\x1b\u202ec\u200bd\U000e0041e\ufeff\ufe0f"
    assert cleaned(hidden) == "abcde"
    assert cleaned("Grüße\r\n\t日本 🙂") == "Grüße\n\t日本 🙂"

"""How much of a result a model is given, addresses as they are shown, and libraries that are loaded late."""

from __future__ import annotations

import threading

import pytest
from kit import agent, context

from flowloom import Context
from flowloom.errors import MissingExtraError
from flowloom.protocols.addresses import is_same_origin, shown_address
from flowloom.protocols.loading import check_installed, in_thread
from flowloom.protocols.results import within_limit


def place() -> Context:
    return Context(context(agent()), function_call_id="c1")


async def test_a_short_result_is_given_as_it_is() -> None:
    """Nothing is cut at the limit itself, and no file is kept."""
    called = place()
    result = {"result": "a" * 100}
    assert await within_limit(result, 100, called, "read") is result
    assert await called.list_artifacts() == []


async def test_a_long_text_is_cut_between_characters_and_kept_as_a_file() -> None:
    """The note says how much there is, and where; the file has all of it."""
    called = place()
    text = "é" * 3000
    cut = await within_limit({"result": text}, 1001, called, "read")
    begin, note = cut["result"].split("\n")
    assert begin == "é" * 500
    (name,) = await called.list_artifacts()
    assert note == f"[cut after 1 kB of 6 kB: all of it is in the file `{name}`]"
    kept = await called.load_artifact(name)
    assert kept is not None
    assert kept.inline_data is not None
    assert kept.inline_data.data == text.encode()


async def test_long_data_is_kept_as_json() -> None:
    """Data of many fields is cut as its JSON text."""
    called = place()
    cut = await within_limit({"rows": list(range(5000))}, 100, called, "rows")
    assert cut["result"].startswith('{"rows": [0, 1, 2')
    assert (await called.list_artifacts())[0].endswith(".json")


async def test_without_files_the_rest_is_said_to_be_lost() -> None:
    """A runner without an artifact service cuts all the same."""
    called = Context(context(agent(), artifact_service=None), function_call_id="c1")
    cut = await within_limit("a" * 500, 100, called, "read")
    assert cut["result"].endswith("the rest is not kept, for the runner keeps no files]")


def test_a_shown_address_holds_no_secret() -> None:
    """User, password, query and fragment are left out."""
    assert shown_address("https://ann:pass@host:81/mcp?key=1#x") == "https://host:81/mcp"
    assert shown_address("python server.py?x") == "python server.py"


def test_an_origin_is_scheme_host_and_port() -> None:
    """The port that a scheme has anyway need not be named; everything else counts."""
    assert is_same_origin("https://Host/a", "https://host:443/b")
    for other in ("http://host/", "https://host:444/", "https://host.evil/", "https://evil@other/", "//host"):
        assert not is_same_origin("https://host/", other)


def test_a_missing_library_names_its_extra() -> None:
    """Nothing is imported to find that out."""
    with pytest.raises(MissingExtraError, match=r'pip install "flowloom\[mcp\]"'):
        check_installed("Servers need a library", "mcp", "json", "no_such_library_at_all")


async def test_what_is_loaded_in_a_thread_leaves_none() -> None:
    """The thread ends with the work."""
    assert await in_thread(lambda: threading.current_thread().name.startswith("flowloom:loading"))
    assert not [each for each in threading.enumerate() if each.name.startswith("flowloom:loading") and each.is_alive()]

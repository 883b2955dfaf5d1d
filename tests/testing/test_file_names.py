"""Files of tests: each test has its own, on any file system; failures are short."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowloom.testing.file_names import file_name

INI = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function"

MODULE = """
import pytest
from flowloom import LlmAgent, InMemoryRunner, explain
from flowloom.testing import ScriptedModel

NAMES = ["Where is it", "Where is it?", "where is it", "a/b", "a:b", "x" * 300, "x" * 301]

def said(name, **fields):
    return LlmAgent(name="root", model=ScriptedModel([name]), instruction=ascii(name), **fields)

@pytest.mark.parametrize("name", NAMES, ids=str)
class TestAll:
    async def test_it(self, name, request_snapshot):
        assert await explain(said(name), "hi") == request_snapshot
        assert await explain(said(name + "!"), "hi") == request_snapshot
        assert await explain(said(name + "?"), "hi") == request_snapshot(name="Named?")

    def test_played(self, name, cassette):
        root = said("said " + name).clone(update={"model": cassette(ScriptedModel(["said " + name]))})
        assert InMemoryRunner(root).run_stateless_sync("hi").text == "said " + name

def test_plain(cassette):
    InMemoryRunner(said("x").clone(update={"model": cassette(ScriptedModel(["said"]))})).run_stateless_sync("hi")
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *options)


def test_no_two_tests_share_a_snapshot_or_a_cassette(pytester: pytest.Pytester) -> None:
    """Written once for all, each test finds its own again; none is told to be unused."""
    pytester.makeini(INI)
    pytester.makepyfile(test_it=MODULE)
    run(pytester, "--snapshot-update", "--cassettes", "record").assert_outcomes(passed=15)
    result = run(pytester)
    result.assert_outcomes(passed=15)
    result.stdout.no_fnmatch_line("*unused*")
    for folder, count in (("__snapshots__", 21), ("cassettes", 8)):
        names = [path.name for path in (pytester.path / folder / "test_it").iterdir()]
        assert len(names) == count
        assert len({unicodedata.normalize("NFC", name).casefold() for name in names}) == count
        assert max(len(name.encode()) for name in names) < 255
    assert (pytester.path / "cassettes" / "test_it" / "test_plain.jsonl").exists()


def test_a_snapshot_that_no_test_uses_is_told(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one whose test had a name that no file can have."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # syrupy is silent in one
    pytester.makeini(INI)
    head, _, rest = MODULE.partition("NAMES = [")
    pytester.makepyfile(test_it=f'{head}NAMES = ["Is it?", "Is it"]{rest.partition("]")[2]}')
    run(pytester, "--snapshot-update", "-k", "test_it")
    pytester.makepyfile(test_it=f'{head}NAMES = ["Is it"]{rest.partition("]")[2]}')
    run(pytester, "-k", "test_it or test_plain").stdout.fnmatch_lines(["*3 snapshots unused*"])


@given(st.text(), st.text())
def test_two_names_have_two_files(first: str, second: str) -> None:
    """On file systems that fold case and normalise; a plain name stands as it is."""
    one, two = file_name(first), file_name(second)
    assert (unicodedata.normalize("NFC", one).casefold() == unicodedata.normalize("NFC", two).casefold()) is (
        first == second
    )
    assert not set(one) & set('/\\:*?"<>| \n\0')
    assert len(one.encode()) <= 140
    assert file_name("test_it[a-1]") == "test_it[a-1]"


MISS = """
from flowloom import LlmAgent, InMemoryRunner
from flowloom.testing import RecordingModel, ScriptedModel

async def ask(model, message):
    root = LlmAgent(name="root", model=model)
    return await InMemoryRunner(root).run_to_result(user_id="u", session_id="s", new_message=message)

async def test_fixture(cassette):
    await ask(cassette("gemini-2.5-flash"), "hi")

def test_sync(cassette):
    root = LlmAgent(name="root", model=cassette("gemini-2.5-flash"))
    InMemoryRunner(root).run_stateless_sync("hi")

async def test_by_hand(tmp_path):
    await ask(RecordingModel(ScriptedModel(["x"]), tmp_path / "a.jsonl"), "hi")

async def test_script():
    await ask(ScriptedModel([]), "hi")
"""


def test_a_miss_says_what_pytest_records_with_and_shows_the_tests_own_frames(pytester: pytest.Pytester) -> None:
    """A model made by hand says how its mode is set; frames of the framework come with `--full-trace` only."""
    pytester.makeini(INI)
    pytester.makepyfile(test_it=MISS)
    result = run(pytester)
    result.assert_outcomes(failed=4)
    text = result.stdout.str()
    package = Path(__import__("flowloom").__file__).parent
    assert text.count("`pytest --cassettes record`") >= 2
    assert 'mode="record"' in text
    assert "test_it.py:6" in text
    assert "await ask(" in text
    for place in ("model_call.py", "invocation.py", "base_events.py", str(package)):
        assert place not in text
    assert "model_call.py" in run(pytester, "--full-trace", "-k", "test_fixture").stdout.str()

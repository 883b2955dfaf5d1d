"""The pytest plugin: fixtures for snapshots, and a guard against calls of hosted models.

It is loaded by pytest where flowloom is installed. `block_model_requests` is on for every test; the marker
`allow_model_requests` switches it off.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

from flowloom.context.observer import observing
from flowloom.errors import FlowloomError
from flowloom.inspection.guard import ModelGuard
from flowloom.inspection.guard import block_model_requests as forbid_model_requests

if TYPE_CHECKING:
    from flowloom.testing.capture import CapturedRun
    from flowloom.testing.cassettes import RecordingModel
    from flowloom.testing.frozen_clock import FrozenClock

MARKER = "allow_model_requests"
_HERE = Path(__file__)
_PACKAGE = _HERE.parents[1]
_GUARD: pytest.StashKey[ModelGuard] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let one choose what cassettes do."""
    parser.getgroup("flowloom").addoption(
        "--cassettes",
        choices=("replay", "record", "rewrite"),
        default="replay",
        help="What models of the fixture `cassette` do: play what is recorded, record what is missing, or all anew.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", f"{MARKER}: this test may call hosted models.")


@pytest.fixture(autouse=True)
def block_model_requests(request: pytest.FixtureRequest) -> Generator[ModelGuard | None, None, None]:
    """No test calls a hosted model by mistake: such a call raises, and the test fails even if nobody saw that.

    Gives the guard, whose `blocked` tells of the calls; a test that expects them takes them out of the list.
    """
    if request.node.get_closest_marker(MARKER) is not None:
        yield None
        return
    with forbid_model_requests() as guard:
        request.node.stash[_GUARD] = guard
        yield guard


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that got through although it would have called a hosted model."""
    try:
        outcome = yield
    except FlowloomError as error:
        if isinstance(error, AssertionError) and not item.config.getoption("fulltrace"):
            error.__traceback__ = _own_frames(error.__traceback__, item.config.rootpath)
        raise
    guard = item.stash.get(_GUARD, None)
    if guard is not None and guard.blocked:
        pytest.fail(str(guard.blocked[0]), pytrace=False)
    return outcome


def _own_frames(trace: TracebackType | None, root: Path) -> TracebackType | None:
    """The frames of a failure up to the first of flowloom's own, and of those below it the ones of the tested code."""
    frames: list[TracebackType] = []
    within = False
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        own = _PACKAGE in path.parents and path.name != _HERE.name
        within = within or own
        if not own and (not within or (root in path.parents and "site-packages" not in path.parts)):
            frames.append(trace)
        trace = trace.tb_next
    kept: TracebackType | None = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept


@pytest.fixture
def request_snapshot(request: pytest.FixtureRequest) -> Generator[Any, None, None]:
    """Compares an `Assembly`, a request, or the steps of an assembly with what is stored:
    `assert assembly == request_snapshot`.

    The runs of the test are followed, so that requests have their authors, too. One file for each assertion; `pytest
    --snapshot-update` writes them. syrupy's `exclude`, `include` and `matcher` go by the paths of the request.
    """
    tracing = import_module("flowloom.inspection.assembly").Tracing()
    with observing(tracing):
        yield _snapshot(request, "RequestSnapshotExtension")


@pytest.fixture
def event_snapshot(request: pytest.FixtureRequest) -> Any:
    """Compares the events of a run with what is stored: `assert events == event_snapshot`."""
    return _snapshot(request, "EventSnapshotExtension")


def _snapshot(request: pytest.FixtureRequest, kind: str) -> Any:
    """syrupy's fixture with an extension of ours. Raises `MissingExtraError` without syrupy."""
    extension = getattr(import_module("flowloom.testing.snapshots"), kind)
    return request.getfixturevalue("snapshot").use_extension(extension)


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Callable[..., RecordingModel]:
    """Makes models whose answers are kept in `cassettes/MODULE/TEST.jsonl` beside the test: `cassette("gemini-...")`.

    They play what is recorded; `pytest --cassettes record` (or `rewrite`) asks the given model, a name or a `BaseLlm`.
    `secrets` and `secret_fields` are those of `RecordingModel`.
    """
    test = request.node.nodeid.partition("::")[2].replace("::", ".")
    name = import_module("flowloom.testing.file_names").file_name(test)
    path = request.path.parent / "cassettes" / request.path.stem / f"{name}.jsonl"
    mode = request.config.getoption("--cassettes")

    def recording(inner: Any, **declared: Any) -> RecordingModel:
        if mode != "replay":
            path.parent.mkdir(parents=True, exist_ok=True)
        return import_module("flowloom.testing.cassettes").RecordingModel.of_test(inner, path, mode, **declared)

    return recording


@pytest.fixture
def frozen_clock() -> Generator[FrozenClock, None, None]:
    """The clock stands still and ids count, for the whole test (see `flowloom.testing.frozen`)."""
    with import_module("flowloom.testing.frozen_clock").frozen() as clock:
        yield clock


@pytest.fixture
def captured_run() -> Generator[CapturedRun, None, None]:
    """What happens in all runs of the test (see `flowloom.testing.capture_run`)."""
    with import_module("flowloom.testing.capture").capture_run() as captured:
        yield captured

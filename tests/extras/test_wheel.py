"""The wheel that is built from the sources holds all of the package, the page and its licences among it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VENDORED = ("htm", "preact", "signals")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """The names of the files in a wheel that is built now; skips where the build's own tool cannot be had."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=folder)
    if done.returncode and "hatchling" in done.stderr and "No matching distribution" in done.stderr:
        required = os.environ.get("FLOWLOOM_PEERS") == "required"
        (pytest.fail if required else pytest.skip)(f"The wheel cannot be built without hatchling: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as opened:
        return frozenset(opened.namelist())


def test_every_file_of_the_package_is_in_the_wheel(wheel: frozenset[str]) -> None:
    """The page is data of the package; nothing else comes with it."""
    files = {each for each in (ROOT / "flowloom").rglob("*") if each.is_file() and "__pycache__" not in each.parts}
    package = {name for name in wheel if not name.split("/")[0].endswith(".dist-info")}
    assert package == {each.relative_to(ROOT).as_posix() for each in files}
    assert "flowloom/server/page/index.html" in package


def test_the_licences_are_in_the_wheel(wheel: frozenset[str]) -> None:
    """Those of the vendored modules beside them, and the package's own."""
    assert {f"flowloom/server/page/vendor/{name}.LICENSE" for name in VENDORED} <= wheel
    assert [name for name in wheel if name.endswith(".dist-info/licenses/LICENSE")]

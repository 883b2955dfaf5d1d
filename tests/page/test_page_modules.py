"""The modules of the page that need no browser, under Node's own test runner."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SUITES = sorted(HERE.glob("*.test.mjs"))
_SINCE = (20, 19)
"""The first version that sees by itself that a `.js` file is a module."""


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not on PATH")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if tuple(map(int, re.findall(r"\d+", said)[:2])) < _SINCE:
        pytest.skip(f"Node {said} is older than {'.'.join(map(str, _SINCE))}")
    return node


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name.removesuffix(".test.mjs"))
def test_a_suite_of_the_page_passes(suite: Path) -> None:
    """What the page computes is right: each rule stands in the suite itself."""
    done = subprocess.run([_node(), "--test", str(suite)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

"""What is called in forked processes keeps nothing else alive."""

from __future__ import annotations

import re
import subprocess
import sys

_FIRST_AGENT = """
import gc
from flowloom import InMemoryRunner, LlmAgent
InMemoryRunner(LlmAgent(name="a", model="gemini-2.5-flash"))
gc.set_debug(gc.DEBUG_STATS)
"""


def test_a_process_that_ends_lets_go_of_what_a_first_agent_has_loaded() -> None:
    """The last collection of an interpreter, after that of its modules, finds little more than its own objects."""
    done = subprocess.run([sys.executable, "-c", _FIRST_AGENT], capture_output=True, text=True, check=True)
    first, *_, last = map(int, re.findall(r"objects in each generation: \d+ \d+ (\d+)", done.stderr))
    assert last * 5 < first

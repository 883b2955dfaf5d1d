"""`in_forked_child`: what a process does first that was forked from this one."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from weakref import ref


def in_forked_child(function: Callable[[], None]) -> Callable[[], None]:
    """Have a `function` of a module called in each process that is forked from this one. A decorator.

    It is held weakly: the interpreter keeps what it is to call to its very end, and with a function all that its module
    has imported. The collector would look once more through Google's thousand classes.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=partial(_call, ref(function)))
    return function


def _call(held: ref[Callable[[], None]]) -> None:
    function = held()
    if function is not None:
        function()

"""`NoCollection`: many objects are made that stay. The package itself loads this, so it loads nothing else."""

from __future__ import annotations

import gc
from _thread import allocate_lock


class NoCollection:
    """Holds off the garbage collector, in any number of threads at once.

    It would look through all that is being made, again and again, and find nothing: while google-genai makes its
    thousand classes, that is a quarter of the time; while many events are read, three quarters. So that it does not do
    that right after, either, what was made counts as old at the end, as does all else that is young in this process; a
    program that keeps objects frozen is left alone.
    """

    _lock = allocate_lock()  # that of `threading`, which takes a tenth of the time of `import flowloom`
    _users = 0
    _was_on = False

    def __enter__(self) -> None:
        cls = NoCollection
        with cls._lock:
            if not cls._users:
                cls._was_on = gc.isenabled()
                gc.disable()
            cls._users += 1

    def __exit__(self, *error: object) -> None:
        cls = NoCollection
        with cls._lock:
            cls._users -= 1
            if not cls._users and cls._was_on:
                if not gc.get_freeze_count():
                    gc.freeze()
                    gc.unfreeze()  # into the oldest generation
                gc.enable()

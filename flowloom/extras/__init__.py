"""What stands for the libraries of an extra that is not installed.

A module that needs an extra can be imported without it; the first use raises an error that says how to install it.
It imports `errors` only. Begin with `missing_extra`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from flowloom.errors import MissingExtraError


def missing_extra(what: str, extra: str, error: ImportError) -> MissingExtraError:
    """The error for `what` (as `OpenAI's models need its SDK`), whose import failed with `error`.

    Raises `error` if it is a module of ours that could not be imported: what is to be installed would not mend that.
    """
    if error.name is not None and error.name.partition(".")[0] == "flowloom":
        raise error
    told = "" if error.name is None else f" ({error})"
    missing = MissingExtraError(f'{what}{told}: `pip install "flowloom[{extra}]"`.', extra=extra, name=error.name)
    missing.__cause__ = error.with_traceback(None)  # its frames would live as long as the module
    return missing


def absent(error: MissingExtraError) -> Any:
    """A value in the place of what could not be imported. Any use of it raises `MissingExtraError`."""
    return _Absent(error)


def require(*libraries: object) -> None:
    """Raise `MissingExtraError` if one of these could not be imported."""
    for library in libraries:
        if isinstance(library, _Absent):
            library()


class _Absent:
    def __init__(self, error: MissingExtraError) -> None:
        self._error = error

    def __repr__(self) -> str:
        return f"<not installed: {self._error.extra}>"

    def _raise(self, *_: Any, **__: Any) -> NoReturn:
        error = self._error
        raise MissingExtraError(error.msg, extra=error.extra, name=error.name) from error.__cause__

    __call__ = __mro_entries__ = _raise  # called, derived from

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # what looks at a value, and does not use it
        self._raise()

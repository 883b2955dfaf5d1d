"""`State`: session state with scopes, and a record of what was written (spec §0.9, §14.2)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final, overload

from flowloom.events.json_data import keep_json_state

_MISSING: Final = object()


class State:
    """A dict-like view of the session state `value` that records its changes in `delta`.

    Prefixes give the scope of a key: `app:` is shared by all users of an app, `user:` by all sessions of a
    user, `temp:` lives for one invocation and is never stored; no prefix means the session.

    A write goes to the live state, so that tools running side by side see it at once, and to the delta, which
    the engine puts on the event. A dict or list that was read and then changed in place counts as written.
    What is written has to be JSON data, or something that has a form in it, which the event then holds; `temp:` may
    hold anything. Raises `JsonDataError`, which names the key.
    """

    APP_PREFIX: Final = "app:"
    USER_PREFIX: Final = "user:"
    TEMP_PREFIX: Final = "temp:"

    __slots__ = ("_delta", "_lent", "_value")

    def __init__(self, value: dict[str, Any], delta: dict[str, Any]) -> None:
        self._value = value
        self._delta = delta
        self._lent: dict[str, tuple[Any, Any]] = {}

    def __getitem__(self, key: str) -> Any:
        value = self._delta.get(key, _MISSING)
        if value is _MISSING:
            value: Any = self._value[key]
        if type(value) in (dict, list, set) and key not in self._lent:
            self._lent[key] = (value, copy.deepcopy(value))
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        keep_json_state({key: value}, key)  # an error belongs to the line that causes it
        self._lent.pop(key, None)
        self._value[key] = value
        self._delta[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self._delta or key in self._value

    def __iter__(self) -> Iterator[str]:
        return iter(self._value | self._delta)

    def __len__(self) -> int:
        return len(self._value | self._delta)

    def __repr__(self) -> str:
        return f"State({self.to_dict()!r})"

    @overload
    def get(self, key: str) -> Any: ...
    @overload
    def get(self, key: str, default: Any) -> Any: ...
    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default` when there is none."""
        try:
            return self[key]
        except KeyError:
            return default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of `key`; when there is none, `default` is written first."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, values: Mapping[str, Any]) -> None:
        """Write several keys: those of `values`."""
        for key, value in values.items():
            self[key] = value

    def keys(self) -> list[str]:
        """All keys, whatever their scope."""
        return list(self)

    def items(self) -> list[tuple[str, Any]]:
        """All keys with their values."""
        return [(key, self[key]) for key in self]

    def has_delta(self) -> bool:
        """Whether anything was written."""
        self.record_changes()
        return bool(self._delta)

    def to_dict(self) -> dict[str, Any]:
        """All of the state as a new dict."""
        return self._value | self._delta

    def record_changes(self) -> None:
        """Record values that were read and then changed in place. The engine calls this after user code ran."""
        if not self._lent:
            return
        lent, self._lent = self._lent, {}
        for key, (value, before) in lent.items():
            if value != before:
                self._value[key] = value
                self._delta[key] = value


def split_by_scope(delta: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """State for (app, user, session), prefixes of app and user taken off, `temp:` keys left out."""
    app: dict[str, Any] = {}
    user: dict[str, Any] = {}
    session: dict[str, Any] = {}
    for key, value in delta.items():
        if key.startswith(State.APP_PREFIX):
            app[key[len(State.APP_PREFIX) :]] = value
        elif key.startswith(State.USER_PREFIX):
            user[key[len(State.USER_PREFIX) :]] = value
        elif not key.startswith(State.TEMP_PREFIX):
            session[key] = value
    return app, user, session


def merge_scopes(app: Mapping[str, Any], user: Mapping[str, Any], session: Mapping[str, Any]) -> dict[str, Any]:
    """One state dict out of the three scopes; containers are copied, so that no two share them."""
    merged = {key: own_value(value) for key, value in session.items()}
    for key, value in app.items():
        merged[State.APP_PREFIX + key] = own_value(value)
    for key, value in user.items():
        merged[State.USER_PREFIX + key] = own_value(value)
    return merged


def own_value(value: Any) -> Any:
    """`value` itself if it cannot change, else a deep copy."""
    return value if value is None or isinstance(value, str | int | float | bool | bytes) else copy.deepcopy(value)

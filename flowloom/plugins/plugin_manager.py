"""`PluginManager`: the plugins of a runner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from flowloom.context.hooks import Hooks, ask
from flowloom.errors import ConfigurationError, closest_of
from flowloom.plugins.base_plugin import BasePlugin

_log = logging.getLogger("flowloom.plugins")


class PluginManager:
    """The `plugins` by name, and the hooks they implement. Raises `ConfigurationError` for two of one name.

    `close_timeout` is how many seconds closing one plugin may take.
    """

    def __init__(self, plugins: Sequence[BasePlugin] | None = None, close_timeout: float = 5.0) -> None:
        self._plugins: dict[str, BasePlugin] = {}
        self._close_timeout = close_timeout
        if plugins is not None and not isinstance(plugins, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"`plugins` takes a list of plugins, not {plugins!r:.60}.")
        for plugin in plugins or ():
            self.register_plugin(plugin)

    @property
    def plugins(self) -> list[BasePlugin]:
        """The plugins in the order they are asked."""
        return list(self._plugins.values())

    def register_plugin(self, plugin: BasePlugin) -> None:
        """Add a plugin, asked after those that are there."""
        if not isinstance(getattr(plugin, "name", None), str):
            raise ConfigurationError(f"{plugin!r:.80} is no plugin. Give instances of `BasePlugin`.")
        if plugin.name in self._plugins:
            raise ConfigurationError(f"Two plugins are named `{plugin.name}`. Rename one.")
        self._plugins[plugin.name] = plugin
        self.__dict__.pop("hooks", None)
        hooks = {f"{hook}_callback" for hook in Hooks._fields}
        for method in {*dir(plugin)}.difference(dir(BasePlugin)):
            near = closest_of(f"{method}_callback", hooks, 1) or closest_of(method, hooks, 0.85)
            if near is not None and not method.startswith("_"):
                _log.warning("Plugin `%s` has `%s`, which is never called. Is it `%s`?", plugin.name, method, near)

    def get_plugin(self, plugin_name: str) -> BasePlugin | None:
        """The plugin named `plugin_name`; None if there is none."""
        return self._plugins.get(plugin_name)

    @cached_property
    def hooks(self) -> Hooks:
        """What the plugins implement, per hook; only methods that are overridden."""
        return Hooks(
            **{
                hook: tuple(
                    getattr(plugin, method)
                    for plugin in self._plugins.values()
                    if getattr(type(plugin), method) is not getattr(BasePlugin, method) or method in plugin.__dict__
                )
                for hook in Hooks._fields
                for method in (f"{hook}_callback",)
            }
        )

    async def close(self, also: Iterable[Any] = ()) -> None:
        """Close all plugins, and `also` these toolsets; one that fails or takes too long is reported, and the others
        are closed.
        """
        for each in (*self._plugins.values(), *also):
            try:
                async with asyncio.timeout(self._close_timeout):
                    await ask(each.close, {})
            except Exception:
                _log.exception("%s could not be closed.", getattr(each, "name", each))

"""Plugins: what other installed packages add, found by their entry points, and calls of their code.

Nothing is imported before a plugin is used. Only code that somebody installed is ever found. A
plugin that does not work never stops what does not need it: `skip` warns once, and the caller goes
on without it.
"""

import reprlib
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from pathlib import Path
from typing import TypeVar

from obygaze_features.core.errors import (
    FixInput,
    NotFound,
    ObygazeError,
    ObygazeWarning,
    first_line,
)
from obygaze_features.core.machine import is_out_of_memory
from obygaze_features.core.schema_rules import near

T = TypeVar("T")
ANALYSES = "obygaze.analyses"
BACKBONES = "obygaze.backbones"
COMMANDS = "obygaze.commands"
DATASETS = "obygaze.datasets"
METRICS = "obygaze.metrics"
MODELS = "obygaze.models"
PROTOCOLS = "obygaze.protocols"
SCHEMES = "obygaze.schemes"


@dataclass(frozen=True)
class Plugin:
    """One entry point of an installed package.

    `package` is its name and version, `where` the entry point as in its pyproject.toml.
    """

    point: EntryPoint
    name: str
    package: str
    where: str

    def load(self) -> object:
        """Return what the entry point names."""
        return self.call(self.point.load, "cannot be loaded")

    def call(self, function: Callable[[], T], failure: str) -> T:
        """Return the result of the plugin's code; every error names the plugin and `failure`."""
        try:
            return call_foreign(function, f"{self.where} {failure}")
        except ObygazeError as error:
            if self.where in str(error):
                raise
            raise FixInput(
                f"{self.where} {failure}: {error.what}",
                where=error.where,
                hint=error.hint,
                details=error.details,
            ) from error
        except RuntimeError as error:  # too little memory, by its words
            raise FixInput(f"{self.where} {failure}: {first_line(error)}") from error

    def refuse(self, reason: str) -> FixInput:
        """Return the error that the plugin, or what it returned, is not as it must be."""
        return FixInput(f"the plugin {reason}", where=self.where)


def plugins(group: str) -> list[Plugin]:
    """Return the plugins of a group, in the order of their names."""
    return [*_plugins(group, _installation())]


def _installation() -> tuple[tuple[str, int], ...]:
    """Return the folders of installed packages, with the time at which each was last changed."""
    folders = []
    for folder in sys.path:
        try:
            changed_ns = Path(folder).stat().st_mtime_ns  # "" is the working folder
        except (OSError, ValueError):
            changed_ns = -1
        folders.append((folder, changed_ns))
    return tuple(folders)


@lru_cache(maxsize=8)
def _plugins(
    group: str, installation: tuple[tuple[str, int], ...]
) -> tuple[Plugin, ...]:
    """Return the plugins of a group; the lists of all packages are read once.

    `installation` is only a key: they are read again once a package was installed or removed.
    """
    group_plugins = []
    for point in sorted(_points(group), key=lambda point: (point.name, point.value)):
        package = _package(point.dist)
        where = f"{group}: {point.name} = {point.value} ({package})"
        group_plugins.append(Plugin(point, point.name, package, where))
    return tuple(group_plugins)


def _points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group; a package whose list cannot be read is skipped."""
    try:
        return [*entry_points(group=group)]
    except (TypeError, ValueError, OSError):
        # One damaged list hides those of all packages.
        points: dict[EntryPoint, None] = {}
    for distribution in distributions():
        read = _reader(distribution, group)
        try:
            of_package = call_foreign(
                read, f"the entry points of {_package(distribution)}"
            )
        except ObygazeError as error:
            warn_once(f"a package is skipped: {error.what}")
            continue
        points.update(dict.fromkeys(of_package))
    return [*points]


def _reader(distribution: Distribution, group: str) -> Callable[[], list[EntryPoint]]:
    return lambda: [*distribution.entry_points.select(group=group)]


def _package(distribution: Distribution | None) -> str:
    """Return the name and version of a package, as far as its metadata has them."""
    try:
        facts = (distribution.name, distribution.version) if distribution else ()
    except (KeyError, TypeError, ValueError, OSError):
        facts = ()
    return " ".join(fact for fact in facts if fact) or "an unknown package"


def short_value(value: object) -> str:
    """Return a value and its type for a message, in a few words."""
    return f"{reprlib.repr(value)} ({type(value).__name__})"


def skip(error: ObygazeError) -> None:
    """Warn that a plugin is skipped, once in a process; the error names it."""
    where = f" ({error.where})" if error.where else ""
    warn_once(f"a plugin is skipped: {error.what}{where}")


@cache
def warn_once(text: str) -> None:
    """Warn with a text, unless this process has done so before."""
    warnings.warn(text, ObygazeWarning, stacklevel=2)


def find_plugin(group: str, name: str) -> Plugin:
    """Return the plugin of a name; an error where there is none, or where two packages have it."""
    installed = plugins(group)
    with_name = [plugin for plugin in installed if plugin.name == name]
    if not with_name:
        names = [plugin.name for plugin in installed]
        hint = f"install its package; installed are {', '.join(names) or 'none'}"
        raise NotFound(f"no plugin {name!r}{near(name, names)}", where=group, hint=hint)
    if len(with_name) > 1:
        places = " and ".join(plugin.where for plugin in with_name)
        raise FixInput(
            f"two packages add {name!r}", where=places, hint="uninstall one of them"
        )
    return with_name[0]


def call_foreign(function: Callable[[], T], subject: str, hint: str = "") -> T:
    """Return the result of code that is not ours; errors, but for memory, name the `subject`."""
    try:
        return function()
    except (ObygazeError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        message = f"{subject}: {type(error).__name__}: {first_line(error)}"
        raise FixInput(message, hint=hint or None) from error

"""Plugins: what other installed packages add, found by their entry points, and calls of their code.

Nothing is imported before a plugin is used. Only code that somebody installed is ever found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from obygaze_features.core.errors import FixInput, NotFound, ObygazeError, first_line
from obygaze_features.core.schema_rules import near

T = TypeVar("T")
BACKBONES, DATASETS, MODELS = "obygaze.backbones", "obygaze.datasets", "obygaze.models"


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
        return call_foreign(self.point.load, f"{self.where} cannot be loaded")


def plugins(group: str) -> list[Plugin]:
    """Return the plugins of a group, in the order of their names."""
    found = []
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        own = f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown package"
        where = f"{group}: {point.name} = {point.value} ({own})"
        found.append(Plugin(point, point.name, own, where))
    return found


def find_plugin(group: str, name: str) -> Plugin:
    """Return the plugin of a name; an error where there is none, or where two packages have it."""
    there = plugins(group)
    found = [plugin for plugin in there if plugin.name == name]
    if not found:
        names = [plugin.name for plugin in there]
        hint = f"install its package; installed are {', '.join(names) or 'none'}"
        raise NotFound(f"no plugin {name!r}{near(name, names)}", where=group, hint=hint)
    if len(found) > 1:
        places = " and ".join(plugin.where for plugin in found)
        raise FixInput(f"two packages add {name!r}", where=places, hint="uninstall one of them")
    return found[0]


def call_foreign(function: Callable[[], T], what: str, hint: str = "") -> T:
    """Return the result of code that is not ours; any error but too little memory names `what`."""
    try:
        return function()
    except (ObygazeError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, RuntimeError) and ("memory" in str(error) or "ALLOC" in str(error)):
            raise
        found = f"{what}: {type(error).__name__}: {first_line(error)}"
        raise FixInput(found, hint=hint or None) from error

"""Schemes: the training sets and settings of a publication, which a protocol names and follows.

`splits.scheme = "NAME"` takes the training sets of the scheme instead of those of the published
folds themselves, and the scheme's value for each setting that the protocol leaves out. Schemes come
from extensions and plugins (the entry points `obygaze.schemes`); none is built in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from obygaze_features.core.errors import NotFound, ObygazeError
from obygaze_features.core.plugins import (
    SCHEMES,
    Plugin,
    find_plugin,
    is_own_code,
    plugins,
    short_value,
    skip,
)
from obygaze_features.core.schema_rules import near
from obygaze_models.models.registry import Settings, find_kind
from obygaze_models.protocols.splits import Split

NONE = "none"
BANK = "bottleneck"  # in `Scheme.settings`: every kind that has concept vectors


@dataclass(frozen=True)
class Scheme:
    """Rules of a publication.

    Attributes:
        about: A sentence for the report of a run that follows the scheme.
        splits: Called with the fold of each clip, its class (negative outside the task), whether it
            can be used, whether the larger class takes turns, and whether a fold validates; returns
            the splits.
        settings: For a kind of model (or "bottleneck": all kinds with concept vectors) the settings
            that differ from the defaults.
    """

    about: str
    splits: Callable[..., list[Split]]
    settings: Mapping[str, Settings] = field(default_factory=dict)

    def changes(self, kind: str) -> Settings:
        """Return the settings of a kind that differ from its defaults."""
        if find_kind(kind).head:
            return dict(self.settings.get(BANK, {}))
        return dict(self.settings.get(kind, {}))


def scheme_names() -> list[str]:
    """Return the values that `splits.scheme` may have."""
    return [NONE, *sorted(_all_schemes())]


def find_scheme(name: str) -> Scheme | None:
    """Return the scheme of a name; None for "none"."""
    if name == NONE:
        return None
    if is_own_code(name):
        return _own_scheme(name)
    schemes = _all_schemes()
    if name not in schemes:
        raise NotFound(
            f"unknown scheme {name!r}{near(name, schemes)}",
            hint=f"one of {', '.join(scheme_names())}",
        )
    scheme, _ = schemes[name]
    return scheme


def plugin_of_scheme(name: str) -> Plugin | None:
    """Return the plugin that brings a scheme; None for "none"."""
    if name == NONE:
        return None
    if is_own_code(name):
        return find_plugin(SCHEMES, name)
    find_scheme(name)
    _, plugin = _all_schemes()[name]
    return plugin


def _own_scheme(name: str) -> Scheme:
    """Return the scheme of a file."""
    plugin = find_plugin(SCHEMES, name)
    scheme = plugin.load()
    if not isinstance(scheme, Scheme):
        raise plugin.refuse(f"must be a Scheme, got {short_value(scheme)}")
    return scheme


def about_scheme(name: str) -> str:
    """Return what a report says of a scheme; "" for "none"."""
    if name == NONE:
        return ""
    schemes = _all_schemes()
    if name not in schemes:
        return f"The splits and the training follow the scheme {name!r}."
    scheme, _ = schemes[name]
    return scheme.about


def _all_schemes() -> dict[str, tuple[Scheme, Plugin]]:
    """Return each scheme with the plugin that brings it. A plugin that does not work is skipped."""
    schemes: dict[str, tuple[Scheme, Plugin]] = {}
    for plugin in plugins(SCHEMES):
        try:
            schemes_of_plugin = load_schemes(plugin)
        except ObygazeError as error:
            skip(error)
            continue
        for name, scheme in schemes_of_plugin.items():
            if name in schemes or name == NONE:
                skip(plugin.refuse(f"has a scheme {name!r}, which is there already"))
            else:
                schemes[name] = (scheme, plugin)
    return schemes


def load_schemes(plugin: Plugin) -> Mapping[str, Scheme]:
    """Return the schemes of a plugin, by name; `doctor` checks every plugin with it."""
    schemes = plugin.load()
    if not isinstance(schemes, Mapping):
        raise plugin.refuse(
            f"must be a mapping of names to schemes, got {short_value(schemes)}"
        )
    for name, scheme in schemes.items():
        if not isinstance(scheme, Scheme):
            raise plugin.refuse(
                f"must have a Scheme as {name!r}, got {short_value(scheme)}"
            )
    return schemes

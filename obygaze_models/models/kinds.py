"""List the model types with their settings."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from obygaze_models.models.registry import (
    KINDS,
    VECTORS,
    Settings,
    default_settings,
    find_kind,
    trainable,
)

WIDTH = 80


@dataclass(frozen=True)
class KindList:
    """The model types, with the default of each setting.

    `required` has the names of the settings without a default.
    """

    kinds: Mapping[str, Settings]
    required: Mapping[str, tuple[str, ...]]
    trained: frozenset[str]

    def to_json(self) -> dict[str, Any]:
        """Return for each model type its settings, and whether `train` takes it."""
        kinds = {}
        for name, settings in self.kinds.items():
            kinds[name] = {
                "settings": dict(settings),
                "required": list(self.required[name]),
                "trained": name in self.trained,
            }
        return {"kinds": kinds}

    def __str__(self) -> str:
        width = max(map(len, self.kinds)) + 2
        lines = []
        for name, settings in self.kinds.items():
            words = [f"{key}=..." for key in self.required[name]]
            words += [f"{key}={_compact(value)}" for key, value in settings.items()]
            text = "  ".join(words) or "no settings"
            if name not in self.trained:
                text += "  (in protocols only)"
            lines += textwrap.wrap(
                text,
                WIDTH,
                initial_indent=name.ljust(width),
                subsequent_indent=" " * width,
                break_on_hyphens=False,
            )
        return "\n".join(lines)


def list_kinds() -> KindList:
    """Return the model types, each with the default of its settings.

    Example:
        >>> og.models.kinds().kinds["ridge"]
        {'class_weight': 'none'}
    """
    kinds: dict[str, Settings] = {}
    required: dict[str, tuple[str, ...]] = {}
    for name in KINDS:
        kinds[name] = default_settings(name)
        types = find_kind(name).types
        required[name] = tuple(key for key in types if key not in kinds[name])
    kinds[VECTORS] = {}
    required[VECTORS] = ()
    return KindList(kinds, required, frozenset(trainable()))


def _compact(value: object) -> str:
    """Return a value as it is typed after KEY=, without blanks."""
    if isinstance(value, str):
        return value or '""'
    return json.dumps(value, separators=(",", ":"))

"""Plans as Slurm arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.extensions.cluster.arrays import write_array as write_array
    from obygaze.extensions.cluster.slurm import SlurmArray as SlurmArray
    from obygaze.extensions.cluster.slurm import array_for as array_for

if not TYPE_CHECKING:
    _EXPORTS = {
        "obygaze.extensions.cluster.arrays": ("write_array",),
        "obygaze.extensions.cluster.slurm": ("SlurmArray", "array_for"),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

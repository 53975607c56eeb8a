"""Plans on other machines: Slurm arrays, and bundles for a node without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze.extensions.cluster.arrays import bundle_plan as bundle_plan
    from obygaze.extensions.cluster.arrays import write_array as write_array
    from obygaze.extensions.cluster.bundle import make_bundle as make_bundle
    from obygaze.extensions.cluster.slurm import SlurmArray as SlurmArray
    from obygaze.extensions.cluster.slurm import array_for as array_for

COMMANDS = {
    "extract slurm": (
        "obygaze.extensions.cluster.arrays:write_array",
        "Write a plan as a Slurm array, and submit it.",
    ),
    "bundle": (
        "obygaze.extensions.cluster.arrays:bundle_plan",
        "Collect what a plan needs, for a node without a network.",
        "Share",
    ),
}

if not TYPE_CHECKING:
    _EXPORTS = {
        "obygaze.extensions.cluster.arrays": ("bundle_plan", "write_array"),
        "obygaze.extensions.cluster.bundle": ("make_bundle",),
        "obygaze.extensions.cluster.slurm": ("SlurmArray", "array_for"),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

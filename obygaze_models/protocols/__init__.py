"""Experiments as data: tasks, splits, grid, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.protocols.datasets import dataset as dataset
    from obygaze_models.protocols.experiments import Trained as Trained
    from obygaze_models.protocols.experiments import list_protocols as list_protocols
    from obygaze_models.protocols.experiments import run as run
    from obygaze_models.protocols.experiments import train as train
    from obygaze_models.protocols.reading import load_protocol as load_protocol
    from obygaze_models.protocols.runner.records import Run as Run
    from obygaze_models.protocols.runner.records import read_run as read_run
    from obygaze_models.protocols.runner.run import Inputs as Inputs
    from obygaze_models.protocols.runner.run import gather as gather
    from obygaze_models.protocols.runner.run import run_protocol as run_protocol
    from obygaze_models.protocols.runner.training import fit_final as fit_final
    from obygaze_models.protocols.runner.training import (
        training_protocol as training_protocol,
    )
    from obygaze_models.protocols.schema import Protocol as Protocol
else:
    _EXPORTS = {
        "obygaze_models.protocols.datasets": ("dataset",),
        "obygaze_models.protocols.experiments": (
            "Trained",
            "list_protocols",
            "run",
            "train",
        ),
        "obygaze_models.protocols.reading": ("load_protocol",),
        "obygaze_models.protocols.runner.records": ("Run", "read_run"),
        "obygaze_models.protocols.runner.run": ("Inputs", "gather", "run_protocol"),
        "obygaze_models.protocols.runner.training": ("fit_final", "training_protocol"),
        "obygaze_models.protocols.schema": ("Protocol",),
    }
    __getattr__, __dir__, __all__ = lazy_exports(__name__, _EXPORTS)

"""The version of each part of a run that is own code."""

from obygaze_features.core.parts import find_part
from obygaze_models.models.registry import own_baselines
from obygaze_models.protocols.schema import SPLIT_KINDS, Protocol


def used_parts(protocol: Protocol) -> dict[str, dict[str, str]]:
    """Return the version of each metric, baseline and kind of splits of own code, by kind and name.

    The versions of own models are settings of the models.
    """
    kind_of_splits = protocol.splits.kind
    names_of_kinds = {
        "metrics": protocol.further_metrics,
        "baselines": own_baselines(protocol.grid.baselines),
        "splits": [kind_of_splits] if kind_of_splits not in SPLIT_KINDS else [],
    }
    used: dict[str, dict[str, str]] = {}
    for kind, names in names_of_kinds.items():
        for name in names:
            used.setdefault(kind, {})[name] = find_part(name).package
    return used

"""The version of each part of a run that is own code."""

from obygaze_features.core.parts import find_part
from obygaze_models.models.registry import own_baselines
from obygaze_models.protocols.paper_splits import SHIPPED_SCHEMES
from obygaze_models.protocols.schema import SPLIT_KINDS, Protocol


def used_parts(protocol: Protocol) -> dict[str, dict[str, str]]:
    """Return the version of each metric, baseline and kind of splits of own code, by kind and name.

    The versions of own models are settings of the models.
    """
    splits = protocol.splits
    own_splits = [] if splits.kind in SPLIT_KINDS else [splits.kind]
    if splits.follow_scheme and splits.scheme not in SHIPPED_SCHEMES:
        own_splits.append(splits.scheme)
    names_of_kinds = {
        "metrics": protocol.further_metrics,
        "baselines": own_baselines(protocol.grid.baselines),
        "splits": own_splits,
    }
    used: dict[str, dict[str, str]] = {}
    for kind, names in names_of_kinds.items():
        for name in names:
            used.setdefault(kind, {})[name] = find_part(name).package
    return used

"""Schemes: the training sets and settings of a publication, which a protocol names and follows.

`splits.scheme = "NAME"` takes the training sets of the scheme instead of those of the published
folds themselves, and the scheme's value for each setting that the protocol leaves out.

`obygaze12-code` and `obygaze12-text` are the two readings of the paper of ObyGaze12 (CVPR 2024):
its released code, and its text. The two differ in training sets, in concept vectors and in
perceptrons (docs/papers.md).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from obygaze_models.models.registry import PUBLISHED, Settings, find_kind
from obygaze_models.protocols.paper_splits import code_splits, text_splits
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


# Concept vectors of both: heads then take margins as they are.
_VECTORS_OF_BOTH = {
    "tolerance": PUBLISHED,
    "cross_fit": 0,
    "scaled": False,
    "random_state": 42,
}
SCHEMES = {
    "obygaze12-code": Scheme(
        about="The splits and the training follow the released code.",
        splits=code_splits,
        settings={
            "mlp": {"keep": "last", "double_softmax": True},
            BANK: {
                **_VECTORS_OF_BOTH,
                "balance": "weights",
                "unit_norm": False,
                "best_of_folds": True,
            },
        },
    ),
    "obygaze12-text": Scheme(
        about="The splits and the training follow the paper's text.",
        splits=text_splits,
        settings={
            BANK: {
                **_VECTORS_OF_BOTH,
                "tolerance": "folds",
                "balance": "subsample",
                "unit_norm": True,
                "against": "EN",
            },
        },
    ),
}

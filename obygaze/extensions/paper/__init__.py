"""The rules of single papers: what their code and their text do, for protocols that follow them.

`obygaze12-code` and `obygaze12-text` are the two readings of the paper of ObyGaze12 (CVPR 2024):
its released code, and its text. The two differ in training sets, in concept vectors and in
perceptrons (docs/design/0009-protocols-and-runs.md). The protocols in `protocols/` are its tables.
"""

from pathlib import Path

from obygaze.extensions.paper.splits import code_splits, text_splits
from obygaze_models.models.registry import PUBLISHED
from obygaze_models.protocols.schemes import BANK, Scheme

PROTOCOLS = Path(__file__).parent / "protocols"

# Concept vectors of both: heads then take margins as they are.
_VECTORS_OF_BOTH = {
    "tolerance": PUBLISHED,
    "cross_fit": 0,
    "scaled": False,
    "random_state": 42,
}

CODE = Scheme(
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
)
TEXT = Scheme(
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
)
SCHEMES = {"obygaze12-code": CODE, "obygaze12-text": TEXT}

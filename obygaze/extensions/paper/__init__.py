"""The rules of single papers: what their code and their text do, for protocols that follow them.

`obygaze12-code` and `obygaze12-text` are the two readings of the paper of ObyGaze12 (CVPR 2024):
its released code, and its text. The two differ in training sets, in concept vectors and in
perceptrons (docs/design/0009-protocols-and-runs.md). The protocols in `protocols/` are its tables.
"""

from pathlib import Path

from obygaze.extensions.paper.splits import code_splits, text_splits
from obygaze_models.models.registry import PUBLISHED, Settings
from obygaze_models.protocols.kinds import BY_TASK, OTHER_TASKS
from obygaze_models.protocols.schemes import BANK, Scheme

PROTOCOLS = Path(__file__).parent / "protocols"

# Concept vectors of both: heads then take margins as they are.
_VECTORS_OF_BOTH = {
    "tolerance": PUBLISHED,
    "cross_fit": 0,
    "scaled": False,
    "random_state": 42,
}
# What older protocols call "paper"; those of today state the numbers, as paper-pcbm does.
_TREE = {
    "max_depth": {BY_TASK: {"EN_S": 8, "HN_S": 10, OTHER_TASKS: 4}},
    "min_samples_leaf": {BY_TASK: {"HN_S": 10, OTHER_TASKS: 6}},
}
_LOGISTIC = {
    "penalty": {BY_TASK: {"EN_S": "l2", "HN_S": "l2", OTHER_TASKS: "l1"}},
    "C": {BY_TASK: {"EN_S": 0.1, "HN_S": 0.1, OTHER_TASKS: 0.01}},
}
_OLD_VALUES: dict[str, Settings] = {"pcbm-dt": _TREE, "pcbm-lr": _LOGISTIC}

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
    old_name="authors",
    old_values=_OLD_VALUES,
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
    old_name="text",
)
SCHEMES = {"obygaze12-code": CODE, "obygaze12-text": TEXT}

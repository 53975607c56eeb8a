"""What a metric or a kind of split is stands in one file: no other file names one."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.metrics import METRICS
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.schedule import SPLIT_KINDS
from obygaze_models.protocols.schema import Splits

ROOT = Path(__file__).parents[2]
MODELS = "obygaze_models/"
# What has the name of a metric and is none.
COLUMNS_OF_CONCEPTS = {"ap", "auc"}
BASELINE = {"prevalence"}
OTHERS = {
    f"{MODELS}models/baselines.py": BASELINE,
    f"{MODELS}models/registry.py": BASELINE,
    f"{MODELS}evaluation/results.py": BASELINE,
    f"{MODELS}evaluation/tables.py": COLUMNS_OF_CONCEPTS,
    f"{MODELS}runner/concepts.py": COLUMNS_OF_CONCEPTS,
    f"{MODELS}report/sections.py": COLUMNS_OF_CONCEPTS,
}
# Plain words, which films and audits say of other things.
WORDS = {"accuracy", "precision", "recall"}


def named_metrics(path: Path) -> Iterator[str]:
    """Yield the metrics that are named by a text of a file."""
    text = path.read_text(encoding="utf-8")
    if not any(metric in text for metric in METRICS):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and node.value in METRICS:
            yield str(node.value)


def sources() -> Iterator[tuple[str, Path]]:
    """Yield the name and the path of each source of the program."""
    for package in ("obygaze", "obygaze_features", "obygaze_models"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path


def test_no_other_file_names_a_metric() -> None:
    found = {}
    for name, path in sources():
        if name == f"{MODELS}evaluation/metrics.py":
            continue
        named = set(named_metrics(path)) - OTHERS.get(name, set()) - WORDS
        if named:
            found[name] = sorted(named)
    assert found == {}


def test_a_kind_of_split_refuses_each_key_that_it_does_not_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keyless = replace(SPLIT_KINDS["kfold"], keys=(), needs=(), pairs=False)
    monkeypatch.setitem(SPLIT_KINDS, "keyless", keyless)
    values = {
        "scheme": "obygaze_models.protocols.paper_splits:code_splits",
        "folds": 3,
        "never": ["a"],
        "column": "part",
        "test": ["a"],
        "choose": ["b"],
    }
    own = {field.name for field in fields(Splits)} - {"kind", "validation", "seed"}
    assert values.keys() == own
    changes = [f"splits.{key}={json.dumps(value)}" for key, value in values.items()]
    more = ("splits.kind=keyless", "splits.validation=each")
    with pytest.raises(FixInput) as refused:
        load_protocol("honest", [*changes, *more])
    details = "\n".join(refused.value.details)
    for key in (*values, "validation"):
        assert re.search(rf"splits\.{key}: .*has no meaning in keyless splits", details)

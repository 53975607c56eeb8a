"""What a metric is stands in one file: no other file of the program names one in words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from obygaze_models.evaluation.metrics import METRICS

ROOT = Path(__file__).parents[2]
MODELS = "obygaze_models/"
# What has the name of a metric and is none.
COLUMNS_OF_CONCEPTS = {"ap", "auc"}
BASELINE = {"prevalence"}
OTHERS = {
    f"{MODELS}models/baselines.py": BASELINE,
    f"{MODELS}models/registry.py": BASELINE,
    f"{MODELS}runner/summary.py": BASELINE,
    f"{MODELS}runner/tables.py": COLUMNS_OF_CONCEPTS,
    f"{MODELS}runner/concepts.py": COLUMNS_OF_CONCEPTS,
    f"{MODELS}report/sections.py": COLUMNS_OF_CONCEPTS,
}
# Plain words, which films and audits say of other things.
WORDS = {"accuracy", "precision", "recall"}


def named_metrics(path: Path) -> Iterator[str]:
    """Yield the metrics that are named by a text of a file."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Constant) and node.value in METRICS:
            yield str(node.value)


def test_no_other_file_names_a_metric() -> None:
    found = {}
    for package in ("obygaze", "obygaze_features", "obygaze_models"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name == f"{MODELS}evaluation/metrics.py":
                continue
            named = set(named_metrics(path)) - OTHERS.get(name, set()) - WORDS
            if named:
                found[name] = sorted(named)
    assert found == {}

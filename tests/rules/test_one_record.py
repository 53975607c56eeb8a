"""What a metric or a kind of split is stands in one file: no other file names one."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace

import pytest

from obygaze_features.core.errors import FixInput
from obygaze_models.protocols.reading import load_protocol
from obygaze_models.protocols.schedule import SPLIT_KINDS
from obygaze_models.protocols.schema import Splits


def test_a_kind_of_split_refuses_each_key_that_it_does_not_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keyless = replace(SPLIT_KINDS["kfold"], keys=(), needs=(), pairs=False)
    monkeypatch.setitem(SPLIT_KINDS, "kfold", keyless)
    values = {
        "scheme": "obygaze_models.protocols.paper_splits:code_splits",
        "folds": 3,
        "never": ["a"],
        "column": "part",
        "test": ["a"],
    }
    own = {field.name for field in fields(Splits)} - {"kind", "validation", "seed"}
    assert values.keys() == own
    changes = [f"splits.{key}={json.dumps(value)}" for key, value in values.items()]
    more = ("splits.kind=kfold", "splits.validation=each")
    with pytest.raises(FixInput) as refused:
        load_protocol("honest", [*changes, *more])
    details = "\n".join(refused.value.details)
    for key in (*values, "validation"):
        assert re.search(rf"splits\.{key}: .*has no meaning in kfold splits", details)

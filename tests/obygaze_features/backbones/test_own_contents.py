"""What a model holds beside its state_dict is part of its recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="backbones need the extract extra")

from obygaze_features.backbones import load_backbone  # noqa: E402

CODE = """\
import json
from pathlib import Path

import numpy as np
import torch
from obygaze_features.backbones import module_card

FILE = Path(__file__).parent / "value.json"


class Net(torch.nn.Linear):
    def __init__(self):
        torch.manual_seed(0)
        super().__init__(1, 1)
        value = json.loads(FILE.read_text())
        {held}


def run(module, pixels):
    factor = {found}
    return {{"clip": pixels.flatten(1)[:, :1] * float(factor)}}


def net():
    options = {{"arrays": {{"clip": [1]}}, "frames": 2, "size": 4, "licence": "MIT"}}
    return module_card("net", Net, run{files}, **options)
"""

HELD = {
    "a buffer that is not saved": (
        "self.register_buffer('factor', torch.tensor(value), persistent=False)",
        "module.factor",
    ),
    "a tensor": ("self.factor = torch.tensor(value)", "module.factor"),
    "an array": ("self.factor = np.array(value)", "module.factor"),
    "a number": ("self.factor = value", "module.factor"),
    "a number with an underscore": ("self._factor = value", "module._factor"),
    "a tensor in a list of a dictionary": (
        "self.factors = {'of': [0, torch.tensor(value)]}",
        "module.factors['of'][1]",
    ),
    "a module in a list": (
        "self.parts = [torch.nn.Linear(1, 1)]\n"
        "        torch.nn.init.constant_(self.parts[0].weight, value)",
        "module.parts[0].weight",
    ),
    "an attribute of a part": (
        "self.part = torch.nn.ReLU()\n        self.part.factor = np.array(value)",
        "module.part.factor",
    ),
}


def recipe_and_number(folder: Path, value: float) -> tuple[dict[str, Any], float]:
    (folder / "value.json").write_text(json.dumps(value))
    backbone = load_backbone(f"{folder / 'mine.py'}:net")
    pixels = np.ones((1, 2, 3, 4, 4), np.float32)
    return backbone.recipe(), float(backbone.forward(pixels)["clip"][0, 0])


@pytest.mark.parametrize("held", HELD)
def test_two_models_have_two_recipes(held: str, tmp_path: Path) -> None:
    statement, found = HELD[held]
    code = CODE.format(held=statement, found=found, files="")
    (tmp_path / "mine.py").write_text(code, "utf-8")
    one, number = recipe_and_number(tmp_path, 2.0)
    assert number == 2.0
    assert recipe_and_number(tmp_path, 2.0) == (one, 2.0)
    another, number = recipe_and_number(tmp_path, 3.0)
    assert number == 3.0
    assert another != one

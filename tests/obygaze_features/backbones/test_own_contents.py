"""What a model holds beside its state_dict is part of its recipe."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="backbones need the extract extra")

from obygaze_features.backbones import load_backbone  # noqa: E402
from obygaze_features.core.errors import FixInput  # noqa: E402

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
    "a number": ("self.factor = value", "module.factor"),
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


KINDS = """\
import collections, functools, logging, threading, types


class Slots:
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def times(self, pixels):
        return pixels * self.factor


def times(factor, pixels):
    return pixels * factor


"""
HIDDEN = {
    "[types.SimpleNamespace(of=Slots([torch.tensor(value)]))]": "SimpleNamespace",
    "types.SimpleNamespace(factor=torch.nn.Linear(1, 1))": "SimpleNamespace",
    "Slots(np.array(value))": "Slots",
    "collections.deque([np.array(value)])": "deque",
    "np.array([np.array(value), None])": "ndarray",
    "Scaled(np.array(value)).times": "method",
    "functools.partial(times, np.array(value))": "partial",
    "lambda pixels, factor=np.array(value): pixels * factor": "function",
    "(lambda factor: lambda pixels: pixels * factor)(np.array(value))": "function",
}


@pytest.mark.parametrize("held", HIDDEN)
def test_an_array_in_an_object_is_refused(held: str, tmp_path: Path) -> None:
    code = CODE.format(held=f"self.box = {held}", found="1.0", files="")
    (tmp_path / "mine.py").write_text(f"{KINDS}{code}", "utf-8")
    with pytest.raises(FixInput, match=f"is of the class {HIDDEN[held]} and holds"):
        recipe_and_number(tmp_path, 2.0)


@pytest.mark.parametrize(
    "held",
    [
        "types.SimpleNamespace(size=3, run=logging.getLogger(), f=run)",
        "threading.Lock()",
        "functools.partial(times, 2.0)",
        "Slots(self.weight)",
    ],
)
def test_an_object_without_arrays_of_its_own_is_not_refused(
    held: str, tmp_path: Path
) -> None:
    """A handler of all loggers, such as a notebook has, may lead to any array."""
    code = CODE.format(
        held=f"self.box = {held}; self.factor = value", found="module.factor", files=""
    )
    (tmp_path / "mine.py").write_text(f"{KINDS}{code}", "utf-8")
    handler = logging.NullHandler()
    handler.addFilter(Filter(np.ones(3)))
    logging.getLogger().addHandler(handler)
    try:
        one, number = recipe_and_number(tmp_path, 2.0)
        assert number == 2.0
        assert recipe_and_number(tmp_path, 2.0) == (one, 2.0)
    finally:
        logging.getLogger().removeHandler(handler)


class Filter(logging.Filter):
    """A filter that holds an array."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held


def test_two_functions_of_a_file_are_two_backbones(tmp_path: Path) -> None:
    """`mine.py:net` and `mine.py:other` filled one store."""
    held, found = HELD["a number"]
    code = CODE.format(held=held, found=found, files="")
    other = """

def other():
    def twice(module, pixels):
        return {"clip": 2 * run(module, pixels)["clip"]}

    options = {"arrays": {"clip": [1]}, "frames": 2, "size": 4, "licence": "MIT"}
    return module_card("net", Net, twice, **options)
"""
    (tmp_path / "mine.py").write_text(code + other, "utf-8")
    (tmp_path / "value.json").write_text("2.0")
    recipes = []
    for name in ("net", "other"):
        recipes.append(load_backbone(f"{tmp_path / 'mine.py'}:{name}").recipe())
    codes = [recipe["backbone"]["code"] for recipe in recipes]
    assert [code["function"] for code in codes] == ["net", "other"]
    assert recipes[0] != recipes[1]


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

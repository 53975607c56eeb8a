import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="backbones need the extract extra")

from obygaze_features.backbones import find_card, load_backbone  # noqa: E402
from obygaze_features.core.errors import FixInput, NotFound, ObygazeError  # noqa: E402
from obygaze_features.core.files import sha256_file  # noqa: E402

NET = """\
import json
from pathlib import Path

import numpy as np
import torch
from obygaze_features.backbones import module_card

HERE = Path(__file__).parent


class Net(torch.nn.Linear):
    def __init__(self):
        torch.manual_seed(0)
        super().__init__(1, 1)


def load():
    return Net()


def run(module, pixels):
    return {"clip": pixels.flatten(1)[:, :1]}


def net():
    arrays = {"clip": [1]}
    return module_card(
        "net", load, run, arrays=arrays, frames=2, size=4, licence="MIT"
    )
"""


def write(folder: Path, *changes: tuple[str, str], before: str = "") -> str:
    """Write mine.py with changes, each of which must fit, and return the name of its backbone."""
    text = NET
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "mine.py").write_text(before + text, "utf-8")
    return f"{folder / 'mine.py'}:net"


def recipe_and_number(name: str) -> tuple[dict[str, Any], float]:
    backbone = load_backbone(name)
    pixels = np.ones((1, 2, 3, 4, 4), np.float32)
    return backbone.recipe(), float(backbone.forward(pixels)["clip"][0, 0])


BOXED = "self.parts = [torch.nn.Linear(1, 1)]\n        "
BOXED += "torch.nn.init.constant_(self.parts[0].weight, value)"
IN_PART = "self.part = torch.nn.ReLU()\n        self.part.factor = np.array(value)"
UNSAVED = "self.register_buffer('factor', torch.tensor(value), persistent=False)"
IN_LIST = "self.factors = {'of': [0, torch.tensor(value)]}"
HELD = {
    "a buffer that is not saved": (UNSAVED, "module.factor"),
    "a number": ("self.factor = value", "module.factor"),
    "a tensor in a list of a dictionary": (IN_LIST, "module.factors['of'][1]"),
    "a module in a list": (BOXED, "module.parts[0].weight"),
    "an attribute of a part": (IN_PART, "module.part.factor"),
}


def holding(folder: Path, held: str, factor: str = "1.0", before: str = "") -> str:
    """Write a module that holds something, made of the number in value.json."""
    value = "value = json.loads((HERE / 'value.json').read_text())"
    made = f"super().__init__(1, 1)\n        {value}\n        {held}"
    return write(
        folder,
        ("super().__init__(1, 1)", made),
        ("pixels.flatten(1)[:, :1]", f"pixels.flatten(1)[:, :1] * float({factor})"),
        before=before,
    )


@pytest.mark.parametrize("held", HELD)
def test_two_models_have_two_recipes(held: str, tmp_path: Path) -> None:
    name = holding(tmp_path, *HELD[held])
    recipes = []
    for value in (2.0, 2.0, 3.0):
        (tmp_path / "value.json").write_text(json.dumps(value))
        recipe, number = recipe_and_number(name)
        assert number == value
        recipes.append(recipe)
    assert recipes[0] == recipes[1] != recipes[2]


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
    (tmp_path / "value.json").write_text("2.0")
    name = holding(tmp_path, f"self.box = {held}", before=KINDS)
    with pytest.raises(FixInput, match=f"is of the class {HIDDEN[held]} and holds"):
        load_backbone(name).recipe()


OBJECTS = ["types.SimpleNamespace(size=3, run=logging.getLogger(), f=run)"]
OBJECTS += ["threading.Lock()", "functools.partial(times, 2.0)", "Slots(self.weight)"]


@pytest.mark.parametrize("held", OBJECTS)
def test_an_object_without_arrays_of_its_own_is_not_refused(held, tmp_path):
    """A handler of all loggers, such as a notebook has, may lead to any array."""
    (tmp_path / "value.json").write_text("2.0")
    held = f"self.box = {held}; self.factor = value"
    name = holding(tmp_path, held, "module.factor", before=KINDS)
    handler = logging.NullHandler()
    handler.addFilter(Filter(np.ones(3)))
    logging.getLogger().addHandler(handler)
    try:
        recipe, number = recipe_and_number(name)
        assert number == 2.0
        assert recipe_and_number(name) == (recipe, 2.0)
    finally:
        logging.getLogger().removeHandler(handler)


class Filter(logging.Filter):
    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held


def test_two_functions_of_a_file_are_two_backbones(tmp_path: Path) -> None:
    name = write(tmp_path)
    text = (tmp_path / "mine.py").read_text("utf-8")
    twice = "def twice(module, pixels):\n    "
    twice += "return {'clip': 2 * run(module, pixels)['clip']}"
    other = text.partition("def net")[2].replace("load, run", "load, twice")
    both = f"{text}\n\n{twice}\n\n\ndef other{other}"
    (tmp_path / "mine.py").write_text(both, "utf-8")
    recipes = [load_backbone(one).recipe() for one in (name, name[:-3] + "other")]
    codes = [recipe["backbone"]["code"] for recipe in recipes]
    assert [code["function"] for code in codes] == ["net", "other"]
    files = {"mine.py": sha256_file(tmp_path / "mine.py")}
    assert [code["files"] for code in codes] == [files] * 2
    assert recipes[0] != recipes[1]


def test_model_files_that_are_no_tensors_are_hashed_into_the_recipe(tmp_path) -> None:
    changes = [
        ("return Net()", "return torch.nn.Identity()"),
        ("pixels.flatten(1)[:, :1]", "pixels.new_full((len(pixels), 1), value)"),
        ("return {", "value = float(np.load(HERE / 'model.npy'))\n    return {"),
    ]
    name = write(tmp_path, *changes)
    np.save(tmp_path / "model.npy", 1.0)
    with pytest.raises(FixInput, match="the module has no weights") as refused:
        load_backbone(name)
    assert "module_card(files=[" in str(refused.value)
    files = "files=[HERE / 'model.npy'], licence"
    write(tmp_path, *changes, ("licence", files))
    before, number = recipe_and_number(name)
    assert number == 1.0
    assert before["weights"]["model.npy"] == sha256_file(tmp_path / "model.npy")
    np.save(tmp_path / "model.npy", 2.0)
    after = load_backbone(name).recipe()
    assert after["backbone"] == before["backbone"]
    assert after["weights"] != before["weights"]
    (tmp_path / "model.npy").unlink()
    with pytest.raises(NotFound, match=r"files=.* is missing"):
        load_backbone(name)


def test_files_of_one_name_in_two_folders_have_their_folders(tmp_path: Path) -> None:
    for folder in ("a", "b", "c/b"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "net.onnx").write_text(folder)
    files = [str(tmp_path / folder / "net.onnx") for folder in ("a", "b", "c/b")]
    name = write(tmp_path, ("licence", f"files={files[:2]}, licence"))
    weights = load_backbone(name).recipe()["weights"]
    assert weights["net.onnx"] == sha256_file(Path(files[0]))
    assert weights["b/net.onnx"] == sha256_file(Path(files[1]))
    write(tmp_path, ("licence", f"files={files}, licence"))
    with pytest.raises(FixInput, match=r"two model files are called b/net\.onnx"):
        load_backbone(name)


def test_arrays_of_equal_lengths_have_dimensions_of_their_own(tmp_path: Path) -> None:
    shapes = '{"clip": [5], "grid": [2, 7, 7, 16], "cube": [7, 7, 7, 7, 7]}'
    arrays = find_card(write(tmp_path, ('{"clip": [1]}', shapes))).arrays
    assert arrays["grid"].dims == ("frame", "token_7", "token_7_2", "feature_16")
    for array in arrays.values():
        assert len(set(array.dims)) == len(array.shape)


@pytest.mark.parametrize("place", ["HERE", "def net():", "def run(module, pixels):"])
def test_a_file_that_no_statement_imports_is_refused(place, tmp_path) -> None:
    (tmp_path / "helper.py").write_text("K = 2\n")
    statement = "__import__('importlib').import_module('helper')"
    if place == "HERE":
        change = ("HERE =", f"{statement}\nHERE =")
    else:
        change = (place, f"{place}\n    {statement}")
    name = write(tmp_path, change)
    for _ in range(2):
        with pytest.raises(FixInput, match="No module named 'helper'"):
            recipe_and_number(name)


MADE = "super().__init__(1, 1)"
SPARSE = f"{MADE}\n        self.graph = torch.eye(3).to_sparse()"
STATE = f"{MADE}\n\n    def get_extra_state(self):\n        return {{'power': 2}}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (MADE, SPARSE, r"the tensor \['graph'\] .* has no hash"),
        (MADE, STATE, "_extra_state of the module is a dict"),
        ("return Net()", "return object()", "must return a torch.nn.Module.*got obj"),
        ("def net():", "def net(:", "cannot be imported: SyntaxError"),
        ("def net():", "def other():", r"mine\.py has no net"),
        ('"net", load', '"a:b", load', "name must have letters"),
        ('{"clip": [1]}', '{"start_s": [1]}', "cannot be the name of an array"),
        ("return Net()", "return 1 / 0", "failed in load..: ZeroDivisionError"),
        ('return {"clip"', 'return {"pooled"', "missing: clip"),
        ('{"clip": pixels.flatten(1)[:, :1]}', "pixels", "must return a mapping"),
        ('{"clip": [1]}', '{"clip": [6]}', r"expected the shape \[1, 6\]"),
        ("pixels.flatten(1)", "pixels.flatten(9)", "failed in run..: "),
    ],
)
def test_what_cannot_be_computed_or_hashed_is_named(tmp_path, old, new, message):
    name = write(tmp_path, (old, new))
    with pytest.raises(ObygazeError, match=message):
        recipe_and_number(name)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_program_of_torchscript_is_refused(tmp_path: Path) -> None:
    """Its state_dict has weights without the program that decides what they compute."""
    linear, relu = torch.nn.Linear(1, 1), torch.nn.ReLU()
    script = torch.jit.script(torch.nn.Sequential(linear, relu))
    script.save(str(tmp_path / "net.pt"))
    source = f"torch.nn.Sequential(torch.jit.load({str(tmp_path / 'net.pt')!r}))"
    name = write(tmp_path, ("return Net()", f"return {source}"))
    with pytest.raises(FixInput, match="must return a module of Python"):
        load_backbone(name)

"""Own code is one file, of which recipes have the hash, and that of its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="backbones need the extract extra")

from obygaze_features.backbones import load_backbone  # noqa: E402
from obygaze_features.core.errors import FixInput, NotFound  # noqa: E402
from obygaze_features.core.files import sha256_file  # noqa: E402

CARD = """\
import torch
from obygaze_features.backbones import module_card


def load():
    return torch.nn.Linear(1, 1)


def net():
    options = {"arrays": {"clip": [1]}, "frames": 2, "size": 4, "licence": "MIT"}
    return module_card("net", load, run, **options)
"""
RUN = "def run(module, pixels):\n    return {'clip': pixels.new_full((len(pixels), 1), %s)}\n"


def write(folder: Path, **files: str) -> Path:
    """Write files of Python, `a__b` as a/b.py, and return the path of mine.py."""
    for name, text in files.items():
        path = folder.joinpath(*name.split("___")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder / "mine.py"


def value_of(path: Path | str) -> float:
    """The one number that the array `clip` of a backbone has."""
    backbone = load_backbone(f"{path}:net")
    return float(backbone.forward(np.zeros((1, 2, 3, 4, 4), np.float32))["clip"][0, 0])


def code_of(path: Path | str) -> dict[str, Any]:
    """The `code` of the recipe of a loaded backbone."""
    code: dict[str, Any] = load_backbone(f"{path}:net").recipe()["backbone"]["code"]
    return code


@pytest.mark.parametrize(
    "statement",
    ["import kit", "import kit.near", "from kit import V", "from . import kit"],
)
def test_each_form_of_an_import_of_another_own_file_is_refused(
    statement: str, tmp_path: Path
) -> None:
    late = RUN.replace("    return", f"    {statement}\n    return") % "1.0"
    for text in (f"{statement}\n{RUN % '1.0'}", late):
        path = write(tmp_path, mine=text + CARD, kit="V = 1.0\n")
        with pytest.raises(FixInput, match="own code is one file, and this one imp"):
            value_of(path)
    write(tmp_path, mine=RUN % "1.0" + CARD)
    assert value_of(path) == 1.0
    assert code_of(path)["files"] == {"mine.py": sha256_file(path)}


@pytest.mark.parametrize(
    "place", ["import torch", "def net():", "def run(module, pixels):"]
)
def test_a_helper_that_no_statement_imports_is_refused(
    place: str, tmp_path: Path
) -> None:
    statement = "__import__('importlib').import_module('helper')"
    indent = "    " if place.startswith("def") else ""
    text = (RUN % "1.0" + CARD).replace(place, f"{place}\n{indent}{statement}")
    path = write(tmp_path, mine=text, helper="K = 2\n")
    for _ in range(2):
        with pytest.raises(FixInput, match="No module named 'helper'"):
            value_of(path)


MODEL_FILE = """\
import pathlib
import numpy
HERE = pathlib.Path(__file__).parent / "model.npy"


def run(module, pixels):
    value = float(numpy.load(HERE))
    return {"clip": pixels.new_full((len(pixels), 1), value)}
"""


def test_model_files_that_are_no_tensors_are_hashed_into_the_recipe(
    tmp_path: Path,
) -> None:
    text = MODEL_FILE + CARD.replace("torch.nn.Linear(1, 1)", "torch.nn.Identity()")
    path = write(tmp_path, mine=text)
    np.save(tmp_path / "model.npy", 1.0)
    with pytest.raises(FixInput, match="the module has no weights") as refused:
        load_backbone(f"{path}:net")
    assert "module_card(files=[" in str(refused.value)
    write(tmp_path, mine=text.replace("**options", "files=[HERE], **options"))
    assert value_of(path) == 1.0
    before = load_backbone(f"{path}:net").recipe()
    assert before["weights"]["model.npy"] == sha256_file(tmp_path / "model.npy")
    np.save(tmp_path / "model.npy", 2.0)
    after = load_backbone(f"{path}:net").recipe()
    assert after["backbone"] == before["backbone"]
    assert after["weights"] != before["weights"]
    (tmp_path / "model.npy").unlink()
    with pytest.raises(NotFound, match="no model file"):
        load_backbone(f"{path}:net")


def test_files_of_one_name_in_two_folders_have_their_folders(tmp_path: Path) -> None:
    for folder in ("a", "b", "c/b"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "net.onnx").write_text(folder)
    files = [str(tmp_path / folder / "net.onnx") for folder in ("a", "b", "c/b")]
    text = RUN % "1.0" + CARD.replace("**options", "files=FILES, **options")
    path = write(tmp_path, mine=f"FILES = {files[:2]}\n{text}")
    weights = load_backbone(f"{path}:net").recipe()["weights"]
    assert weights["net.onnx"] == sha256_file(Path(files[0]))
    assert weights["b/net.onnx"] == sha256_file(Path(files[1]))
    write(tmp_path, mine=f"FILES = {files}\n{text}")
    with pytest.raises(FixInput, match=r"two model files are called b/net\.onnx"):
        load_backbone(f"{path}:net")


def test_what_no_tensor_holds_is_refused(tmp_path: Path) -> None:
    extra = "def get_extra_state(self):\n        return {'power': 2}"
    net = f"class Net(torch.nn.Linear):\n    {extra}\n\n"
    text = RUN % "1.0" + CARD.replace("torch.nn.Linear(1, 1)", "Net(1, 1)")
    path = write(tmp_path, mine=text.replace("def load", f"{net}def load"))
    with pytest.raises(FixInput, match="_extra_state of the module is a dict"):
        load_backbone(f"{path}:net")


def tensors_of(folder: Path, load: str, **names: object) -> str:
    """The hash of what the module of `load` holds; `names` are those of its file."""
    text = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    path = write(folder, mine=text + RUN % "1.0" + CARD.partition("def load")[0] + load)
    card = CARD.partition("\n\ndef net")
    path.write_text(path.read_text("utf-8") + card[1] + card[2], "utf-8")
    return str(load_backbone(f"{path}:net").recipe()["weights"]["tensors"])


def test_a_tensor_without_a_hash_is_named(tmp_path: Path) -> None:
    load = """\
def load():
    net = torch.nn.Linear(1, 1)
    net.graph = torch.eye(3).to_sparse()
    return net
"""
    with pytest.raises(FixInput, match=r"the tensor \['graph'\] .* has no hash"):
        tensors_of(tmp_path, load)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_program_of_torchscript_is_refused(tmp_path: Path) -> None:
    """Its state_dict has weights without the program that decides what they compute."""
    script = torch.jit.script(
        torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU())
    )
    script.save(str(tmp_path / "net.pt"))
    source = f"torch.nn.Sequential(torch.jit.load({str(tmp_path / 'net.pt')!r}))"
    text = RUN % "1.0" + CARD.replace("torch.nn.Linear(1, 1)", source)
    with pytest.raises(FixInput, match="must return a module of Python"):
        load_backbone(f"{write(tmp_path, mine=text)}:net")


def test_what_is_no_torch_module_is_refused_by_name(tmp_path: Path) -> None:
    text = RUN % "1.0" + CARD.replace("torch.nn.Linear(1, 1)", "object()")
    with pytest.raises(
        FixInput, match=r"load\(\) must return a torch.nn.Module.*got object"
    ):
        load_backbone(f"{write(tmp_path, mine=text)}:net")

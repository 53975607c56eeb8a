import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.checkpoints import FORMS, TINY, save_lsmdc, save_tiny, tiny_card

torch = pytest.importorskip("torch", reason="backbones need the extract extra")
pytest.importorskip("transformers", reason="backbones need the extract extra")

from safetensors.torch import load_file, save_file  # noqa: E402

from obygaze_features.backbones.actions import load_backbone  # noqa: E402
from obygaze_features.backbones.cards import find_card  # noqa: E402
from obygaze_features.backbones.devices import check_device  # noqa: E402
from obygaze_features.backbones.weights import find_weights  # noqa: E402
from obygaze_features.core.errors import (  # noqa: E402
    Corrupt,
    FixInput,
    FixUsage,
    NotFound,
    ObygazeError,
)

torch.set_num_threads(1)


def change(folder: Path, form: str, edit: Callable[[dict[str, Any]], None]) -> None:
    if form == "bin":
        tensors = torch.load(folder / "pytorch_model.bin", weights_only=True)
        edit(tensors)
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        tensors = load_file(folder / "model.safetensors")
        tensors = {key: value.clone() for key, value in tensors.items()}
        edit(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    card = tiny_card("dinov2")
    check_device(card, "cuda")
    check_device(card, "cuda:0")
    with pytest.raises(FixUsage, match="no CUDA device 'cuda:1'"):
        check_device(card, "cuda:1")


@pytest.mark.parametrize("device", ["", "CPU", "cuda:x", "cuda:0,cuda:1"])
def test_a_text_that_names_no_device_is_refused(device: str) -> None:
    """Also for numbers that no device but the CPU computes."""
    for card in (tiny_card("dinov2"), find_card("descriptors")):
        with pytest.raises(FixUsage, match="unknown device") as caught:
            check_device(card, device)
        assert caught.value.hint == "use cpu, cuda, or cuda:1"


@pytest.mark.parametrize("family", ["clip", "vjepa2"])
def test_a_missing_tensor_is_fatal(family: str, tmp_path: Path) -> None:
    save_tiny(family, tmp_path)
    key = TINY[family].needed

    def edit(tensors: dict[str, Any]) -> None:
        del tensors[next(name for name in tensors if name.endswith(key))]

    change(tmp_path, "safetensors", edit)
    with pytest.raises(FixInput, match="1 tensor of the model missing") as caught:
        load_backbone(tiny_card(family), tmp_path)
    assert any(key.split(".")[-1] in line for line in caught.value.details)


@pytest.mark.parametrize("family", ["dinov2", "vjepa2"])
def test_tensors_nobody_knows_are_fatal(family: str, tmp_path: Path) -> None:
    """A third layer where the configuration says two is another model."""
    save_tiny(family, tmp_path)

    def edit(tensors: dict[str, Any]) -> None:
        for name in [n for n in tensors if ".1." in n and "predictor" not in n]:
            tensors[name.replace(".1.", ".2.", 1)] = tensors[name].clone()

    change(tmp_path, "safetensors", edit)
    with pytest.raises(FixInput, match="of the file that the model does not have"):
        load_backbone(tiny_card(family), tmp_path)


def test_an_lsmdc_file_is_no_hub_checkpoint_and_the_other_way_round(tmp_path) -> None:
    save_lsmdc(tmp_path / "lsmdc")
    with pytest.raises(NotFound, match=r"no config\.json"):
        load_backbone(tiny_card("xclip"), tmp_path / "lsmdc")
    save_tiny("xclip", tmp_path / "hub")
    with pytest.raises(FixInput, match="not an LSMDC X-CLIP"):
        load_backbone("xclip-lsmdc-b32", tmp_path / "hub")


@pytest.mark.parametrize("form", FORMS)
def test_a_flipped_bit_is_another_recipe(form: str, tmp_path: Path) -> None:
    save_tiny("xclip", tmp_path, form)
    before = load_backbone(tiny_card("xclip"), tmp_path).recipe()

    def edit(tensors: dict[str, Any]) -> None:
        name = "visual_projection.weight"
        raw = tensors[name].view(torch.int32)
        raw[0, 0] ^= 1

    change(tmp_path, form, edit)
    after = load_backbone(tiny_card("xclip"), tmp_path).recipe()
    assert before["weights"] != after["weights"]
    assert before["weights"]["tensors"] != after["weights"]["tensors"]
    assert {**before, "weights": 0} == {**after, "weights": 0}


def test_a_named_file_is_the_one_that_is_read(tmp_path: Path) -> None:
    save_tiny("dinov2", tmp_path / "other", "bin", seed=1)
    save_tiny("dinov2", tmp_path / "both", "safetensors", seed=0)
    moved = tmp_path / "both" / "pytorch_model.bin"
    shutil.copy(tmp_path / "other" / "pytorch_model.bin", moved)
    odd = tmp_path / "both" / "epoch-3.bin"
    shutil.copy(moved, odd)
    card = tiny_card("dinov2")
    chosen = load_backbone(card, tmp_path / "both").recipe()["weights"]
    assert "model.safetensors" in chosen
    for path in (moved, odd):
        named = load_backbone(card, path).recipe()["weights"]
        assert path.name in named
        other = load_backbone(card, tmp_path / "other").recipe()["weights"]
        assert named["tensors"] == other["tensors"] != chosen["tensors"]


def test_weights_may_be_named_as_those_of_several_backbones_are(tmp_path: Path) -> None:
    save_tiny("clip", tmp_path / "weights")
    card = tiny_card("clip")
    for name in (card.name, tmp_path / f"{card.name}.toml"):
        files = find_weights(card, f"{name}={tmp_path / 'weights'}")
        assert files.folder == tmp_path / "weights"
    with pytest.raises(ObygazeError, match="no weights for"):
        find_weights(card, f"other={tmp_path / 'weights'}")
    # A folder whose name has this form is meant itself.
    folder = tmp_path / f"{card.name}=weights"
    (tmp_path / "weights").rename(folder)
    assert find_weights(card, folder).folder == folder


def test_weights_in_several_files_are_refused(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"model-0000{number}-of-00002.safetensors").touch()
    (tmp_path / "model.safetensors.index.json").touch()
    with pytest.raises(FixInput, match="got an index of several files") as caught:
        load_backbone(tiny_card("dinov2"), tmp_path)
    # One file of them is no checkpoint.
    assert "--weights" not in caught.value.hint


def test_folders_without_weights(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="contains no weights"):
        load_backbone("clip-b16", tmp_path)
    with pytest.raises(NotFound, match="no weights for clip-b16"):
        load_backbone("clip-b16", tmp_path / "nowhere")
    with pytest.raises(NotFound, match="no weights for xclip-lsmdc-b32"):
        load_backbone("xclip-lsmdc-b32")
    (tmp_path / "model.safetensors").write_bytes(b"x")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(Corrupt, match="not valid JSON"):
        load_backbone("clip-b16", tmp_path)


@pytest.mark.parametrize(
    ("family", "edit"),
    [
        ("timesformer", {"attention_type": "space_only"}),
        ("dinov2", {"hidden_size": "many"}),
        ("siglip", {}),
    ],
)
def test_configurations_that_do_not_fit(family, edit, tmp_path) -> None:
    save_tiny(family, tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    if family == "siglip":
        config["vision_config"]["vision_use_head"] = False
    path.write_text(json.dumps({**config, **edit}))
    with pytest.raises(ObygazeError):
        load_backbone(tiny_card(family), tmp_path)


def test_a_size_the_patches_do_not_fit(tmp_path: Path) -> None:
    save_tiny("dinov2", tmp_path)
    card = tiny_card("dinov2")
    with pytest.raises(FixInput, match="cannot be cut"):
        load_backbone(replace(card, geometry=replace(card.geometry, size=30)), tmp_path)


def test_an_old_file_with_position_ids_loads(tmp_path: Path) -> None:
    save_tiny("clip", tmp_path / "new")
    shutil.copytree(tmp_path / "new", tmp_path / "old")
    ids = {"vision_model.embeddings.position_ids": torch.arange(5)[None]}
    change(tmp_path / "old", "safetensors", lambda tensors: tensors.update(ids))
    x = torch.randn(1, 3, 3, 32, 32)
    new, old = (
        load_backbone(tiny_card("clip"), tmp_path / name) for name in ("new", "old")
    )
    assert torch.equal(new.forward(x)["tokens"], old.forward(x)["tokens"])

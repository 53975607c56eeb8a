import hashlib
import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints import TINY, save_tiny, write_tiny_card
from support.cli import call_obygaze
from support.sound_checkpoints import save_tiny_sound

torch = pytest.importorskip("torch", reason="backbones need the extract extra")
pytest.importorskip("transformers", reason="backbones need the extract extra")

from obygaze_features.backbones.families import FAMILIES, PRETRAINED  # noqa: E402

torch.set_num_threads(1)


def states(report: dict[str, Any]) -> dict[str, str]:
    return {line["name"]: line["state"] for line in report["checks"]}


def tiny(family: str, folder: Path, checkpoint: str = "") -> tuple[Path, str, Path]:
    """The words that name a tiny checkpoint and its own card."""
    save_tiny(family, folder)
    return write_tiny_card(family, folder / "cards", checkpoint), "--weights", folder


def check(*words: Any, code: int = 0) -> Any:
    result = call_obygaze("backbones", "check", *words, "--json")
    assert result.code == code, result.stderr
    return result.json()


def test_mixed_clips_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = tiny("xclip", tmp_path)
    family = PRETRAINED["xclip"]

    def mixing(*inputs: Any) -> Any:
        outputs = family.run(*inputs)
        return {**outputs, "mit-mean": outputs["mit-mean"].flip(0)}

    import dataclasses

    monkeypatch.setitem(FAMILIES, "xclip", dataclasses.replace(family, run=mixing))
    report = check(*words, code=4)
    found = states(report)
    assert found["clip isolation"] == "failed"
    assert found["batch invariance"] == "failed"
    assert found["shapes"] == "ok"


@pytest.mark.parametrize(
    ("preset", "other"),
    [
        ("", ["rescale_factor", "offset"]),
        ("@hub", []),
        # The frames of the paper are squashed first, which no processor does.
        ("@paper-2024", ["squash_first"]),
    ],
)
def test_pixels_of_another_preset_than_the_processors_are_noted(
    preset: str, other: list[str], tmp_path: Path
) -> None:
    """The processor of ViViT on the hub makes -3..1, and the default preset -1..1."""
    from transformers import VivitImageProcessor

    from obygaze_features.backbones.actions import load_backbone
    from obygaze_features.backbones.cards import find_card

    card, *weights = tiny("vivit", tmp_path)
    name = f"{card}{preset}"
    found = states(check(name, *weights))
    assert found["input"] == "skipped"
    square = {"height": 32, "width": 32}
    own = VivitImageProcessor(size={"shortest_edge": 32}, crop_size=square)
    own.save_pretrained(tmp_path)
    (line,) = [
        line for line in check(name, *weights)["checks"] if line["name"] == "input"
    ]
    differences = line["detail"].partition("processor: ")[2].split("; ")
    assert [one.partition(" ")[0] for one in filter(None, differences)] == other
    assert line["state"] == ("skipped" if other else "ok")
    # The line is right about the pixels that the preset makes.
    pictures = np.random.default_rng(0).integers(0, 256, (6, 48, 64, 3), dtype=np.uint8)
    theirs = np.asarray(own(list(pictures), return_tensors="np")["pixel_values"])[0]
    backbone = load_backbone(find_card(name), tmp_path)
    ours = backbone.preprocess(pictures).numpy()
    apart = float(np.abs(ours - theirs).max())
    assert apart > 0.5 if other else apart < 1e-5


OWN = """
import torch
from obygaze_features.backbones import module_card


def run(module, pixels):
    wrong = 0.0 if len(pixels) > 1 else float("nan")
    return {"clip": pixels.mean((1, 3, 4)) * module.weight + wrong}


def card():
    arrays = {"clip": [3]}
    return module_card(
        "own", lambda: torch.nn.LayerNorm(3), run, arrays=arrays, frames=2, size=8, licence="MIT"
    )
"""


def test_a_clip_that_has_no_numbers_alone_is_found(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    report = check(f"{tmp_path / 'own.py'}:card", code=4)
    assert report["ok"] is False
    failed = [name for name, state in states(report).items() if state == "failed"]
    assert failed == ["batch invariance"]


def test_a_configuration_that_was_changed_in_the_cache_is_found(tmp_path) -> None:
    """The hub's cache names a small file by the hash that git gives to it."""
    name = "openai/clip-vit-base-patch16"
    card, _, folder = tiny("clip", tmp_path / "files", name)
    repository = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    weights = folder / "model.safetensors"
    large = repository / hashlib.sha256(weights.read_bytes()).hexdigest()
    shutil.copy(weights, large)
    (snapshot / weights.name).symlink_to(large)
    data = (folder / "config.json").read_bytes()
    # What `git hash-object` prints.
    blob = repository / hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    shutil.copy(folder / "config.json", blob)
    (snapshot / "config.json").symlink_to(blob)
    environment = {"HF_HUB_CACHE": str(tmp_path / "hub")}

    def run() -> tuple[int, dict[str, str]]:
        result = call_obygaze("backbones", "check", card, "--json", env=environment)
        return result.code, states(result.json())

    code, found = run()
    assert (code, found["configuration"], found["checkpoint"]) == (0, "ok", "ok")
    config = json.loads(blob.read_text("utf-8"))
    config["vision_config"]["hidden_act"] = "gelu"
    blob.write_text(json.dumps(config), "utf-8")
    code, found = run()
    assert (code, found["complete"]) == (4, "failed")


def test_padding_is_blanked() -> None:
    from obygaze_features.backbones.backbone import blank_padding

    pixels = np.ones((2, 3, 3, 4, 4), np.float32)
    mask = np.array([[True, True, True], [True, False, False]])
    blank = blank_padding(pixels, mask)
    assert blank.sum(axis=(2, 3, 4)).tolist() == [[48, 48, 48], [48, 0, 0]]
    for dtype in (torch.float32, torch.bfloat16):
        got = blank_padding(torch.from_numpy(pixels).to(dtype), mask)
        assert got.dtype == dtype
        assert np.array_equal(got.float().numpy(), blank)
    assert np.array_equal(blank_padding(pixels[0], mask[1]), blank[1])


@pytest.mark.parametrize("family", ["clip", "vivit", "wav2vec2"])
def test_a_folder_of_other_sizes_gets_a_card_to_save(family, tmp_path: Path) -> None:
    """The card is saved as it is printed, and then found by the folder."""
    folder = tmp_path / f"my {family}"
    if family == "wav2vec2":
        save_tiny_sound(family, folder)
    else:
        save_tiny(family, folder)
    found = call_obygaze("backbones", "check", folder, cwd=tmp_path).ok()
    text = found.stdout[found.stdout.index("schema = ") :]
    assert f"save the card above as backbones/my_{family}.toml" in found.stderr
    card = tomllib.loads(text)
    if family != "wav2vec2":
        tiny_facts = TINY[family]
        assert (card["frames"], card["size"]) in [
            (tiny_facts.frames, tiny_facts.size),
            # The card of CLIP states the number of frames, and its checkpoint any.
            (16, tiny_facts.size),
        ]
        assert card["tokens"]["grid"][1:] == [*tiny_facts.grid[1:]]
        assert card["tokens"]["out"] == tiny_facts.out
        depth = {"layers": 2, "hidden": tiny_facts.hidden, "heads": 2}
        assert card["depth"] == depth
    path = tmp_path / "backbones" / f"my_{family}.toml"
    path.parent.mkdir()
    path.write_text(text, "utf-8")
    named = ("backbones", "check", f"my_{family}", "--weights", folder)
    call_obygaze(*named, cwd=tmp_path).ok()
    again = call_obygaze("backbones", "check", folder, "--json", cwd=tmp_path).ok()
    assert (again.json()["backbone"], again.json()["card"]) == (f"my_{family}", "")


def test_a_folder_of_an_unknown_type_is_refused(tmp_path: Path) -> None:
    save_tiny("clip", tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text("utf-8")) | {"model_type": "resnet"}
    path.write_text(json.dumps(config), "utf-8")
    refused = call_obygaze("backbones", "check", tmp_path)
    assert refused.code == 1
    assert "no backbone has checkpoints of the model type 'resnet'" in refused.stderr
    assert "clip" in refused.stderr.splitlines()[-1]

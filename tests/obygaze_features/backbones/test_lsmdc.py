from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stories.lsmdc_by_hand import features
from support.checkpoints import lsmdc_card, lsmdc_tensors, save_lsmdc
from support.data import golden

torch = pytest.importorskip("torch", reason="backbones need the extract extra")
pytest.importorskip("transformers", reason="backbones need the extract extra")

from obygaze_features.backbones.actions import load_backbone  # noqa: E402
from obygaze_features.core.errors import Corrupt, FixInput  # noqa: E402

torch.set_num_threads(1)

SMALL = {"width": 128, "out": 64, "patch": 8, "grid": 3, "frames": 5}


def inputs(n_clips: int, frames: int, size: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(n_clips, frames, 3, size, size, generator=generator)
    mask = torch.ones(n_clips, frames, dtype=torch.int64)
    for i in range(1, n_clips):
        mask[i, max(1, frames - 2 * i) :] = 0
    return x * mask[..., None, None, None], mask


TWO_HEADS = {"width": 192, "out": 128, "patch": 4, "grid": 2, "frames": 3}
TWO_HEADS |= {"layers": 3, "positions": 3}
SIZES = {
    **{"mixed-over-time": SMALL, "mean": {**SMALL, "temporal_layers": 0}},
    "two-heads": TWO_HEADS,
}


@pytest.mark.parametrize("name", SIZES)
def test_any_size_is_what_its_authors_describe(tmp_path: Path, name: str) -> None:
    sizes = SIZES[name]
    tensors = lsmdc_tensors(**sizes)
    as_released = tmp_path / "pytorch_model.bin.0"
    torch.save(tensors, as_released)
    with_prefix = tmp_path / "pytorch_model.bin.1"
    torch.save({f"module.{key}": tensors[key] for key in tensors}, with_prefix)
    x, mask = inputs(3, sizes["frames"], sizes["patch"] * sizes["grid"])
    expected = features(as_released, x.numpy(), mask.numpy())
    ours = load_backbone(lsmdc_card(**sizes), with_prefix).forward(x, mask)
    for name, values in expected.items():
        # A wrong mapping moves these by 1e-3 and more; 5e-6 is what the original differs by.
        scale = max(1.0, float(np.abs(values).max()))
        assert np.abs(ours[name].numpy() - values).max() <= 5e-6 * scale, name
    assert torch.equal(ours["clip"], ours["video"])
    assert torch.equal(ours["pooled"], ours["tokens"].flatten(1, 2).amax(dim=1))
    for row, is_real in enumerate(mask.bool()):
        tokens = ours["tokens"][row][is_real].flatten(0, 1)
        assert torch.equal(ours["pooled_masked"][row], tokens.amax(dim=0))


def test_the_epsilon_over_time_is_its_own(tmp_path: Path) -> None:
    """Faint frame vectors, whose variance is no larger than the visual tower's epsilon."""
    tensors = lsmdc_tensors(**SMALL)
    for key in ("clip.visual.proj", "frame_position_embeddings.weight"):
        tensors[key] = tensors[key] * 0.002
    file = tmp_path / "pytorch_model.bin.0"
    torch.save(tensors, file)
    x, mask = inputs(2, 5, 24)
    expected = features(file, x.numpy(), mask.numpy())["video"]
    ours = load_backbone(lsmdc_card(**SMALL), file).forward(x, mask)["video"]
    assert np.abs(ours.numpy() - expected).max() <= 5e-6 * np.abs(expected).max()


def test_the_originals_own_numbers() -> None:
    folder = golden("lsmdc")
    with np.load(folder / "reference.npz") as z:
        expected = {name: z[name] for name in z.files}
    sizes = {"width": 128, "out": 64, "layers": 3, "patch": 16, "grid": 4, "frames": 12}
    backbone = load_backbone(lsmdc_card(**sizes), folder)
    ours = backbone.forward(expected["pixels"], expected["mask"])
    pairs = {"tokens": "hidden", "frames_768": "cls768", "frames": "visual_output"}
    pairs |= {"frames_norm": "frames_norm", "video": "video", "clip": "video"}
    for name, key in pairs.items():
        assert np.abs(ours[name].numpy() - expected[key]).max() <= 5e-6, name


def test_a_masked_frame_changes_nothing_but_its_own_tokens(tmp_path: Path) -> None:
    save_lsmdc(tmp_path, **SMALL)
    backbone = load_backbone(lsmdc_card(**SMALL), tmp_path)
    x, mask = inputs(2, 5, 24)
    y = x.clone()
    y[1, -1] += 3.0
    assert mask[1, -1] == 0
    one, two = backbone.forward(x, mask), backbone.forward(y, mask)
    for name in ("clip", "video", "pooled_masked"):
        assert torch.equal(one[name], two[name]), name
    assert not torch.equal(one["tokens"][1, -1], two["tokens"][1, -1])
    assert not torch.equal(one["pooled"], two["pooled"])


@pytest.mark.parametrize(
    "mask", [np.zeros((1, 5)), np.full((1, 5), 0.5), np.ones((1, 4)), np.ones((2, 5))]
)
def test_masks_that_mean_nothing_are_refused(tmp_path: Path, mask: Any) -> None:
    save_lsmdc(tmp_path, **SMALL)
    backbone = load_backbone(lsmdc_card(**SMALL), tmp_path)
    with pytest.raises(FixInput, match="mask must be"):
        backbone.forward(torch.zeros(1, 5, 3, 24, 24), mask)


VISUAL = "clip.visual."
EXTRA = {f"{VISUAL}transformer.resblocks.0.extra.weight": torch.zeros(2)}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"lstm_visual.weight_ih_l0": torch.zeros(4, 4)}, "unsupported architecture"),
        ({f"{VISUAL}proj": None}, "not an LSMDC X-CLIP"),
        (EXTRA, "1 tensor of the file that the model does not have"),
        ({f"{VISUAL}positional_embedding": torch.zeros(11, 128)}, "wrong shape"),
    ],
)
def test_other_checkpoints_are_refused(tmp_path, changes, told) -> None:
    tensors = {**lsmdc_tensors(**SMALL), **changes}
    kept = {name: one for name, one in tensors.items() if one is not None}
    torch.save(kept, tmp_path / "pytorch_model.bin.0")
    with pytest.raises(FixInput, match=told):
        load_backbone(lsmdc_card(**SMALL), tmp_path)


def test_frames_are_the_cards_where_no_tensor_tells(tmp_path: Path) -> None:
    tensors = lsmdc_tensors(**{**SMALL, "frames": 12, "positions": 77})
    told = ("frame_logit", "frame_mat")
    kept = {key: one for key, one in tensors.items() if not key.startswith(told)}
    torch.save(kept, tmp_path / "pytorch_model.bin")
    card = lsmdc_card(**{**SMALL, "frames": 12})
    assert load_backbone(card, tmp_path).geometry.frames == 12


def test_a_checkpoint_cut_at_any_byte_is_refused(tmp_path: Path) -> None:
    path = save_lsmdc(tmp_path, **SMALL)
    whole = path.read_bytes()
    # Readers give up in other ways near the beginning, below 64 kB, and near the end.
    lengths = [*range(0, 40, 7), *range(1000, 65_000, 16_001), len(whole) // 2]
    for keep in (*lengths, *range(len(whole) - 30, len(whole), 7)):
        path.write_bytes(whole[:keep])
        with pytest.raises(Corrupt, match="cannot be read as weights"):
            load_backbone(lsmdc_card(**SMALL), path)


def test_several_epochs_in_a_folder_must_be_chosen_between(tmp_path: Path) -> None:
    save_lsmdc(tmp_path, "pytorch_model.bin.1", **SMALL)
    save_lsmdc(tmp_path, "pytorch_model.bin.2", **SMALL)
    with pytest.raises(FixInput, match="expected one checkpoint"):
        load_backbone(lsmdc_card(**SMALL), tmp_path)
    assert load_backbone(lsmdc_card(**SMALL), tmp_path / "pytorch_model.bin.2")


def test_code_in_a_checkpoint_never_runs(tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (marker,))

    torch.save({"clip.visual.proj": Trap()}, tmp_path / "pytorch_model.bin.0")
    with pytest.raises(Corrupt):
        load_backbone(lsmdc_card(**SMALL), tmp_path)
    assert not marker.exists()

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from support.checkpoints import save_tiny, tiny_card

torch = pytest.importorskip("torch", reason="preprocessing needs the extract extra")

from obygaze_features.backbones.actions import load_backbone  # noqa: E402
from obygaze_features.backbones.backbone import Preprocessor  # noqa: E402
from obygaze_features.backbones.card import Preset  # noqa: E402
from obygaze_features.backbones.cards import find_card  # noqa: E402
from obygaze_features.backbones.geometry import Geometry  # noqa: E402
from obygaze_features.core.errors import FixInput  # noqa: E402

torch.set_num_threads(1)


def frames(height: int, width: int, n: int = 2, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, height, width, 3), dtype=np.uint8)


def preprocessor(preset: Preset, size: int) -> Preprocessor:
    return Preprocessor(preset, preset.resize_to(Geometry(1, size)))


def test_the_crop_is_floored_or_rounded() -> None:
    # 4 x 9 to shortest edge 4 leaves 5 columns: an offset of 2 floored, of 2 rounded (half to
    # even); 4 x 11 leaves 7: 3 floored, 4 rounded.
    columns = np.arange(11, dtype=np.uint8)[None, None, :, None]
    x = np.broadcast_to(columns, (1, 4, 11, 3)).copy()
    plain = Preset(mean=(0, 0, 0), std=(1, 1, 1))
    for width, floored, rounded in ((9, 2, 2), (11, 3, 4)):
        for offset, first in (("floor", floored), ("round", rounded)):
            pixels = preprocessor(structs.replace(plain, crop_offset=offset), 4)
            got = pixels(torch.from_numpy(x[:, :, :width])) * 255
            assert got.shape == (1, 3, 4, 4)
            assert torch.allclose(got[0, 0, 0], torch.arange(first, first + 4.0))


def processor(module: str, name: str, **settings: Any) -> Any:
    """A processor in its Pillow form, by whichever name this release has."""
    root = f"transformers.models.{module}.image_processing"
    for path, attribute in (
        (f"{root}_pil_{module}", f"{name}Pil"),
        (f"{root}_{module}", name),
    ):
        try:
            found = importlib.import_module(path)
        except ImportError:
            continue
        if hasattr(found, attribute):
            return getattr(found, attribute)(**settings)
    pytest.skip(f"{name} cannot be imported here")


IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
HALVES = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
OF_TIMESFORMER = {"image_mean": [0.45] * 3, "image_std": [0.225] * 3}
SIZES = {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}
PROCESSORS = {
    "xclip-b32-k400": ("videomae", "VideoMAEImageProcessor", IMAGENET),
    "videomae-b": ("videomae", "VideoMAEImageProcessor", IMAGENET),
    "timesformer-b-k400": ("videomae", "VideoMAEImageProcessor", OF_TIMESFORMER),
    "clip-b16": ("clip", "CLIPImageProcessor", {}),
    "siglip2-b16": ("siglip", "SiglipImageProcessor", {**HALVES, "resample": 2}),
    "dinov2-b": ("bit", "BitImageProcessor", {**SIZES, **IMAGENET, "resample": 3}),
    "vivit-b16x2-k400@hub": ("vivit", "VivitImageProcessor", HALVES),
}


@pytest.mark.parametrize("name", sorted(PROCESSORS))
@pytest.mark.parametrize(("height", "width"), [(270, 480), (100, 90)])
def test_pixels_are_the_processors_own_bits(name: str, height: int, width: int) -> None:
    pytest.importorskip("transformers", reason="the processors are in transformers")
    module, kind, settings = PROCESSORS[name]
    x = frames(height, width)
    made = processor(module, kind, **settings)(list(x), return_tensors="np")
    theirs = np.asarray(made["pixel_values"]).reshape(2, 3, 224, 224)
    mine = preprocessor(find_card(name).input, 224)(torch.from_numpy(x)).numpy()
    assert mine.dtype == np.float32
    if height <= width:
        assert np.array_equal(mine, theirs)
    # Newer Pillows shrink tall pictures down first: a level here and there, see test_resize.
    std = np.array(find_card(name).input.std)[:, None, None]
    level = 1.001 / (127.5 if "hub" in name else 255)
    assert (np.abs(mine - theirs) * std).max() <= level


def test_paper_2024_is_the_released_extractor_to_the_bit(tmp_path: Path) -> None:
    """Squash by OpenCV, the processor, the whole model: with eager attention the same bits."""
    cv2 = pytest.importorskip("cv2", reason="opencv is not installed")
    modeling = pytest.importorskip("transformers.models.x_clip.modeling_x_clip")
    save_tiny("xclip", tmp_path)
    x = frames(180, 320, 4)
    small = [cv2.resize(frame, (32, 32)) for frame in x]
    sizes = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    run = processor("videomae", "VideoMAEImageProcessor", **sizes, **IMAGENET)
    theirs = np.asarray(run(small, return_tensors="np")["pixel_values"], np.float32)
    theirs = torch.from_numpy(theirs)
    options = {"attn_implementation": "eager"}
    model = modeling.XCLIPModel.from_pretrained(tmp_path, **options).eval()
    words = torch.ones(1, 4, dtype=torch.long)
    given = {"input_ids": words, "attention_mask": words, "pixel_values": theirs}
    with torch.no_grad():
        whole = model(**given, return_dict=True)
    card = tiny_card("xclip").with_preset("paper-2024")
    preset = structs.replace(card.input, squash_first=32)
    card = replace(card, presets={**card.presets, "paper-2024": preset})
    backbone = load_backbone(card, tmp_path)
    pixels = backbone.preprocess(x)
    assert torch.equal(pixels[None], theirs)
    assert torch.equal(backbone.forward(pixels[None])["clip"], whole.mit_output[1])
    assert backbone.recipe()["compute"]["attention"] == "eager"


def test_the_checkpoints_own_edge_has_the_say() -> None:
    preset = find_card("vivit-b16x2-k400").input
    size = Geometry(1, 224)
    assert preset.resize_to(size).edge == 256
    assert preset.resize_to(size, checkpoint_edge=224).edge == 224
    clip = find_card("clip-b16").input
    assert clip.resize_to(size, checkpoint_edge=300).edge == 224
    with pytest.raises(FixInput, match="cannot be cropped"):
        preset.resize_to(size, checkpoint_edge=200)


def test_pixels_never_change_under_our_feet() -> None:
    known = {
        "xclip-b16-k600-zs": "6bb2dd6667891d38",
        "xclip-b16-k600-zs@paper-2024": "e0cc5644f4f158f6",
        "vivit-b16x2-k400@hub": "0f91809c11c0602d",
        "xclip-lsmdc-b32": "9f131bcec56cbff9",
    }
    for name, expected in known.items():
        card = find_card(name)
        got = preprocessor(card.input, card.geometry.size).recipe()["behaviour_sha256"]
        assert got[:16] == expected, name

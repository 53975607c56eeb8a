import importlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

torch = pytest.importorskip("torch", reason="backbones need the extract extra")
pytest.importorskip("transformers", reason="backbones need the extract extra")

from support.checkpoints import TINY, save_tiny, tiny_card  # noqa: E402

from obygaze_features.backbones.actions import load_backbone  # noqa: E402
from obygaze_features.backbones.backbone import TorchBackbone  # noqa: E402
from obygaze_features.backbones.card import Card  # noqa: E402
from obygaze_features.core.errors import FixInput  # noqa: E402

torch.set_num_threads(1)

FAMILIES = sorted(TINY)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("tiny")

    @cache
    def folder(family: str) -> Path:
        return save_tiny(family, root / family)

    return folder


@pytest.fixture(scope="module")
def backbones(folders) -> Any:
    def load(family: str, attention: str = "eager") -> TorchBackbone:
        card = with_attention(tiny_card(family), attention)
        loaded = load_backbone(card, folders(family))
        assert isinstance(loaded, TorchBackbone)
        return loaded

    return load


def with_attention(card: Card, attention: str) -> Card:
    preset = structs.replace(card.input, attention=attention)
    return replace(card, presets={**card.presets, card.preset: preset})


def supports_sdpa(family: str) -> bool:
    from obygaze_features.backbones.families import PRETRAINED

    return bool(getattr(PRETRAINED[family].model(), "_supports_sdpa", False))


def clips(family: str, n: int, seed: int = 0) -> Any:
    tiny = TINY[family]
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, tiny.frames, 3, tiny.size, tiny.size, generator=generator)


def reference(family: str, folder: Path, x: Any) -> dict[str, Any]:
    """The arrays by the library's own classes, as its documentation uses them."""

    def own(module: str, name: str, **options: Any) -> Any:
        modeling = importlib.import_module(
            f"transformers.models.{module}.modeling_{module}"
        )
        model = getattr(modeling, name).from_pretrained(
            folder, attn_implementation="eager", **options
        )
        # Torch's own attention, of SigLIP's head, has other last bits with gradients.
        return model.eval().requires_grad_(False)

    with torch.no_grad():
        return _REFERENCES[family](own, x)


def _xclip(own: Any, x: Any) -> dict[str, Any]:
    model = own("x_clip", "XCLIPModel")
    seen: dict[str, Any] = {}
    model.mit.register_forward_hook(
        lambda m, args, out: seen.update(before=args[0], after=out[0])
    )
    words = torch.ones(1, 4, dtype=torch.long)
    out = model(input_ids=words, attention_mask=words, pixel_values=x, return_dict=True)
    tokens = out.vision_model_output.last_hidden_state.reshape(*x.shape[:2], -1, 32)
    return {
        "clip": out.mit_output[1],
        "frames": seen["before"],
        "frames_mit": seen["after"],
        "tokens": tokens,
        "pooled": tokens.reshape(len(x), -1, 32).max(dim=1).values,
    }


def _of_seen(vectors: Any, seen: Any, x: Any) -> dict[str, Any]:
    """What is seen in each frame alone."""
    tokens = seen.last_hidden_state.reshape(*x.shape[:2], -1, 32)
    vectors = vectors.reshape(*x.shape[:2], -1)
    pooled = tokens.flatten(1, 2).max(dim=1).values
    return {
        **{"clip": vectors.mean(dim=1), "frames": vectors},
        **{"tokens": tokens, "pooled": pooled},
    }


def _clip(own: Any, x: Any) -> dict[str, Any]:
    whole = own("clip", "CLIPModel")
    # The projected vector from the full model's own parts, not from the class the adapter uses.
    seen = whole.vision_model(pixel_values=x.flatten(0, 1))
    return _of_seen(whole.visual_projection(seen.pooler_output), seen, x)


def _siglip(own: Any, x: Any) -> dict[str, Any]:
    seen = own("siglip", "SiglipModel").vision_model(pixel_values=x.flatten(0, 1))
    return _of_seen(seen.pooler_output, seen, x)


def _dino(module: str, name: str) -> Any:
    def run(own: Any, x: Any) -> dict[str, Any]:
        seen = own(module, name)(pixel_values=x.flatten(0, 1))
        return _of_seen(seen.pooler_output, seen, x)

    return run


def _of_sequence(sequence: Any, tokens: Any, clip: Any) -> dict[str, Any]:
    """What is seen in all frames at once."""
    pooled = sequence.max(dim=1).values
    frames = tokens.mean(dim=2)
    return {"clip": clip, "frames": frames, "tokens": tokens, "pooled": pooled}


def _vivit(own: Any, x: Any) -> dict[str, Any]:
    sequence = own("vivit", "VivitModel", add_pooling_layer=False)(x).last_hidden_state
    tokens = sequence[:, 1:].reshape(len(x), 3, 4, 32)
    return _of_sequence(sequence, tokens, sequence[:, 0])


def _thw(sequence: Any, steps: int) -> dict[str, Any]:
    tokens = sequence.reshape(len(sequence), steps, 4, 32)
    return _of_sequence(sequence, tokens, sequence.mean(dim=1))


def _videomae(own: Any, x: Any) -> dict[str, Any]:
    return _thw(own("videomae", "VideoMAEModel")(x).last_hidden_state, 3)


def _vjepa2(own: Any, x: Any) -> dict[str, Any]:
    return _thw(own("vjepa2", "VJEPA2Model").get_vision_features(x), 2)


def _timesformer(own: Any, x: Any) -> dict[str, Any]:
    sequence = own("timesformer", "TimesformerModel")(x).last_hidden_state
    # Token 1 + p * T + t, spelled out.
    steps = [[sequence[:, 1 + p * 3 + t] for p in range(4)] for t in range(3)]
    tokens = torch.stack([torch.stack(step, dim=1) for step in steps], dim=1)
    return _of_sequence(sequence, tokens, sequence[:, 0])


_REFERENCES = {
    "xclip": _xclip,
    "clip": _clip,
    "siglip": _siglip,
    "dinov2": _dino("dinov2", "Dinov2Model"),
    "dinov3": _dino("dinov3_vit", "DINOv3ViTModel"),
    "vivit": _vivit,
    "videomae": _videomae,
    "timesformer": _timesformer,
    "vjepa2": _vjepa2,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_arrays_are_the_classes_own_outputs(family, folders, backbones):
    x = clips(family, 3)
    ours = backbones(family).forward(x)
    theirs = reference(family, folders(family), x)
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        assert tuple(ours[name].shape) == tuple(expected.shape), name
        exact = name in ("tokens", "pooled", "frames_mit") or (family == "xclip")
        tolerance = 0.0 if exact else 1e-5
        assert (ours[name] - expected).abs().max() <= tolerance, name
        assert ours[name].std() > 1e-3, f"{name} is nearly constant: nothing is seen"


@pytest.mark.parametrize("family", FAMILIES)
def test_sdpa_is_eager_within_float_noise(family: str, backbones: Any) -> None:
    x = clips(family, 2)
    fast = backbones(family, "sdpa")
    eager = backbones(family).forward(x)
    for name, values in fast.forward(x).items():
        assert torch.allclose(values, eager[name], atol=1e-5, rtol=1e-4), name
    # What a class of this release cannot do is not recorded as done.
    expected = "sdpa" if supports_sdpa(family) else "eager"
    assert fast.recipe()["compute"]["attention"] == expected
    assert not supports_sdpa("timesformer")
    assert supports_sdpa("clip")


def test_the_wrong_number_of_frames_size_channels_or_rank_is_refused(backbones) -> None:
    x = clips("vivit", 2)
    longer = torch.cat([x, x[:, :1]], dim=1)
    for wrong in (longer, x[:, :-1], x[..., :-1], x[:, :, :2], x[0], x[:0]):
        with pytest.raises(FixInput, match="expected pixels"):
            backbones("vivit").forward(wrong)


def test_dinov3_in_bfloat16_equals_transformers(folders: Any) -> None:
    folder = folders("dinov3")
    half = load_backbone(
        with_attention(tiny_card("dinov3"), "eager"), folder, dtype="bfloat16"
    )
    theirs = pytest.importorskip("transformers").DINOv3ViTModel.from_pretrained(
        folder, dtype=torch.bfloat16, attn_implementation="eager"
    )
    x = clips("dinov3", 2)
    with torch.inference_mode():
        seen = theirs.eval()(pixel_values=x.flatten(0, 1).bfloat16())
    tokens = seen.last_hidden_state.unflatten(0, x.shape[:2])
    assert torch.equal(half.forward(x)["tokens"], tokens)

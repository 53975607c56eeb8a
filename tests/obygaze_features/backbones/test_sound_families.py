"""Every family of sound against the transformers classes with their own processors."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="backbones need the extract extra")
transformers = pytest.importorskip("transformers")

from support.sound_checkpoints import (  # noqa: E402
    CARD_OF,
    RATE,
    processor,
    save_tiny_sound,
    tiny_sound_card,
)

from obygaze_features.backbones.actions import load_backbone  # noqa: E402
from obygaze_features.backbones.check import check_card  # noqa: E402
from obygaze_features.backbones.backbone import Placement  # noqa: E402
from obygaze_features.backbones.sound import Heard, SoundBackbone  # noqa: E402
from obygaze_features.core.errors import FixInput  # noqa: E402

torch.set_num_threads(1)
FAMILIES = sorted(CARD_OF)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sound")


@pytest.fixture(scope="module")
def backbones(root: Path) -> Any:
    @cache
    def load(family: str, seconds: float = 30.0) -> SoundBackbone:
        folder = root / family
        if not folder.is_dir():
            save_tiny_sound(family, folder)
        card = tiny_sound_card(family, root, seconds)
        loaded = load_backbone(card, folder)
        assert isinstance(loaded, SoundBackbone)
        return loaded

    return load


def noise(family: str, seconds: float, seed: int = 0) -> Heard:
    random = np.random.default_rng(seed)
    n_samples = round(seconds * RATE.get(family, 16000))
    return Heard((0.2 * random.standard_normal(n_samples)).astype(np.float32))


def reference(family: str, folder: Path, samples: Any) -> dict[str, Any]:
    """The mean and the maximum of the library's steps, with its own processor."""
    inputs = processor(family)(
        samples, sampling_rate=RATE.get(family, 16000), return_tensors="pt"
    )
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        if family == "clap":
            seen = model.audio_model(**inputs)
            vector = model.audio_projection(seen.pooler_output)[0].numpy()
            steps = seen.last_hidden_state[0].mean(dim=1).T.numpy()
            # Those whose centre lies within the sound.
            n_steps = round(len(samples) / 480_000 * 32)
        elif family == "whisper":
            steps = model.encoder(**inputs).last_hidden_state[0].numpy()
            vector = None
            n_steps = -(-len(samples) // 320)
        else:
            steps = model(**inputs).last_hidden_state[0].numpy()
            vector = None
            n_steps = len(steps)
    steps = steps[:n_steps]
    mean = steps.mean(axis=0) if vector is None else vector
    return {"clip": mean, "pooled": steps.max(axis=0)}


@pytest.mark.parametrize("seconds", [0.67, 4.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_arrays_are_those_of_the_librarys_classes(
    family: str, seconds: float, backbones: Any, root: Path
) -> None:
    backbone = backbones(family)
    heard = noise(family, seconds)
    expected = reference(family, root / family, heard.samples)
    arrays = backbone.forward([heard])
    for name, values in expected.items():
        scale = np.abs(values).max()
        np.testing.assert_allclose(
            arrays[name][0].numpy() / scale, values / scale, atol=1e-6, err_msg=name
        )

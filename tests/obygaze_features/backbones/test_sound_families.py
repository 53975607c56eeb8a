from pathlib import Path
from typing import Any
from unittest import mock

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
from support.words import save_tokenizer  # noqa: E402

from obygaze_features.backbones.actions import load_backbone  # noqa: E402
from obygaze_features.backbones.sound import ClipSound, SoundBackbone, TorchSound  # noqa: E402
from obygaze_features.backbones.text import load_text_tower  # noqa: E402
from obygaze_features.core.errors import FixInput  # noqa: E402
from obygaze_features.store.recipe import hash_of_space  # noqa: E402

torch.set_num_threads(1)
FAMILIES = sorted(CARD_OF)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sound")


@pytest.fixture(scope="module")
def backbones(root) -> Any:
    def load(family: str, seconds: float = 10.0) -> SoundBackbone:
        folder = root / family
        if not folder.is_dir():
            save_tiny_sound(family, folder)
        card = tiny_sound_card(family, root, seconds)
        loaded = load_backbone(card, folder)
        assert isinstance(loaded, SoundBackbone)
        return loaded

    return load


def noise(family: str, seconds: float, seed: int = 0) -> ClipSound:
    random = np.random.default_rng(seed)
    n_samples = round(seconds * RATE.get(family, 16000))
    return ClipSound((0.2 * random.standard_normal(n_samples)).astype(np.float32))


def reference(family: str, folder: Path, samples: Any) -> dict[str, Any]:
    """The mean and the maximum of the library's steps, with its own processor."""
    options = {"sampling_rate": RATE.get(family, 16000), "return_tensors": "pt"}
    inputs = processor(family)(samples, **options)
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
def test_arrays_are_those_of_the_librarys_classes(family, seconds, backbones, root):
    backbone = backbones(family)
    heard = noise(family, seconds)
    expected = reference(family, root / family, heard.samples)
    arrays = backbone.forward([heard])
    for name, values in expected.items():
        scale = np.abs(values).max()
        np.testing.assert_allclose(
            arrays[name][0].numpy() / scale, values / scale, atol=1e-6, err_msg=name
        )


# How often the module is called for 8 clips in one batch: 4 of .6 s, 2 of two such pieces, 2 of
# .3 s, which are too short for waves to be stacked.
CALLS = {"wav2vec2": 3, "clap": 2}


@pytest.mark.parametrize("family", CALLS)
def test_no_other_clip_changes_a_bit(family: str, tmp_path: Path) -> None:
    """Alone, and in batches of 3 and 8 in any order; inputs of one shape are stacked."""
    save_tiny_sound(family, tmp_path, channels=512)
    backbone = load_backbone(tiny_sound_card(family, tmp_path, 0.6), tmp_path)
    assert isinstance(backbone, TorchSound)
    seconds = [0.6, 0.3, 0.6, 1.2] * 2
    clips = [noise(family, length, seed) for seed, length in enumerate(seconds)]
    alone = [backbone.forward([clip]) for clip in clips]
    random = np.random.default_rng(0)
    for n_clips in (3, 8):
        order = random.permutation(8)
        with mock.patch.object(backbone, "listen", wraps=backbone.listen) as calls:
            for start in range(0, 8, n_clips):
                numbers = order[start : start + n_clips]
                together = backbone.forward([clips[number] for number in numbers])
                for name, values in together.items():
                    for value, number in zip(values, numbers, strict=True):
                        assert torch.equal(value, alone[number][name][0]), name
    assert calls.call_count == CALLS[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_long_clip_goes_through_in_equal_pieces(family: str, backbones: Any) -> None:
    whole = backbones(family)
    pieces = backbones(family, 2.0)
    heard = noise(family, 4.2)
    thirds = np.split(heard.samples, 3)
    of_thirds = whole.forward([ClipSound(third) for third in thirds])
    got = pieces.forward([heard])
    # Equal pieces have equally many steps, so that the mean of their means is that of all.
    expected = of_thirds["clip"].mean(dim=0)
    np.testing.assert_allclose(got["clip"][0], expected, atol=2e-6)
    np.testing.assert_array_equal(got["pooled"][0], of_thirds["pooled"].amax(dim=0))


@pytest.mark.parametrize("family", ["whisper", "clap"])
def test_what_changes_in_a_part_changes_the_vector_of_that_part_most(family, backbones):
    backbone = backbones(family)
    heard = noise(family, 10.0)
    frames = backbone.forward([heard], only=["frames"])["frames"][0]
    edges = np.linspace(0, len(heard.samples), 17).astype(int)
    for part in (0, 5, 10, 15):
        changed = heard.samples.copy()
        changed[edges[part] : edges[part + 1]] *= 8
        other = backbone.forward([ClipSound(changed)], only=["frames"])["frames"][0]
        changes = (other - frames).norm(dim=1)
        assert int(changes.argmax()) == part


def test_sound_before_the_clip_is_no_part_of_it(backbones: Any) -> None:
    backbone = backbones("wav2vec2")
    heard = noise("wav2vec2", 1.0)
    before = noise("wav2vec2", 0.5, 1).samples
    with_before = ClipSound(np.concatenate([before, heard.samples]), len(before))
    plain = backbone.forward([heard])
    for name, values in backbone.forward([with_before]).items():
        assert torch.equal(values, plain[name])


def test_names_of_weights_of_older_releases_are_read(backbones, root, tmp_path) -> None:
    """The hub has checkpoints whose weight norm is called `weight_g` and `weight_v`."""
    from safetensors.torch import load_file, save_file

    backbone = backbones("wav2vec2")
    folder = tmp_path / "older"
    folder.mkdir()
    for name in ("config.json", "preprocessor_config.json"):
        (folder / name).write_bytes((root / "wav2vec2" / name).read_bytes())
    tensors = {}
    for name, tensor in load_file(root / "wav2vec2" / "model.safetensors").items():
        name = name.replace("parametrizations.weight.original0", "weight_g")
        name = name.replace("parametrizations.weight.original1", "weight_v")
        tensors[name] = tensor
    assert any(name.endswith("weight_g") for name in tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    older = load_backbone(backbone.card, folder)
    heard = noise("wav2vec2", 0.5)
    expected = backbone.forward([heard])
    for name, values in older.forward([heard]).items():
        assert torch.equal(values, expected[name])


def test_fused_clap_is_refused(backbones: Any, root: Path, tmp_path: Path) -> None:
    card = backbones("clap").card
    for path in (root / "clap").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = tmp_path / "config.json"
    text = config.read_text()
    fused = text.replace('"enable_fusion": false', '"enable_fusion": true')
    config.write_text(fused)
    with pytest.raises(FixInput, match="fused CLAP"):
        load_backbone(card, tmp_path)


def test_texts_are_those_of_the_whole_clap(root: Path, backbones: Any) -> None:
    card = backbones("clap").card
    save_tokenizer(root / "clap")
    texts = ["a happy man", "the sad woman on a bed", "a dog"]
    model = transformers.AutoModel.from_pretrained(root / "clap").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(root / "clap")
    expected = []
    with torch.no_grad():
        for text in texts:
            seen = model.text_model(**tokenizer([text], return_tensors="pt"))
            expected.append(model.text_projection(seen.pooler_output)[0].numpy())
    tower = load_text_tower(card, root / "clap")
    np.testing.assert_allclose(tower.embed(texts), expected, atol=1e-6)
    # RoBERTa has two positions that no text uses.
    assert tower.max_length == 18
    # The space is that of the sound.
    backbone = backbones("clap")
    assert tower.space_id.endswith(hash_of_space(backbone.hashes))

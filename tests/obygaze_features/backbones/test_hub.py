import shutil
from pathlib import Path
from typing import Any

import pytest
from support.checkpoints import hub_cache, save_tiny, write_tiny_card
from support.cli import call_obygaze, run_obygaze

torch = pytest.importorskip("torch", reason="backbones need the extract extra")
pytest.importorskip("transformers", reason="backbones need the extract extra")


from obygaze_features.backbones.actions import fetch_weights, load_backbone  # noqa: E402
from obygaze_features.backbones.cards import find_card  # noqa: E402
from obygaze_features.core.errors import FixUsage  # noqa: E402
from obygaze_features.core.workspace import Workspace  # noqa: E402

torch.set_num_threads(1)

OWN = """
import torch
from obygaze_features.backbones import module_card

def net():
    options = {"arrays": {"clip": [1]}, "frames": 2, "size": 4, "licence": "MIT"}
    load = lambda: torch.nn.Linear(1, 1)
    return module_card("net", load, lambda module, pixels: None, **options)
"""


def test_fetch_does_not_ask_the_hub_for_what_is_there(tmp_path, monkeypatch) -> None:
    """The hub may be out of reach, or have another revision of `main` meanwhile."""

    import huggingface_hub

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no route to host")

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(huggingface_hub.HfApi, "repo_info", fail)
    folder = save_tiny("dinov2", tmp_path / "files")
    write_tiny_card("dinov2", tmp_path / "backbones", checkpoint="tests/tiny")
    hub_cache(find_card("tiny-dinov2", Workspace(tmp_path)), tmp_path / "hub", folder)
    (fetched,) = fetch_weights(["tiny-dinov2"], workspace=tmp_path).backbones
    assert fetched["folder"].startswith(str(tmp_path / "hub"))


def test_one_revision_is_carried(tmp_path: Path) -> None:
    folder = save_tiny("dinov2", tmp_path / "files")
    write_tiny_card("dinov2", tmp_path / "backbones", checkpoint="tests/tiny")
    card = find_card("tiny-dinov2", Workspace(tmp_path))
    hub_cache(card, tmp_path / "hub", folder)
    repository = tmp_path / "hub" / "models--tests--tiny"
    other = repository / "snapshots" / "0ld"
    other.mkdir()
    shutil.copy(folder / "model.safetensors", other)
    (repository / "refs" / "old").write_text("0ld")
    env = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    words = ("-C", tmp_path, "backbones", "fetch", "tiny-dinov2", "--to")
    run_obygaze(*words, tmp_path / "carried", env=env).ok()
    carried = tmp_path / "carried" / "hub" / "models--tests--tiny"
    files = {p.relative_to(carried).as_posix() for p in carried.rglob("*.*")}
    names = ("config.json", "model.safetensors")
    assert files == {f"snapshots/c0ffee/{name}" for name in names}
    assert len(list((carried / "blobs").iterdir())) == 2
    assert [path.name for path in (carried / "refs").iterdir()] == ["main"]


@pytest.mark.parametrize("name", ["descriptors", "frames:clip-b16", "mine.py:net"])
def test_weights_for_what_takes_none_are_refused(name, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN, "utf-8")
    (tmp_path / "weights.pt").write_bytes(b"")
    with pytest.raises(FixUsage, match="has no weights"):
        load_backbone(name, "weights.pt")
    words = ("backbones", "check", name, "--weights", "weights.pt")
    assert call_obygaze("-C", tmp_path, *words).code == 2

"""The figures of a GPU: the dry run on a CPU, real sizes, and overlaps worked out by hand."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest

from benchmarks.extraction import gpu
from benchmarks.extraction.gpu import SIZES, measure, overlap
from benchmarks.extraction.overlap import Overlap
from benchmarks.timing import NotMeasured, Settings
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.families import PRETRAINED


def test_a_dry_run_on_a_cpu_has_every_table() -> None:
    found = measure(Settings(quick=True, device="cpu"))
    assert [row["precision"] for row in found.tables["families"]] == ["float32", "tf32", "bf16"] * 2
    exact, tf32, bf16 = found.tables["families"][:3]
    # Compared with itself, the CPU differs in bfloat16 only: it has 8 bits, so about 1 in 256.
    assert exact["difference"] == tf32["difference"] == 0
    assert 1e-4 < bf16["difference"] < 0.1
    assert {row["ok"] for row in found.tables["runs"]} == {4}
    assert found.facts["kills"].endswith("then resumed: the same bytes")
    assert "share of peak" in found.to_text()


def test_random_weights_have_the_sizes_of_their_cards() -> None:
    for name, sizes in SIZES.items():
        card = find_card(name)
        family = PRETRAINED[card.family.name]
        package = family.package or family.name
        module = importlib.import_module(f"transformers.models.{package}.modeling_{package}")
        geometry = family.geometry(
            getattr(module, family.class_name).config_class(**sizes), card.geometry
        )
        assert replace(geometry, depth=None) == card.geometry, name
        depth = geometry.depth
        assert depth is not None
        assert (depth.layers, depth.hidden, depth.heads) == tuple(card.depth.values()), name


def test_overlap_by_hand() -> None:
    kernels = [(0.0, 4.0), (3.0, 5.0), (8.0, 10.0)]
    # Kernels run in 7 of 10; of 4 s of copies, 1 s (4 to 5) and 1 s (8 to 9) are beside one.
    assert overlap(kernels, [(4.0, 6.0), (7.0, 9.0)]) == {"share": 0.7, "beside": 0.5}
    assert overlap(kernels, []) == {"share": 0.7}
    assert overlap([], [(0.0, 1.0)]) == {}


def test_without_a_gpu_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "no_gpu", lambda: "PyTorch finds no GPU")
    with pytest.raises(NotMeasured, match="finds no GPU"):
        measure(Settings())


def test_ratios_are_to_the_slower_of_host_and_device() -> None:
    found = Overlap({0.005: 256 * 0.012 * 1.02, 0.022: 256 * 0.022 * 1.03}, 0)
    assert found.ratios() == pytest.approx({0.005: 1.02, 0.022: 1.03})
    assert "1.030" in found.to_text()

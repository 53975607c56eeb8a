"""The figures of a GPU: the dry run on a CPU, real sizes, and overlaps worked out by hand."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.gpu_decoders import install_stand_in

from benchmarks.extraction import gpu
from benchmarks.extraction.gpu import measure
from benchmarks.extraction.gpu_decoding import decoder_rows
from benchmarks.extraction.gpu_models import SIZES, models
from benchmarks.extraction.gpu_runs import overlap
from benchmarks.extraction.overlap import Overlap
from benchmarks.timing import NotMeasured, Settings
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.families import PRETRAINED
from obygaze_features.core.errors import FixUsage

pytestmark = pytest.mark.check("benchmarks")


def test_a_dry_run_on_a_cpu_has_every_table() -> None:
    two = ("clip-b16", "videoprism-b")
    found = measure(Settings(quick=True, device="cpu", backbones=two))
    assert [row["precision"] for row in found.tables["families"]] == [
        "float32",
        "tf32",
        "bf16",
    ] * 2
    for exact, tf32, bf16 in (
        found.tables["families"][:3],
        found.tables["families"][3:],
    ):
        # Compared with itself, the CPU differs in bfloat16 only: it has 8 bits, so about 1 in 256.
        assert exact["difference"] == tf32["difference"] == 0
        assert 1e-4 < bf16["difference"] < 0.1
    assert {row["bytes"] for row in found.tables["whole runs"]} == {"the same"}
    runs = found.tables["memory"]
    assert {row["ok"] for row in runs} == {4}
    # On a CPU the features do not depend on the batch, also after it was halved.
    assert [row["batches halved"] for row in runs] == [0, 0, 1]
    assert [row["difference"] for row in runs] == [None, 0, 0]
    decoded = found.tables["decoding"]
    assert {row["decoded by"] for row in decoded} == {"the CPU (fallback)"}
    assert {row["same pictures"] for row in decoded} == {"32 of 32"}
    assert {row["largest"] for row in decoded} == {0}
    rows = found.tables["decoding, exact or refused"]
    answers = {row["answer"].partition(":")[0] for row in rows}
    assert answers in ({"not tried"}, {"exact", "refused"})
    assert re.search(
        "8 clips .* 3 kills, then resumed: the same bytes", found.facts["killed"]
    )
    assert "share of peak" in found.to_text()


def test_a_gpu_that_decodes_is_compared_picture_by_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_stand_in(monkeypatch)
    rows = {
        row["film"]: row
        for row in decoder_rows(tmp_path, "cuda", quick=True, workers=1)
    }
    for name in ("h264", "hevc", "mp4, open groups", "mp4, edit list", "ts, h.264"):
        row = rows[name]
        assert (row["answer"], row["same times"]) == ("exact", "32 of 32"), name
        # The formula of a GPU cuts off.
        assert 0 < row["mean difference, levels"] < 1 and 0 < row["largest"] <= 2, name
        assert row["clips/s"] > 0 and row["clips/s by CPU"] > 0
    assert "the codec is vp9" in rows["webm, vp9"]["answer"]
    assert "intra refresh" in rows["mp4, intra refresh"]["answer"]
    assert rows["webm, vp9"]["clips/s"] is None


def test_an_unknown_backbone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FixUsage, match="no random weights for clip-b17"):
        list(models(tmp_path, small=True, names=("clip-b17",)))


def test_small_models_are_of_every_family(tmp_path: Path) -> None:
    for model in models(tmp_path, small=True):
        # Loading compares the weights with the card, and the card has the real frames and patches.
        backbone = model.load("cpu", tmp_path)
        real = find_card(model.card.removeprefix("small-"))
        assert backbone.geometry.grid == real.geometry.grid, model.card
        assert backbone.card.family is real.family


def test_random_weights_have_the_sizes_of_their_cards() -> None:
    for name, sizes in SIZES.items():
        card = find_card(name)
        family = PRETRAINED[card.family.name]
        package = family.package or family.name
        module = importlib.import_module(
            f"transformers.models.{package}.modeling_{package}"
        )
        geometry = family.geometry(
            getattr(module, family.class_name).config_class(**sizes), card.geometry
        )
        assert replace(geometry, depth=None) == card.geometry, name
        depth = geometry.depth
        assert depth is not None
        assert (depth.layers, depth.hidden, depth.heads) == tuple(
            card.depth.values()
        ), name


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
    seconds = {(1, 0.005): 256 * 0.012 * 1.02, (13, 0.022): 256 * 0.022 * 1.03}
    found = Overlap(seconds, 0)
    assert found.ratios() == pytest.approx({(1, 0.005): 1.02, (13, 0.022): 1.03})
    assert "1.030" in found.to_text()

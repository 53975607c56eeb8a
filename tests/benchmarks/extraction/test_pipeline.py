"""The pipeline beside its stages: what is measured, and on which machines."""

from __future__ import annotations

import sys
import types

import pytest

from benchmarks.extraction import pipeline
from benchmarks.extraction.pipeline import Size, measure, no_gpu
from benchmarks.timing import Settings
from obygaze_features.core.errors import InstallExtra

pytestmark = pytest.mark.check("benchmarks")


def test_each_page_has_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "measure_size", lambda size: size)
    assert measure(Settings()) == Size(pipeline.N_CLIPS, 3)
    assert measure(Settings(quick=True)) == Size(4, 1)


def test_why_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def torch(available: bool, cuda: str | None) -> None:
        module = types.ModuleType("torch")
        module.__version__ = "2.9"
        module.cuda = types.SimpleNamespace(is_available=lambda: available)
        module.version = types.SimpleNamespace(cuda=cuda)
        monkeypatch.setitem(sys.modules, "torch", module)

    torch(False, None)
    assert no_gpu() == "PyTorch 2.9 was built without CUDA"
    torch(False, "12.8")
    assert no_gpu() == "PyTorch finds no GPU on this machine"
    torch(True, "12.8")
    assert no_gpu() == ""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InstallExtra, match="not installed"):
        no_gpu()

"""A machine with a GPU whose decoder is a stand-in, which is honest or lies."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from obygaze_features.video import hardware, hardware_check

STAND_IN = Path(__file__).parent / "gpu_decoder"


def install_stand_in(monkeypatch: pytest.MonkeyPatch, lie: str = "") -> None:
    """Put the stand-in in place of torchcodec, in this process and in those it starts."""
    import torch

    forget_decoders()
    remove_torchcodec(monkeypatch)
    for name in ("torchcodec", "torchcodec.decoders"):
        # So that the stand-in is forgotten after the test.
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    monkeypatch.syspath_prepend(str(STAND_IN))
    monkeypatch.setenv("OBYGAZE_TEST_LIE", lie)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    importlib.import_module("torchcodec")


def remove_torchcodec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the modules of torchcodec until the end of the test."""
    for name in [
        name for name in sys.modules if name.partition(".")[0] == "torchcodec"
    ]:
        monkeypatch.delitem(sys.modules, name)


def forget_decoders() -> None:
    """Close the films that are open, and forget that a GPU was tried."""
    hardware._decoder.cache_clear()
    hardware_check.require_gpu_decoder.cache_clear()

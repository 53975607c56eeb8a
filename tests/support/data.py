"""Data that is not part of the project: used where it is at hand, else skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.cli import ROOT


def real_data(*parts: str) -> Path:
    """A file of the published data sets, under $OBYGAZE_DATA or beside the checkout."""
    return _existing(Path(os.environ.get("OBYGAZE_DATA") or ROOT.parent / "shared" / "data"), parts)


def golden(*parts: str) -> Path:
    """A reference result made elsewhere, under $OBYGAZE_GOLDEN or beside the checkout."""
    base = os.environ.get("OBYGAZE_GOLDEN") or ROOT.parent / "shared" / "golden"
    return _existing(Path(base), parts)


def _existing(base: Path, parts: tuple[str, ...]) -> Path:
    path = base.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"data not at hand: {'/'.join(parts)} (set OBYGAZE_DATA to its folder)")
    return path

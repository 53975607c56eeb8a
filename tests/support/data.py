"""Data that is not part of the project: used where it is at hand, else skipped."""

import os
from pathlib import Path

import pytest

from support.cli import ROOT


def real_data(*parts: str) -> Path:
    """A file of the published data sets, under $OBYGAZE_DATA or beside the checkout."""
    return _existing("OBYGAZE_DATA", "data", parts)


def golden(*parts: str) -> Path:
    """A reference result made elsewhere, under $OBYGAZE_GOLDEN or beside the checkout."""
    return _existing("OBYGAZE_GOLDEN", "golden", parts)


def _existing(variable: str, kind: str, parts: tuple[str, ...]) -> Path:
    base = Path(os.environ.get(variable) or ROOT.parent / "shared" / kind)
    path = base.joinpath(*parts)
    if not path.exists():
        pytest.skip(
            f"not at hand: {'/'.join(parts)} (set {variable} to the folder it is in)"
        )
    return path

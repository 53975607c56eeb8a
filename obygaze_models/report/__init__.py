"""Tables, figures and one self-contained page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazily

if TYPE_CHECKING:
    from obygaze_models.report.page import report as report

_HOME = {
    "report": "page",
}
__all__ = [*_HOME]
__getattr__, __dir__ = lazily(__name__, _HOME)

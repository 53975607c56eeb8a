"""The transformers library, taken for its modules alone: imported late, kept quiet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from obygaze_features.core.errors import InstallExtra, ObygazeError
from obygaze_features.core.extras import need


def library(module: str) -> Any:
    """A module of transformers, or an error a person can act on."""
    try:
        return need(f"transformers.{module}", "extract", "running this backbone")
    except ObygazeError:
        raise
    except Exception as error:
        # A torchvision built for another torch breaks every import of the library, in its own way.
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise InstallExtra(
            f"transformers is installed but cannot be imported: {told[:160]}",
            hint="pip uninstall torchvision (it is not needed here, and must match torch)",
        ) from error


@contextmanager
def silenced() -> Iterator[None]:
    """The library tells on its own what we turn into errors; once is enough."""
    logging = library("utils.logging")
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()

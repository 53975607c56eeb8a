"""A tiny X-CLIP with random weights, in the form of a real one, for where torch is installed."""

from __future__ import annotations

import json
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from obygaze_features.core.errors import ObygazeError, first_line
from obygaze_features.core.files import write_atomic

CARD = "tiny-xclip"
NEEDED = ("torch", "transformers")
DATA = files(__package__)


def save_tiny_xclip(workspace: Path) -> tuple[Path | None, str]:
    """Write the checkpoint and its card, if possible; return its folder and a note for the user."""
    folder = workspace / "weights"
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        return None, (
            f"{' and '.join(missing)} not installed: features are simple statistics only. To add a"
            " tiny X-CLIP: pip install 'obygaze[extract]'"
        )
    from obygaze_features.backbones.families import PRETRAINED
    from obygaze_features.backbones.pretrained import save_random

    try:
        sizes = json.loads(DATA.joinpath(f"{CARD}.json").read_bytes())
        save_random(PRETRAINED["xclip"], sizes, folder)
        # The weights must match their card, so they need a card of their own.
        card = DATA.joinpath(f"{CARD}.toml").read_bytes()
        write_atomic(workspace / "backbones" / f"{CARD}.toml", card)
    except (ImportError, OSError, ObygazeError) as error:
        # A broken installation of torch does not stop the demo.
        reason = first_line(error)
        return None, f"torch or transformers does not work, the X-CLIP is skipped: {reason}"
    return folder, (
        f"A tiny X-CLIP was written to {folder}, to show several backbones in one pass.\n"
        "# Its weights are random. Its scores below come from the colours of the made-up films;\n"
        "# a trained model must score higher than this."
    )

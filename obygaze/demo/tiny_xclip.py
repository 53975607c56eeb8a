"""A tiny X-CLIP with random weights, in the form of a real one, for where torch is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from obygaze_features.core.errors import ObygazeError
from obygaze_features.core.files import write_atomic

CARD = "tiny-xclip"
# The weights must match their card, so they need a card of their own.
CARD_TEXT = f"""\
schema = "obygaze-backbone/1"
like = "xclip-b32-k400"
name = "{CARD}"
title = "A tiny X-CLIP with random weights, made by obygaze demo"
licence = "CC0-1.0"
citation = "obygaze"
size = 64

[tokens]
grid = [8, 4, 4]
width = 64
out = 32

[depth]
layers = 2
hidden = 128
heads = 2
"""
NEEDED = ("torch", "transformers")
_LAYERS = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
SIZES: dict[str, Any] = {
    "projection_dim": 32,
    "prompt_num_attention_heads": 2,
    "text_config": {**_LAYERS, "vocab_size": 64, "max_position_embeddings": 8},
    "vision_config": {
        **_LAYERS,
        "image_size": 64,
        "patch_size": 16,
        "num_frames": 8,
        "mit_hidden_size": 32,
        "mit_intermediate_size": 64,
        "mit_num_attention_heads": 2,
    },
}


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
        save_random(PRETRAINED["xclip"], SIZES, folder)
        write_atomic(workspace / "backbones" / f"{CARD}.toml", CARD_TEXT.encode("utf-8"))
    except (ImportError, OSError, ObygazeError) as error:
        # A broken installation of torch does not stop the demo.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return None, f"torch or transformers does not work, the X-CLIP is skipped: {reason}"
    return folder, (
        f"A tiny X-CLIP was written to {folder}, to show several backbones in one pass.\n"
        "# Its weights are random. Its scores below come from the colours of the made-up films;\n"
        "# a trained model must score higher than this."
    )

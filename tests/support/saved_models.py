"""Change the files of a saved model as somebody could who also adapts its checksums."""

import hashlib
import json
from pathlib import Path
from typing import Any


def write_model_json(folder: Path, document: dict[str, Any]) -> None:
    """Write model.json with a checksum of its content, computed as docs/files.md describes."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    rest["sha256"] = hashlib.sha256(text.encode("utf-8")).hexdigest()
    (folder / "model.json").write_text(json.dumps(rest), "utf-8")

"""The code that computes a run: the packages of obygaze as a hash, and own code with its version.

Finished tests are taken over only by the same code: after a repair, results of before and after
must not be mixed. The bytes of the files count, not their times.
"""

import hashlib
from functools import cache
from pathlib import Path

from obygaze_features.core.parts import find_part
from obygaze_models.models.registry import own_baselines
from obygaze_models.protocols.schema import SPLIT_KINDS, Protocol

ROOTS = tuple(
    Path(__file__).parents[3] / name for name in ("obygaze_models", "obygaze_features")
)
CODE = (".py", ".pyc", ".so", ".pyd", ".toml", ".json", ".txt", ".md")


@cache
def own_code() -> str:
    """Return the hash of the files of both packages, code and data."""
    files: list[Path] = []
    for root in ROOTS:
        files.extend(root.rglob("*"))
    digest = hashlib.sha256()
    for path in sorted(set(files)):
        # A cache of a source file is no code of its own; without the source it is elsewhere.
        is_code = path.suffix in CODE and path.parent.name != "__pycache__"
        if is_code and path.is_file():
            data = path.read_bytes()
            digest.update(f"{path.name} {len(data)}\n".encode())
            digest.update(data)
    return digest.hexdigest()


def used_parts(protocol: Protocol) -> dict[str, dict[str, str]]:
    """Return the version of each metric, baseline and kind of splits of own code, by kind and name.

    The versions of own models are settings of the models.
    """
    kind_of_splits = protocol.splits.kind
    names_of_kinds = {
        "metrics": protocol.further_metrics,
        "baselines": own_baselines(protocol.grid.baselines),
        "splits": [kind_of_splits] if kind_of_splits not in SPLIT_KINDS else [],
    }
    used: dict[str, dict[str, str]] = {}
    for kind, names in names_of_kinds.items():
        for name in names:
            used.setdefault(kind, {})[name] = find_part(name).package
    return used

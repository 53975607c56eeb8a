"""What many tests need is made once for all of them, also where they run in several processes."""

import hashlib
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

# tests/conftest.py sets it, before it starts other processes for tests.
SHARED = "OBYGAZE_TESTS_SHARED"
_ALONE: list[tempfile.TemporaryDirectory[str]] = []


def shared_folder() -> Path:
    if SHARED in os.environ:
        return Path(os.environ[SHARED])
    if not _ALONE:
        _ALONE.append(tempfile.TemporaryDirectory(prefix="obygaze-shared-"))
    return Path(_ALONE[0].name)


def made_once(kind: str, make: Callable[[Path], None], *key: Any) -> Path:
    """Return the folder that `make` filled for this key; nobody may change what is in it.

    Two processes that ask at the same time both make it, and the first one to end is kept.
    """
    digest = hashlib.sha256(pickle.dumps(key)).hexdigest()
    folder = shared_folder() / kind / digest[:32]
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=folder.parent))
    make(draft)
    try:
        draft.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        shutil.rmtree(draft)
    return folder

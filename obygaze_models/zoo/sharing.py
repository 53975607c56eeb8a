"""Models between labs: sent and fetched as they are, and believed only after they were checked."""

from __future__ import annotations

from pathlib import Path

from obygaze_features.core.drafts import new_folder
from obygaze_features.core.errors import NotFound
from obygaze_features.core.files import sha256_bytes, write_atomic
from obygaze_features.core.workspace import is_url
from obygaze_features.store.files.places import Files, open_files, read_or_none
from obygaze_features.store.files.remotes import open_place
from obygaze_features.store.format.schema import FileMark
from obygaze_models.zoo.saving import MODEL, MODEL_FILE, SavedModel, files_of, load_model


def push_model(folder: Path, target: str) -> int:
    """Check a model and send it to a folder, a bucket or the hub; how many bytes it has."""
    load_model(folder)
    contents = {name: (folder / name).read_bytes() for name in files_of(folder)}
    if not is_url(target):
        with new_folder(Path(target), MODEL, force=True) as draft:
            for name, data in contents.items():
                write_atomic(draft / name, data)
    else:
        marks = {n: FileMark(len(data), sha256_bytes(data)) for n, data in contents.items()}
        place = open_place(target)
        place.prepare(marks)
        for name, data in contents.items():
            if not place.has(name, marks[name]):
                place.put(name, data, marks[name])
        place.settle(f"model {folder.name}")
    return sum(len(data) for data in contents.values())


def pull_model(location: str, folder: Path, *, force: bool = False) -> SavedModel:
    """Fetch a model from a folder or an address; it gets its name only when all of it is right."""
    with new_folder(folder, MODEL, force=force) as draft:
        files = open_files(location)
        _fetch(files, MODEL_FILE, draft)  # it lists the others
        for name in files_of(draft):
            _fetch(files, name, draft)
        load_model(draft)
    return load_model(folder)


def _fetch(files: Files, name: str, draft: Path) -> None:
    if (draft / name).exists():
        return
    data = read_or_none(files, name)
    if data is None:
        raise NotFound(f"no model here: no {name}", where=files.location)
    write_atomic(draft / name, data)

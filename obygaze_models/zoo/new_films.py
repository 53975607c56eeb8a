"""The features of films that somebody wants scores for: which store has them, or what makes it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, ObygazeError
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import STORE, PathLike, Workspace, is_url
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.adapters.folder import (
    is_folder_of_videos,
    manifests_of_folder,
    warn_of_other_videos,
)
from obygaze_features.manifest.times import long_clips
from obygaze_features.store import Store, open_store
from obygaze_features.store.importing.arrays import POOLINGS
from obygaze_features.store.joining import JOINED
from obygaze_features.store.matching import match
from obygaze_features.store.recipe import IMPORTED, UNKNOWN_FACT

if TYPE_CHECKING:
    from obygaze_models.zoo.saving import SavedModel

JOINED_TITLE = f"{JOINED}: "
_SAME_IMPORT = (
    "imports have the same recipe with the same --backbone: import both so, each under a new name"
    " (-o), and train again"
)


def features_for(
    model: SavedModel, named: PathLike | Store, workspace: PathLike | None
) -> tuple[Store, Manifest | None, str]:
    """Return the store of the features that a model reads, and the clips if these were named.

    Where a manifest or a folder was named, a sentence says which manifest and store were found.

    Args:
        model: The model.
        named: A store; or a manifest or a folder of films, of which the workspace has features. An
            error says which are missing, and names the command that makes them.
        workspace: The workspace, if it is not the current one.
    """
    here = Workspace.of(workspace)
    if isinstance(named, Store):
        return named, None, ""
    manifest, others = _clips_named(model, named, here)
    if manifest is None:
        return open_store(named, workspace=workspace), None, ""
    warn_of_other_videos(Path(named), manifest)
    names = _stores_that_fit(model, here, manifest)
    if not names:
        raise FixInput(
            f"no store has features of {manifest.name} that {model.info.name} reads,"
            f" which are those of {model.info.features.backbone}",
            where=str(here.manifest(manifest.name)),
            hint=what_makes_features(model, manifest, here),
        )
    what = f"features of {manifest.name} that {model.info.name} reads"
    name = _only_one(model, names, what, "--manifest", manifest.name)
    found = f"clips of the manifest {manifest.name}, features of the store {name}"
    if others:
        films = f"{' and '.join(others)} with the films of this folder"
        found += f"; there is also {films}, without features for {model.info.name}"
    return open_store(name, workspace=workspace), manifest, found


def _only_one(model: SavedModel, names: Sequence[str], what: str, *options: str) -> str:
    """Return the only name; an error that says what to type where there are several."""
    if len(names) > 1:
        words = ["obygaze", "models", "predict", model.info.name, names[0], *options]
        raise FixUsage(
            f"{' and '.join(names)} have {what}",
            hint=f"{shlex.join(words)}, or another of them",
        )
    return names[0]


def _clips_named(
    model: SavedModel, named: PathLike, here: Workspace
) -> tuple[Manifest | None, Sequence[str]]:
    """Return the manifest of a name, or of a folder of films; None for a store.

    Of a folder, also return the names of its other manifests.
    """
    text = os.fspath(named)
    path = Path(text)
    # `.` is a folder, and no name.
    if is_url(text) or (path.name and Path(here.store(text), STORE).exists()):
        return None, ()
    if not is_folder_of_videos(text, here):
        toml = here.manifest(text)
        return (read_manifest(toml) if toml.is_file() else None), ()
    of_folder = {one.name: one for one in manifests_of_folder(path, here)}
    fitting = []
    for name, manifest in of_folder.items():
        if _stores_that_fit(model, here, manifest):
            fitting.append(name)
    grid = _grid_of(model)
    # Without a grid nobody knows into what whole films are to be cut.
    usable = [name for name, one in of_folder.items() if not (grid and long_clips(one))]
    if fitting or usable:
        what = f"the films of the folder {text}"
        name = _only_one(model, fitting or usable, what)
        return of_folder.pop(name), [*of_folder]
    name = shell_word(path.resolve().name)
    quoted = shell_word(text)
    command = f"obygaze manifest import {quoted} -o {name}"
    length = ""
    if grid:
        command = f"obygaze manifest windows {quoted} -o {name} {grid}"
        length = f", and {_trained_on(model)}"
    raise FixInput(
        f"no manifest has the clips of the films in this folder{length}",
        where=text,
        hint=f"{command}, then the same command again; or, where a table has their scenes,"
        f" obygaze manifest import TABLE -o {name} and obygaze manifest link {name} {quoted}",
    )


def what_makes_features(model: SavedModel, manifest: Manifest, here: Workspace) -> str:
    """Return the command that makes the features of a manifest that a model reads."""
    if _was_imported(model):
        return _what_imports(model, manifest.name)
    name = shell_word(manifest.name)
    if not any(clip.video for clip in manifest.clips[:1000]):
        return f"obygaze manifest link {name} FOLDER, with the folder of the films"
    grid = _grid_of(model)
    is_to_be_cut = bool(long_clips(manifest))
    if _was_trained_on_windows(model):
        is_to_be_cut = _as_options(manifest.header.grid.to_json()) != grid
    if grid and is_to_be_cut:
        cut = f"{manifest.name}-cut"
        return (
            f"obygaze manifest windows {name} -o {shell_word(cut)} {grid}, then"
            f" {_what_extracts(model, cut, here)}, as {_trained_on(model)}"
        )
    return _what_extracts(model, manifest.name, here)


def _what_extracts(model: SavedModel, manifest: str, here: Workspace) -> str:
    """Return the command that extracts features; of joined ones, those that make their parts."""
    backbone = model.info.features.backbone
    name = shell_word(manifest)
    if not backbone.startswith(JOINED_TITLE):
        command = f"obygaze extract run {name} -b {shell_word(backbone)}"
        store = f"{manifest}.{backbone.replace('@', '-')}"
        unused = here.unused_name("stores", store)
        if unused != store:
            command += f" --store {shell_word(f'{backbone}={unused}')}"
        return command
    if IMPORTED in backbone:
        return _what_joins(model)
    parts = backbone.removeprefix(JOINED_TITLE).split(" + ")
    words = " ".join(f"-b {shell_word(part)}" for part in parts)
    stores = " ".join(shell_word(f"{manifest}.{part}") for part in parts)
    joined = shell_word(here.unused_name("stores", f"{manifest}.joined"))
    return f"obygaze extract run {name} {words}, then obygaze store join {stores} -o {joined}"


def _what_joins(model: SavedModel) -> str:
    """Return how features are joined of which some were imported."""
    return (
        f"for each part of {model.info.features.backbone!r} a store of these clips: one that is"
        f" called{IMPORTED} is imported with its name as that of the backbone, each other one is"
        " extracted; then join these stores (obygaze store join --help)"
    )


def _what_imports(model: SavedModel, manifest: str) -> str:
    """Return how features of new films are imported for a model of imported ones."""
    title = model.info.features.backbone
    if not title.endswith(IMPORTED):
        return _SAME_IMPORT
    words = ["--backbone", title.removesuffix(IMPORTED)]
    pooling = model.info.features.told.get("pooling", "")
    for pool, word in POOLINGS.items():
        if pooling.startswith(f"{word} "):
            words += ["--pool", pool]
    return (
        f"obygaze store import FILE --manifest {shell_word(manifest)}"
        f" {shlex.join(words)} -o STORE, if the same model made these in the same way"
    )


def _was_imported(model: SavedModel) -> bool:
    """Return whether the features of the training were imported."""
    backbone = model.info.features.backbone
    is_joined = backbone.startswith(JOINED_TITLE)
    is_import = backbone.endswith(IMPORTED) or backbone.startswith(UNKNOWN_FACT)
    return is_import and not is_joined


def other_store(model: SavedModel, store: Store) -> str:
    """Return what a model reads, for a store that it does not read."""
    if store.recipe.is_unknown and _was_imported(model):
        return _what_imports(model, "MANIFEST")
    if model.info.features.backbone.startswith(JOINED_TITLE):
        return _what_joins(model)
    trained_on = shell_word(model.info.features.store)
    return f"a store of the recipe of {trained_on}, on which it was trained"


def array_for(model: SavedModel, store: Store) -> str:
    """Return the array that a model reads; an import's only array may have another name."""
    if store.recipe.is_unknown and len(store.feature_arrays) == 1:
        return store.feature_arrays[0]
    return model.info.features.array


def has_recipe(model: SavedModel, store: Store) -> bool:
    """Return whether a store was made as that of the training clips of a model.

    A model of clips reads windows: a window has the features of the clip that has its pictures.
    """
    recipes = (store.recipe, store.recipe.of_clips)
    wanted = model.info.features.fingerprint
    return wanted in [recipe.fingerprint for recipe in recipes]


def _stores_that_fit(
    model: SavedModel, here: Workspace, manifest: Manifest | None = None
) -> list[str]:
    """Return the stores of the workspace that a model reads; with a manifest, those of its clips.

    These were made of the manifest, that with most features first; where none was, they have all
    of its clips.
    """
    fitting = []
    made_of_it: dict[str, int] = {}
    for name in here.names("stores"):
        # A store that cannot be read does not hide the others.
        with suppress(ObygazeError, OSError):
            store = open_store(name, workspace=here)
            if not has_recipe(model, store):
                continue
            array = store.record.array(array_for(model, store))
            if array is None or array.dtype != model.info.features.dtype:
                continue
            if manifest is None or _n_clips_in(model, store, manifest) == len(manifest):
                fitting.append(name)
            if manifest is not None and _was_made_of(manifest, model, store):
                made_of_it[name] = store.record.rows.ok
    return sorted(made_of_it, key=made_of_it.__getitem__, reverse=True) or fitting


def _was_made_of(manifest: Manifest, model: SavedModel, store: Store) -> bool:
    """Return whether a store was made of a manifest, which another laboratory may call so, too."""
    if store.record.manifest.name != manifest.name:
        return False
    if model.info.features.rule:
        return _n_clips_in(model, store, manifest) > 0
    return store.has_clip_of(manifest)


def _n_clips_in(model: SavedModel, store: Store, manifest: Manifest) -> int:
    """Return how many clips of a manifest a store has; 0 where it has others of their ids.

    Of segments, it has those of whose films it has windows.
    """
    if model.info.features.rule:
        films = store.table.films.runs_of_film
        return sum(clip.movie_id in films for clip in manifest)
    try:
        matched = match(manifest.clips, store)
    except Mismatch:
        return 0
    return int((matched.rows >= 0).sum())


def windows_for_clips(
    model: SavedModel, store: Store, manifest: Manifest | None
) -> str:
    """Return a sentence if windows, or whole films, are scored by a model of clips, else ""."""
    long = long_clips(manifest) if manifest is not None else ""
    if long and model.info.training.median_s:
        return f"{_trained_on(model)}; {long}"
    reads_same_windows = store.fingerprint == model.info.features.fingerprint
    if not store.recipe.grid or model.info.features.rule or reads_same_windows:
        return ""
    seconds = store.recipe.grid.get("seconds")
    length = f" of {seconds:g} s" if seconds else ""
    return f"{_trained_on(model)}, and these are windows{length}"


def _was_trained_on_windows(model: SavedModel) -> bool:
    return bool(model.info.features.grid)


def _trained_on(model: SavedModel) -> str:
    """Return in words what a model was trained on: windows, segments, or clips of a length."""
    noun = "windows" if _was_trained_on_windows(model) else "clips"
    if model.info.features.rule:
        noun = "segments"
    length_s = model.info.training.median_s
    length = f" of {length_s:.3g} s (median)" if length_s else ""
    return f"{model.info.name} was trained on {noun}{length}"


def _grid_of(model: SavedModel) -> str:
    """Return the options that cut a film as the training clips were cut; "" if nobody knows."""
    length_s = model.info.training.median_s
    of_clips = {"seconds": length_s} if length_s else {}
    return _as_options(model.info.features.grid or of_clips)


def _as_options(grid: Mapping[str, float]) -> str:
    options = []
    for name in ("window", "stride", "seconds", "every"):
        if name in grid:
            value = grid[name]
            is_whole = value == int(value)
            options.append(f"--{name} {int(value) if is_whole else value}")
    return " ".join(options)

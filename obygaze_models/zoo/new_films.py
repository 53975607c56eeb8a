"""The features of films that somebody wants scores for: which store has them, or what makes it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, ObygazeError
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import STORE, PathLike, Workspace, is_url
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.adapters.folder import (
    is_folder_of_videos,
    manifests_of_folder,
    warn_of_other_videos,
)
from obygaze_features.manifest.adapters.folder import read as read_folder
from obygaze_features.manifest.listing import as_clips
from obygaze_features.manifest.model import Windows
from obygaze_features.manifest.times import long_clips
from obygaze_features.store import Store, open_store
from obygaze_features.store.joining import (
    JOINED,
    JoinedPart,
)
from obygaze_features.store.matching import match
from obygaze_features.store.recipe import (
    IMPORTED,
    UNKNOWN_FACT,
    Recipe,
    is_made_of,
    joined_parts,
)

if TYPE_CHECKING:
    from obygaze_models.zoo.saving import SavedModel

_OF_CLIPS = "words, which clips have and windows do not"
_SAME_IMPORT = (
    "imports have the same recipe with the same --backbone and --fact: import both so, each under"
    " a new name (-o), and train again"
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
    reads_words = _reads_words(model, here)
    # Without a grid nobody knows into what whole films are to be cut.
    may_be_long = not grid and not reads_words
    usable = [
        name for name, one in of_folder.items() if may_be_long or not long_clips(one)
    ]
    if fitting or usable:
        what = f"the films of the folder {text}"
        name = _only_one(model, fitting or usable, what)
        return of_folder.pop(name), [*of_folder]
    imported = read_folder(path).manifest
    name = shell_word(here.unused_name("manifests", imported.name))
    quoted = shell_word(text)
    command = f"obygaze manifest import {quoted} -o {name}"
    link = f"obygaze manifest link {name} {quoted}"
    of_table = f"obygaze manifest import TABLE -o {name} and {link}"
    if long_clips(imported) and reads_words:
        raise FixInput(
            "no manifest has the clips of the films in this folder, and"
            f" {model.info.name} reads {_OF_CLIPS}",
            where=text,
            hint=f"where a table has their scenes, {of_table}",
        )
    length = ""
    if grid and (_was_trained_on_windows(model) or long_clips(imported)):
        command = f"obygaze manifest windows {quoted} -o {name} {grid}"
        length = f", and {_trained_on(model)}"
    raise FixInput(
        f"no manifest has the clips of the films in this folder{length}",
        where=text,
        hint=f"{command}, then the same command again; or, where a table has their scenes,"
        f" {of_table}",
    )


def what_makes_features(model: SavedModel, manifest: Manifest, here: Workspace) -> str:
    """Return the command that makes the features of a manifest that a model reads."""
    wanted = model.info.features
    name = shell_word(manifest.name)
    has_video = _has_video(manifest)
    if isinstance(manifest.clips, Windows) and _reads_words(model, here):
        clips = here.unused_name("manifests", f"{manifest.name}-clips")
        return f"{as_clips(manifest.name, clips)}: {model.info.name} reads {_OF_CLIPS}"
    if _was_imported(model, here):
        return _what_imports(model, manifest.name)
    recipe = _recipe_of(model, here)
    backbone = wanted.backbone if recipe is None else recipe.backbone
    is_joined = _is_joined(model, here)
    reads_words = _reads_words(model, here)
    if recipe is not None and reads_words and not is_joined:
        words_of = f"obygaze extract words {name} -b {shell_word(backbone)}"
        return f"{words_of} --subtitles {recipe.words_of_clips}"
    if not has_video and (not is_joined or _was_trained_on_windows(model)):
        return f"obygaze manifest link {name} FOLDER, with the folder of the films"
    grid = _grid_of(model)
    is_to_be_cut = bool(long_clips(manifest)) and not reads_words
    if _was_trained_on_windows(model):
        is_to_be_cut = _as_options(manifest.header.grid.to_json()) != grid
    if has_video and grid and is_to_be_cut:
        new_name = here.unused_name("manifests", f"{manifest.name}-cut")
        cut = shell_word(new_name)
        if wanted.rule:
            made = f"obygaze extract run {cut} -b {shell_word(backbone)}"
            if is_joined:
                made = _what_joins(model, new_name, None, here)
            return (
                f"obygaze manifest windows {name} -o {cut} {grid}, then {made},"
                f" as {model.info.name} reads windows of the films"
            )
        return (
            f"obygaze manifest windows {name} -o {cut} {grid},"
            f" as {_trained_on(model)}; then predict {cut}"
        )
    if is_joined:
        return _what_joins(model, manifest.name, manifest, here)
    command = f"obygaze extract run {name} -b {shell_word(backbone)}"
    store = f"{manifest.name}.{backbone.replace('@', '-')}"
    if _has_other_windows(store, manifest, here):
        new_store = shell_word(here.unused_name("stores", store))
        command += f" --store {shell_word(backbone)}={new_store}"
    return command


def _has_other_windows(store: str, manifest: Manifest, here: Workspace) -> bool:
    """Return whether a store of the workspace has windows of another grid than a manifest."""
    if store not in here.names("stores"):
        return False
    grid = open_store(store, workspace=here).recipe.grid
    return grid != manifest.header.grid.to_json()


def _has_video(manifest: Manifest) -> bool:
    return any(clip.video for clip in manifest.clips[:1000])


def _what_joins(
    model: SavedModel, name: str, manifest: Manifest | None, here: Workspace
) -> str:
    """Return the commands that make the joined features that a model reads, in their order.

    Args:
        model: The model.
        name: The name of the manifest of the clips.
        manifest: The manifest; None if it is still to be made.
        here: The workspace.
    """
    recipe = _recipe_of(model, here)
    quoted = shell_word(name)
    if recipe is None:
        return (
            f"for each part of {model.info.features.backbone!r} a store of the clips of {name}: one"
            f" that is called{IMPORTED} is imported with its name as that of the backbone, each"
            " other one is extracted; then join these stores (obygaze store join --help)"
        )
    to_extract: dict[str, None] = {}
    others: dict[str, None] = {}
    stores = []
    for part in joined_parts(recipe):
        made_so, with_clips = _stores_of_part(model, part, manifest, here)
        title = part.title.removesuffix(IMPORTED)
        backbone = made_so.backbone if made_so and part.medium else title
        store = shell_word(f"{name}.{backbone.replace('@', '-')}")
        words = f"-b {shell_word(backbone)}"
        if with_clips:
            store = shell_word(with_clips)
        elif part.medium == "words":
            texts = made_so.words_of_clips if made_so else "FOLDER"
            command = f"obygaze extract words {quoted} {words} -o {store}"
            others[f"{command} --subtitles {texts}"] = None
        elif part.medium:
            to_extract[words] = None
        else:
            command = f"obygaze store import FILE --manifest {quoted}"
            others[f"{command} --backbone {shell_word(title)} -o {store}"] = None
        stores.append(f"{store}:{shell_word(part.array)}")
    joined = shell_word(here.unused_name("stores", f"{name}.joined"))
    steps = [*others, f"obygaze store join {' '.join(stores)} -o {joined}"]
    if to_extract:
        steps.insert(0, f"obygaze extract run {quoted} {' '.join(to_extract)}")
    if to_extract and manifest and not _has_video(manifest):
        steps.insert(0, f"obygaze manifest link {quoted} FOLDER")
    return ", then ".join(steps)


def _stores_of_part(
    model: SavedModel, part: JoinedPart, manifest: Manifest | None, here: Workspace
) -> tuple[Recipe | None, str]:
    """Return the recipe of a part, and a store that has it of all clips of a manifest.

    The recipe is None, and the store "", where the workspace has none.
    """
    recipe = None
    with_clips = ""
    for name in here.names("stores"):
        # A store that cannot be read does not hide the others.
        with suppress(ObygazeError, OSError):
            store = open_store(name, workspace=here)
            if not is_made_of(part, store.recipe):
                continue
            recipe = store.recipe
            if manifest and _n_clips_in(model, store, manifest) == len(manifest):
                with_clips = name
    return recipe, with_clips


def _what_imports(model: SavedModel, manifest: str) -> str:
    """Return how features of new films are imported for a model of imported ones."""
    title = model.info.features.backbone
    if not title.endswith(IMPORTED):
        return _SAME_IMPORT
    backbone = shell_word(title.removesuffix(IMPORTED))
    return (
        f"obygaze store import FILE --manifest {shell_word(manifest)} --backbone {backbone}"
        f" -o STORE, with the --fact and --pool of the features that {model.info.name} was trained"
        " on, if the same model made these in the same way"
    )


def _recipe_of(model: SavedModel, here: Workspace) -> Recipe | None:
    """Return the recipe that a model reads; None where no store of the workspace has it."""
    for store in _stores_that_fit(model, here):
        return open_store(store, workspace=here).recipe
    return None


def expected_features(model: SavedModel, store: Store, here: Workspace) -> str:
    """Return which features a model reads, and what a store of another recipe has instead."""
    wanted = model.info.features
    recipe = _recipe_of(model, here)
    if recipe is not None and recipe.files:
        there = store.recipe.files or store.recipe.title
        return f"features of {recipe.files}, got those of {there}"
    if recipe is not None and recipe.title == store.recipe.title:
        found = recipe.diff(store.recipe, ("wanted", "in this store"))
        differences = few([line for _, line in found], 3)
        return f"features of {wanted.backbone} of another recipe: {differences}"
    return (
        f"features of {wanted.backbone} with fingerprint {wanted.fingerprint[:12]}, got"
        f" {store.fingerprint[:12]} ({store.recipe.title})"
    )


def _is_joined(model: SavedModel, here: Workspace) -> bool:
    """Return whether a model reads joined features.

    The recipe says it. Where no store of the workspace has it, a model has no more than its title.
    """
    recipe = _recipe_of(model, here)
    if recipe is None:
        return model.info.features.backbone.startswith(f"{JOINED}: ")
    return bool(joined_parts(recipe))


def _reads_words(model: SavedModel, here: Workspace) -> bool:
    """Return whether a model reads words, alone or joined, which are made for clips only."""
    recipe = _recipe_of(model, here)
    return recipe is not None and "words" in recipe.medium.split(" and ")


def _was_imported(model: SavedModel, here: Workspace) -> bool:
    """Return whether the features of the training were imported."""
    if _is_joined(model, here):
        return False
    backbone = model.info.features.backbone
    return backbone.endswith(IMPORTED) or backbone.startswith(UNKNOWN_FACT)


def other_store(model: SavedModel, store: Store, here: Workspace) -> str:
    """Return which stores a model reads, or what makes one, for one that it does not read."""
    clips = store.find_manifest(here)
    if store.recipe.is_unknown and _was_imported(model, here):
        return _what_imports(model, clips.name if clips else "MANIFEST")
    fitting = _stores_that_fit(model, here, clips)
    if clips is not None and not fitting:
        return what_makes_features(model, clips, here)
    if not fitting:
        return "a store of the same recipe; obygaze store info shows the fingerprint of each"
    return f"{' or '.join(fitting)}, of the same recipe"


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

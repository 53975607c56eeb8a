"""Make new stores from old ones: a selection of one, or several of the same recipe as one."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features import __version__
from obygaze_features.core.clip_ids import ClipIds, clip_ids
from obygaze_features.core.console import Progress, Quiet, count, few
from obygaze_features.core.errors import FixInput, Mismatch, NotFound
from obygaze_features.core.files import canonical_json, sha256_bytes
from obygaze_features.core.options import CLIPS, PYTHON_ONLY, Bar, Option
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest, clips_sha256, sort_key
from obygaze_features.store.format.makers import Kind, Maker
from obygaze_features.store.format.recipe import FACTS, ORIGIN
from obygaze_features.store.format.records import Derivation, Terms
from obygaze_features.store.format.schema import OK, ArraySpec, RowStatus, TextTable
from obygaze_features.store.read.reader import PULL_AGAIN, Store, open_store
from obygaze_features.store.remote.versions import (
    rows_withdrawn_later,
    text_of_withdrawn_later,
)
from obygaze_features.store.write.create import create_store, even_rows_of_block
from obygaze_features.store.write.licence import (
    checked_licence,
    require_terms,
    warn_of_unknown_licence,
)
from obygaze_features.store.write.writer import StoreWriter, refuse_mixture

NO_LICENCE = "none stated"


class Origin(NamedTuple):
    """A row of a store that has a clip, and its status."""

    store: Store
    row: int
    status: RowStatus


@dataclass(frozen=True)
class Copied:
    """The result of a copy into a new store.

    `n_present` blocks were in the store before and were not copied. `in_several` of the clips are
    in several stores; `n_differing` of those copied are ok in another with other numbers. Blocks
    with a clip that no store holds are pending. `withdrawn_later` of the clips are withdrawn in a
    later version of their store, and have features here.
    """

    path: Path
    n_clips: int
    n_blocks: int
    pending_blocks: int
    in_several: int
    n_differing: int
    sealed: bool
    n_present: int = 0
    withdrawn_later: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of the copy."""
        return {**asdict(self), "path": str(self.path)}

    def __str__(self) -> str:
        pending = count(self.pending_blocks, "block")
        state = "sealed" if self.sealed else f"{pending} still to extract, not sealed"
        blocks = count(self.n_blocks, "block")
        clips = count(self.n_clips, "clip")
        return f"{self.path}: {clips}, {blocks} copied, {state}"

    @property
    def notes(self) -> list[str]:
        """How many clips are in several stores."""
        notes = []
        if self.in_several:
            clips = count(self.in_several, "clip")
            notes.append(f"{clips} in several stores; the first that is ok counts")
        return notes

    @property
    def warnings(self) -> list[str]:
        """What was in the store before, and how many clips have other numbers in another."""
        warnings = []
        if self.n_present:
            warnings.append(text_of_present(self.path, self.n_present, self.n_blocks))
        if self.n_differing:
            clips = count(self.n_differing, "clip")
            warnings.append(
                f"{clips} with other numbers in another of these stores (obygaze store diff)"
            )
        if self.withdrawn_later:
            warnings.append(text_of_withdrawn_later(self.path, self.withdrawn_later))
        return warnings


def text_of_present(path: str | os.PathLike[str], n_present: int, n_copied: int) -> str:
    """Return a sentence on the blocks that were in a store before a command wrote to it.

    Args:
        path: The store.
        n_present: How many blocks were there.
        n_copied: How many were written.
    """
    blocks = count(n_present, "block")
    written = "nothing was copied"
    if n_copied:
        written = "only the others were copied"
    return (
        f"{os.fspath(path)} was there before, with {blocks}: {written}. Whether its features are "
        "those that another name would get now was not compared (obygaze store diff compares two "
        "stores)"
    )


@dataclass(frozen=True)
class ManifestClips:
    """The manifest of a new store, and its clips in the order of the rows."""

    name: str
    sha256: str
    clip_ids: Sequence[str]
    movie_ids: Sequence[str]


def subset(
    store: str | os.PathLike[str] | Store,
    path: Annotated[str | os.PathLike[str], Option("-o --output", metavar="NAME")],
    *,
    films: Annotated[Iterable[str] | None, Option("--film")] = None,
    clips: Annotated[ClipIds | None, CLIPS] = None,
    mask: Annotated[npt.ArrayLike | None, PYTHON_ONLY] = None,
    arrays: Annotated[Sequence[str] | None, Option("--array")] = None,
    progress: Annotated[Progress | None, Bar("copy")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Copied:
    """Make a store of some clips or arrays of another.

    Times and masks are copied too. The same command again continues where it was stopped. Of a
    partial copy, by default all that it holds is copied.

    Args:
        store: The store.
        path: The new store: a name or a folder.
        films: Only the clips of this film, an id.
        clips: Only these clips, separated by commas, or those in a file: one id a line, or a
            column clip_id.
        mask: Only the rows for which this is true.
        arrays: Only this array.
        progress: Counts clips.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store subset obygaze12-xclip --film tt0108160 -o one-film
        obygaze store subset obygaze12-xclip --array pooled --array clip -o small
        obygaze store subset obygaze12-xclip --clips chosen.txt -o chosen
    """
    source = open_store(store, workspace=workspace)
    ids = None if clips is None else clip_ids(clips)
    target = Workspace.of(workspace).new_store(path)
    specs = source.chosen_arrays(arrays)
    if (
        ids is None
        and films is None
        and mask is None
        and source.commits.partial is not None
    ):
        mask = _is_held(source, specs)
    selection = source.select(ids, films, mask)
    unknown = selection.clip_ids[selection.rows < 0].tolist()
    if unknown:
        raise NotFound(
            f"{count(len(unknown), 'clip')} not in the store, the first is {unknown[0]!r}",
            where=source.location,
            hint="correct these ids; obygaze store info lists those of the store",
            details=unknown[:20],
        )
    rows = np.unique(selection.rows)
    if not len(rows):
        raise FixInput(
            "no clip of the store is selected",
            where=source.location,
            hint="other --film or --clips; --clips takes ids, or a file with one id a line",
        )
    absent = rows[~_is_held(source, specs)[rows]]
    if len(absent):
        first = source.clip_ids_of(absent[:1])[0]
        raise NotFound(
            f"this copy is partial and does not hold {count(len(absent), 'clip')} of the selected, "
            f"the first is {first!r}",
            where=source.location,
            hint=f"{PULL_AGAIN}, or other --film, --clips or --array",
        )
    return copy_rows(source, target, rows, specs, progress)


def _is_held(store: Store, arrays: Sequence[ArraySpec]) -> npt.NDArray[np.bool_]:
    """Return, for each row of a store, whether a partial copy holds all of some arrays."""
    plan = store.plan
    partial = store.commits.partial
    if partial is None:
        return np.ones(plan.n_clips, dtype=bool)
    is_block_held = np.ones(plan.n_blocks, dtype=bool)
    for block in range(plan.n_blocks):
        is_block_held[block] = all(partial.holds(spec.name, block) for spec in arrays)
    return np.repeat(is_block_held, plan.block_rows)[: plan.n_clips]


def copy_rows(
    source: Store,
    path: Path | str,
    rows: npt.NDArray[np.int64],
    arrays: Sequence[ArraySpec],
    progress: Progress | None = None,
    *,
    terms: Terms | None = None,
    derived: Derivation | None = None,
) -> Copied:
    """Make a store of some rows, in ascending order, and some arrays of another.

    Its licence and citation are `terms`, by default those that count for the other store. With
    `derived`, it has the identity of this part.
    """
    plan = source.plan
    manifest = ManifestClips(
        plan.manifest_name,
        plan.manifest_sha256,
        source.clip_ids_of(rows).tolist(),
        source.movie_ids_of(rows).tolist(),
    )
    return _copy(
        [source],
        [rows.tolist()],
        Path(path),
        manifest,
        arrays,
        terms or source.terms,
        progress,
        derived=derived,
    )


def merge(
    stores: Sequence[str | os.PathLike[str] | Store],
    path: Annotated[str | os.PathLike[str], Option("-o --output", metavar="NAME")],
    *,
    manifest: str | os.PathLike[str] | Manifest | ManifestClips | None = None,
    licence: str = "",
    seal: bool = True,
    mixed: bool = False,
    progress: Annotated[Progress | None, Bar("copy")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Copied:
    """Make one store of several of the same recipe.

    Stores of different licences are an error, unless --licence decides. All citations are kept.
    Clips of two versions of this program, of a CPU and a GPU, or of two precisions are an error,
    unless --mixed allows it. A clip that several stores hold is taken from the first in which it
    is ok.

    With a manifest, blocks whose clips are all in these stores are copied, and the others stay
    pending for `obygaze extract run`.

    Args:
        stores: The stores.
        path: The new store: a name or a folder.
        manifest: Plan the new store for the clips of this manifest.
        licence: The licence, if theirs differ.
        seal: Seal it if complete.
        mixed: Allow clips of several versions or kinds of device.
        progress: Counts clips.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store merge films-1-6 films-7-12 -o all-films
        obygaze store merge old --manifest larger -o larger-xclip
        obygaze store merge ours theirs --licence CC-BY-NC-4.0 -o both
    """
    sources = [open_store(store, workspace=workspace) for store in stores]
    target = Workspace.of(workspace).new_store(path)
    if not sources:
        raise FixInput("merge needs at least one store, got none")
    first = sources[0]
    _require_one_backbone(sources)
    for other_store in sources[1:]:
        _refuse_other_files(first, other_store)
        first.recipe.require(
            other_store.recipe,
            where=other_store.location,
            message="only stores of the same recipe can be merged",
            hint="files of the same model become one store if one `store import` names all of them",
        )
        if other_store.held_arrays != first.held_arrays:
            ours = _names_of(first.held_arrays)
            theirs = _names_of(other_store.held_arrays)
            raise Mismatch(
                f"the arrays of these stores are not the same: {ours}, and {theirs}",
                where=other_store.location,
                hint="obygaze store subset --array ..., then merge what both have",
            )
    warn_of_unknown_licence(licence)
    terms = _joint_terms(sources, checked_licence(licence))
    clips = _clips_to_merge(sources, manifest, workspace)
    rows = [store.select(clips=clips.clip_ids).rows.tolist() for store in sources]
    if not mixed:
        kinds: set[Kind] = set()
        for store in sources:
            kinds.update(store.commits.made_by().kinds)
        refuse_mixture(kinds, where=str(target))
    return _copy(
        sources,
        rows,
        target,
        clips,
        first.held_arrays,
        terms,
        progress,
        seal=seal,
    )


def _clips_to_merge(
    sources: Sequence[Store],
    manifest: str | os.PathLike[str] | Manifest | ManifestClips | None,
    workspace: str | os.PathLike[str] | None,
) -> ManifestClips:
    """Return the clips of a merged store: those of its manifest, or of all its sources."""
    if manifest is None:
        return _union(sources)
    if isinstance(manifest, ManifestClips):
        return manifest
    whole = read_manifest(manifest, workspace=workspace)
    # As an extraction plans it, so that a run can fill the blocks that stay pending.
    clips = sorted(whole, key=sort_key)
    clip_ids = [clip.clip_id for clip in clips]
    movie_ids = [clip.movie_id for clip in clips]
    sha256 = clips_sha256(zip(clip_ids, movie_ids, strict=True))
    return ManifestClips(whole.name, sha256, clip_ids, movie_ids)


def _names_of(arrays: Sequence[ArraySpec]) -> str:
    return ", ".join(
        f"{spec.name} {list(spec.tail_shape)} {spec.dtype}" for spec in arrays
    )


def _require_one_backbone(stores: Sequence[Store]) -> None:
    """Raise an error if stores have features of several backbones."""
    names = []
    for store in stores:
        recipe = store.recipe.to_json()
        stated = recipe.get("told", {}).get("backbone", "")
        names.append(recipe.get("backbone", {}).get("name", stated))
    different = list(dict.fromkeys(name for name in names if name))
    if len(different) > 1:
        raise Mismatch(
            f"a store has the features of one backbone, these have {' and '.join(different)}",
            where=stores[-1].location,
            hint="leave them apart: obygaze run takes several, each with --store",
        )


def _refuse_other_files(first: Store, other: Store) -> None:
    """Raise an error for two imports that differ in their files alone."""
    if not first.recipe.is_unknown or not other.recipe.is_unknown:
        return
    of_files = f"{FACTS}.{ORIGIN}"
    keys = [difference.key for difference in first.recipe.diff(other.recipe)]
    if keys and all(f"{key}.".startswith(f"{of_files}.") for key in keys):
        raise Mismatch(
            "these stores are imports of other files with the same facts; whether the features were"
            " made in the same way is not known, so they are not merged",
            where=other.location,
            hint="files of the same model become one store if one `store import` names all of them",
        )


def _joint_terms(sources: Sequence[Store], licence: str) -> Terms:
    """Return the licence of several stores, which must be one or given, and all citations."""
    stores_of: dict[str, list[str]] = {}
    for store in sources:
        stores_of.setdefault(store.licence, []).append(store.location)
    if len(stores_of) > 1 and not licence:
        details = [
            f"{name or NO_LICENCE}: {few(locations)}"
            for name, locations in stores_of.items()
        ]
        raise Mismatch(
            f"these stores have different licences: {' and '.join(map(_shown, stores_of))}",
            hint="--licence NAME, the licence of the new store, if all of them allow it",
            details=details,
        )
    if not licence:
        licence = next(iter(stores_of))
    citations = dict.fromkeys(store.citation for store in sources if store.citation)
    return Terms(licence, "\n".join(citations))


def _shown(licence: str) -> str:
    return repr(licence) if licence else NO_LICENCE


def _union(sources: Sequence[Store]) -> ManifestClips:
    film_of: dict[str, str] = {}
    for store in sources:
        pairs = zip(store.clip_ids.tolist(), store.movie_ids.tolist(), strict=True)
        for clip, film in pairs:
            if film_of.setdefault(clip, film) != film:
                raise Mismatch(f"clip {clip!r} has two films", where=store.location)
    clips = sorted(
        film_of, key=lambda clip: (natural_order(film_of[clip]), natural_order(clip))
    )
    plans = {store.plan.manifest_sha256: store.plan.manifest_name for store in sources}
    name = " + ".join(plans.values())
    sha256 = next(iter(plans))
    if len(plans) > 1:
        sha256 = sha256_bytes(canonical_json(sorted(plans)))
    return ManifestClips(name, sha256, clips, [film_of[clip] for clip in clips])


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key by which scene 10 comes after scene 9."""
    # By length, then digits: Python makes no number of more than 4300 digits.
    key = []
    for word in re.split(r"(\d+)", name):
        if not word:
            continue
        if word.isdecimal():
            digits = word.lstrip("0")
            key.append((0, len(digits), digits))
        else:
            key.append((1, 0, word))
    return key


def _copy(
    sources: Sequence[Store],
    rows: Sequence[Sequence[int]],
    path: Path,
    manifest: ManifestClips,
    arrays: Sequence[ArraySpec],
    terms: Terms,
    progress: Progress | None,
    *,
    seal: bool = True,
    derived: Derivation | None = None,
) -> Copied:
    plan = sources[0].plan
    for store in sources:
        # Reads the seal: a damaged one is found before anything is written.
        _ = store.sealed
    origins = _origins_of_clips(sources, rows, [spec.name for spec in arrays])
    block_rows = min(plan.block_rows, len(manifest.clip_ids))
    _refuse_lost_withdrawals(origins, even_rows_of_block(block_rows, arrays))
    create_store(
        path,
        recipe=plan.recipe,
        manifest_name=manifest.name,
        manifest_sha256=manifest.sha256,
        clip_ids=manifest.clip_ids,
        movie_ids=manifest.movie_ids,
        arrays=arrays,
        licence=terms.licence,
        citation=terms.citation,
        block_rows=plan.block_rows,
        compressor=plan.compressor,
        derived=derived,
    )
    # A store that was there before may have others.
    require_terms(path, terms)
    progress = progress or Quiet()
    progress.expect(len(manifest.clip_ids))
    # Who made a mixture of clips has allowed it, and a part of a mixture is one too.
    writer = StoreWriter(path, recipe=plan.recipe, mixed=True)
    writer.clean_litter()
    n_present = _n_present(writer)
    n_copied, n_differing = _copy_blocks(writer, origins, progress)
    text = _first_text(sources)
    pending = len(writer.pending_blocks())
    if text is not None and not writer.sealed:
        writer.add_text(text)
    if not pending and seal:
        writer.seal()
    return Copied(
        path=path,
        n_clips=writer.plan.n_clips,
        n_blocks=n_copied,
        pending_blocks=pending,
        in_several=sum(len(of_clip) > 1 for of_clip in origins),
        n_differing=n_differing,
        sealed=writer.sealed,
        n_present=n_present,
        withdrawn_later=_n_withdrawn_later(origins),
    )


def _refuse_lost_withdrawals(
    origins: Sequence[Sequence[Origin]], block_rows: int
) -> None:
    """Raise an error where a block that stays pending has a clip that is withdrawn.

    Only a committed block says so: an extraction of this one would bring the clip back.
    """
    lost: list[Origin] = []
    for first in range(0, len(origins), block_rows):
        origins_of_block = origins[first : first + block_rows]
        if all(origins_of_block):
            continue
        for of_clip in origins_of_block:
            lost += [origin for origin in of_clip if origin.status.is_withdrawn][:1]
    if not lost:
        return
    ids = [str(origin.store.clip_ids[origin.row]) for origin in lost]
    raise FixInput(
        f"{count(len(ids), 'withdrawn clip')} would be extracted again, the first is {ids[0]!r}: "
        "the same blocks have clips that none of these stores has",
        where=lost[0].store.location,
        hint="merge without --manifest; then obygaze extract run MANIFEST --store NAME=STORE adds "
        "the other clips as a new version",
        details=ids[:20],
    )


def _n_withdrawn_later(origins: Sequence[Sequence[Origin]]) -> int:
    """Return how many of the copied clips are withdrawn in a later version of their store."""
    stores = {origin.store for of_clip in origins for origin in of_clip}
    rows_of = {store: rows_withdrawn_later(store.files) for store in stores}
    n_clips = 0
    for of_clip in origins:
        for origin in _ok_or_first(of_clip)[:1]:
            n_clips += origin.row in rows_of[origin.store]
    return n_clips


def _n_present(writer: StoreWriter) -> int:
    """Return how many blocks are in a store."""
    return writer.plan.n_blocks - len(writer.pending_blocks())


def _origins_of_clips(
    sources: Sequence[Store], rows: Sequence[Sequence[int]], names: Sequence[str]
) -> list[list[Origin]]:
    """Return where each clip is, of the stores that have some arrays of it."""
    by_store = [
        _origins(store, rows_of_store, names)
        for store, rows_of_store in zip(sources, rows, strict=True)
    ]
    origins = []
    for of_clip in zip(*by_store, strict=True):
        origins.append([origin for origin in of_clip if origin is not None])
    return origins


def _copy_blocks(
    writer: StoreWriter, origins: Sequence[Sequence[Origin]], progress: Progress
) -> tuple[int, int]:
    """Copy the pending blocks of which all clips are somewhere.

    Return how many blocks were copied, and how many of their clips have other numbers elsewhere.
    """
    origins_to_copy = [_ok_or_first(of_clip) for of_clip in origins]
    n_copied = 0
    n_differing = 0
    for block in writer.pending_blocks():
        first, after = writer.plan.block_range(block)
        origins_of_block = origins_to_copy[first:after]
        if all(origins_of_block):
            is_committed, n_differing_in_block = _copy_block(
                writer, block, origins_of_block
            )
            n_copied += is_committed
            n_differing += n_differing_in_block
        progress.advance(len(origins_of_block))
    return n_copied, n_differing


def _ok_or_first(origins: Sequence[Origin]) -> Sequence[Origin]:
    """Return the origins in which a clip is ok, the first to be copied; else where it failed.

    A clip that is withdrawn in one of them stays so.
    """
    withdrawn = [origin for origin in origins if origin.status.is_withdrawn]
    if withdrawn:
        return withdrawn[:1]
    ok = [origin for origin in origins if origin.status.is_ok]
    return ok or origins[:1]


def _first_text(sources: Sequence[Store]) -> TextTable | None:
    """Return the texts of the first store that has some."""
    for store in sources:
        text = store.text()
        if text is not None:
            return text
    return None


def _origins(
    store: Store, rows: Sequence[int], names: Sequence[str]
) -> Iterator[Origin | None]:
    """Yield where each clip is in a store; None for clips that are not in this copy of it."""
    blocks = sorted({row // store.plan.block_rows for row in rows if row >= 0})
    status_of_row = store.commits.statuses(store.feature_arrays, blocks)
    partial = store.commits.partial
    for row in rows:
        if row < 0:  # no such clip in the store
            yield None
            continue
        status = status_of_row.get(row, OK)
        block = row // store.plan.block_rows
        is_held = partial is None or all(partial.holds(name, block) for name in names)
        if is_held and status.state != "missing":
            yield Origin(store, row, status)
        else:
            yield None


def _copy_block(
    writer: StoreWriter, block: int, origins: Sequence[Sequence[Origin]]
) -> tuple[bool, int]:
    """Copy each clip of a block from its first origin.

    Return whether the block was committed, and how many clips have other numbers in another origin.
    """
    to_copy = [of_clip[0] for of_clip in origins]
    others: list[tuple[int, Origin]] = []
    for index, of_clip in enumerate(origins):
        others += [(index, origin) for origin in of_clip[1:]]
    arrays = {}
    differing = set()
    for spec in writer.plan.arrays:
        copied = _values(spec, to_copy)
        arrays[spec.name] = copied
        of_others = _values(spec, [origin for _, origin in others])
        for (index, _), values in zip(others, of_others, strict=True):
            if not np.array_equal(copied[index], values, equal_nan=spec.is_float):
                differing.add(index)
    is_committed = writer.commit_block(
        block,
        arrays,
        [origin.status for origin in to_copy],
        sources=[origin.store.commits.source(origin.row) for origin in to_copy],
        makers=[_maker(origin) for origin in to_copy],
        versions={"copied_by": f"obygaze {__version__}"},
    )
    return is_committed, len(differing)


def _maker(origin: Origin) -> Maker | None:
    """Return what made a row, without its host: numbers of hosts of two stores are not the same."""
    maker = origin.store.commits.maker(origin.row)
    return None if maker is None else replace(maker, host="")


def _values(spec: ArraySpec, wanted: Sequence[Origin]) -> npt.NDArray[Any]:
    out = np.empty((len(wanted), *spec.tail_shape), dtype=spec.dtype)
    rows = np.array([origin.row for origin in wanted], dtype=np.int64)
    # By the object: two different stores can have one location, such as the same relative path
    # in two folders, or two URLs whose queries are hidden.
    for store in dict.fromkeys(origin.store for origin in wanted):
        is_of_store = np.array([origin.store is store for origin in wanted])
        out[is_of_store] = store.arrays.read(spec, rows[is_of_store])
    return out

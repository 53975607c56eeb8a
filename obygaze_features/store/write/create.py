"""Create an empty store: its folder with store.json, the ids and the arrays."""

import json
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec
from zarr.storage import MemoryStore

from obygaze_features import __version__
from obygaze_features.core.drafts import new_folder, remove_abandoned
from obygaze_features.core.errors import AlreadyThere, FixInput, Mismatch
from obygaze_features.core.files import csv_bytes, sync_dir, write_synced
from obygaze_features.core.own_results import OwnFolder
from obygaze_features.store.format.limits import disk_errors
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.records import (
    CLIPS_FILE,
    MAX_ARRAYS,
    README_FILE,
    Derivation,
    Plan,
)
from obygaze_features.store.format.schema import ID_ARRAYS, ROW_DIM, ArraySpec, FileMark
from obygaze_features.store.read.describe import card_text
from obygaze_features.store.write.licence import complete_terms

BLOCK_ROWS = 64
# With tokens a clip is 1 to 10 MB: 16 of them are 155 MB at most, and a block must fit in memory.
BLOCK_ROWS_LARGE = 16
LARGE_ROW_BYTES = 512_000
# A block is a file of each array. A store of very many clips has larger ones, as far as they fit
# in memory, so that a million clips are a few hundred files.
MANY_BLOCKS = 250
MANY_BLOCKS_BYTES = 128_000_000
# Zarr takes time for each chunk, not for its bytes. But a reader of one clip reads its whole
# chunk, so larger blocks become shards, and clips with tokens are a chunk each.
ONE_CHUNK_BYTES = 1_000_000
INNER_CHUNK_BYTES = 131_072
INNER_CHUNK_ROWS = 32
# Smaller chunks cost more for their entries and checksums than they save.
SMALL_CHUNK_BYTES = 50_000
ID_CHUNK_ROWS = 65_536
COMPRESSORS: dict[str, Any] = {
    "zstd": ZstdCodec(level=3),
    "blosc": BloscCodec(cname="zstd", clevel=3, shuffle="shuffle"),
}
STORE = OwnFolder("store", lambda folder: f"it has no {Plan.FILE}")
# The file of a chunk is `c.0.0`, in one folder for each array. zarr does not export the type.
CHUNK_KEYS: Any = {"name": "default", "separator": "."}


def create_store(
    path: Path | str,
    *,
    recipe: Recipe,
    manifest_name: str,
    manifest_sha256: str,
    clip_ids: Sequence[str],
    movie_ids: Sequence[str],
    arrays: Sequence[ArraySpec],
    licence: str,
    citation: str,
    block_rows: int | None = None,
    compressor: str | None = None,
    derived: Derivation | None = None,
) -> Plan:
    """Make an empty store, or return the plan of the same one if it is there already.

    Safe to call from many processes at once: the folder appears whole, by one rename. Where a
    store of another recipe has that name, the error (exit 5) lists the keys that differ. A store
    that is there without a licence or citation gets the given one (`licence.json`).
    With `derived`, a part of another store gets the identity of this part.
    """
    path = Path(path)
    _check_ids(clip_ids, movie_ids)
    check_arrays(arrays)
    if compressor not in (None, *COMPRESSORS):
        raise FixInput(
            f"unknown compressor {compressor!r}", hint=" or ".join(COMPRESSORS)
        )
    is_size_stated = block_rows is not None
    if block_rows is None:
        row_bytes = sum(spec.row_bytes for spec in arrays)
        block_rows = BLOCK_ROWS
        if row_bytes > LARGE_ROW_BYTES:
            block_rows = BLOCK_ROWS_LARGE
        block_rows = with_fewer_blocks(block_rows, len(clip_ids), row_bytes)
    if block_rows < 1:
        raise FixInput(
            f"block_rows must be at least 1, got {block_rows}", where=str(path)
        )
    block_rows = min(block_rows, len(clip_ids))
    if derived is None:
        derived = Derivation(
            plan_id=uuid.uuid4().hex,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            created_by=f"obygaze {__version__}",
            origins=(),
        )
    plan = Plan(
        n_clips=len(clip_ids),
        block_rows=even_rows_of_block(block_rows, arrays),
        recipe=recipe,
        manifest_name=manifest_name,
        manifest_sha256=manifest_sha256,
        arrays=tuple(arrays),
        licence=licence,
        citation=citation,
        compressor=compressor,
        created=derived.created,
        created_by=derived.created_by,
        plan_id=derived.plan_id,
        origins=derived.origins,
        replaced_versions=derived.replaced_versions,
        zarr={},
        files={},
    )
    if not (path / Plan.FILE).exists():
        with disk_errors(path):
            _publish(path, plan, clip_ids, movie_ids)
    else:
        remove_abandoned(path)
    existing_plan = read_plan(path, recipe)
    # Versions before this one chose other sizes, and did not make them even.
    if not is_size_stated or existing_plan.block_rows == block_rows:
        plan = replace(plan, block_rows=existing_plan.block_rows)
    _require_same(
        path, existing_plan, plan, FileMark.of(clips_csv(clip_ids, movie_ids))
    )
    complete_terms(path, plan.terms)
    return existing_plan


def with_fewer_blocks(block_rows: int, n_clips: int, row_bytes: int) -> int:
    """Return the rows of a block, more of them for a store of very many clips.

    Args:
        block_rows: The rows of a block of a store of other sizes.
        n_clips: The clips of the store.
        row_bytes: The bytes of a clip in all arrays.

    Example:
        >>> with_fewer_blocks(64, 1914, 2048)
        64
        >>> with_fewer_blocks(64, 1_000_000, 2048)
        4096
    """
    while (
        n_clips > MANY_BLOCKS * block_rows
        and 2 * block_rows * row_bytes <= MANY_BLOCKS_BYTES
    ):
        block_rows *= 2
    return block_rows


def read_plan(path: Path, recipe: Recipe | None = None) -> Plan:
    """Return store.json of a store on this machine, which must have `recipe` if that is given."""
    plan = Plan.load(path)
    if recipe is not None:
        differing = [difference.key for difference in plan.recipe.diff(recipe)]
        hint = recipe.another_store
        if recipe.is_unknown:
            hint += f"; or, to import it anew, delete the folder {path}"
        if differing == ["weights.tensors"]:
            hint += (
                "; if your code draws weights at random, torch.manual_seed(0) before the module is "
                "made (obygaze backbones check shows it)"
            )
        plan.recipe.require(
            recipe,
            where=str(path),
            message="this store has another recipe",
            sides=("in the store", "asked for"),
            hint=hint,
        )
    return plan


def clips_csv(clip_ids: Sequence[str], movie_ids: Sequence[str]) -> bytes:
    """Return clips.csv: one line a row, for readers in other languages."""
    rows = zip(range(len(clip_ids)), clip_ids, movie_ids, strict=True)
    return csv_bytes(["row", *ID_ARRAYS], rows)


def _require_same(path: Path, existing_plan: Plan, plan: Plan, clips: FileMark) -> None:
    """Raise an error unless the store that is there has the same plan and the same clips.csv.

    The mark of clips.csv is compared, since people open and save that file. The hash of the
    manifest only explains why clips differ: imports of older versions have that of
    the CSV file, which changes with a label.
    """
    parts = ("n_clips", "block_rows", "arrays", "compressor")
    differing = [
        part for part in parts if getattr(existing_plan, part) != getattr(plan, part)
    ]
    has_same_clips = existing_plan.files.get(CLIPS_FILE) == clips
    if not has_same_clips and existing_plan.manifest_sha256 != plan.manifest_sha256:
        is_other_state = existing_plan.manifest_name == plan.manifest_name
        other_manifest = (
            "another state of the manifest" if is_other_state else "another manifest"
        )
        raise Mismatch(
            f"this store is of {other_manifest} ({existing_plan.manifest_name!r})",
            where=str(path),
            hint=f"{plan.recipe.another_store}; `obygaze store merge` copies the clips both have",
        )
    if not has_same_clips:
        differing.append("clip_ids")
    if differing:
        raise Mismatch(
            f"this store was planned differently: {', '.join(differing)}",
            where=str(path),
            hint=plan.recipe.another_store,
        )


def _publish(
    path: Path, plan: Plan, clip_ids: Sequence[str], movie_ids: Sequence[str]
) -> None:
    """Write a store beside its name, then rename it; nothing happens if it is there already."""
    arrays = _zarr_files(plan, clip_ids, movie_ids)
    files = {f"data.zarr/{key}": data for key, data in arrays.items()}
    files[CLIPS_FILE] = clips_csv(clip_ids, movie_ids)
    documents = {
        key: json.loads(arrays[key]) for key in arrays if key.endswith("zarr.json")
    }
    marks = {name: FileMark.of(data) for name, data in files.items()}
    whole = replace(plan, zarr=documents, files=marks)
    try:
        store_json = whole.to_bytes()
        card = card_text(whole, {}).encode("utf-8")
    except UnicodeEncodeError as error:
        raise FixInput(
            f"a text has characters that UTF-8 does not have: {error.object!r:.80}",
            where=str(path),
            hint="check the licence, the citation, and the names of manifest and dimensions",
        ) from error
    files |= {Plan.FILE: store_json, README_FILE: card}
    try:
        with new_folder(path, STORE) as draft:
            for name in ("commits", "staging"):
                (draft / name).mkdir()
            for name, data in files.items():
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                write_synced(draft / name, data)
    except (AlreadyThere, OSError):
        if not (path / Plan.FILE).exists():
            raise
        sync_dir(path.parent)  # the same store, by another process


def _check_ids(clip_ids: Sequence[str], movie_ids: Sequence[str]) -> None:
    if not clip_ids or len(clip_ids) != len(movie_ids):
        raise FixInput(
            f"got {len(clip_ids)} clips and {len(movie_ids)} films; expected one film for each"
        )
    if len(set(clip_ids)) != len(clip_ids):
        repeated = [clip for clip, n in Counter(clip_ids).items() if n > 1]
        raise FixInput("clip ids must be unique", details=repeated[:20])
    for name in (*clip_ids, *movie_ids):
        if not isinstance(name, str) or not name.isprintable() or not name.strip():
            raise FixInput(f"{name!r} cannot be an id: ids are printable and not empty")


def check_arrays(arrays: Sequence[ArraySpec]) -> None:
    """Raise an error for arrays that cannot be in one store."""
    if not any(spec.is_feature_array for spec in arrays):
        raise FixInput("a store needs at least one array of features")
    if len(arrays) > MAX_ARRAYS:
        raise FixInput(f"{len(arrays)} arrays, expected at most {MAX_ARRAYS}")
    names = [spec.name for spec in arrays]
    if len(set(names)) != len(names):
        raise FixInput(f"two arrays have one name: {', '.join(names)}")
    taken = {ROW_DIM, *ID_ARRAYS, *names}
    sizes: dict[str, int] = {}
    for spec in arrays:
        for dim, size in zip(spec.dims, spec.tail_shape, strict=True):
            # xarray opens no group in which a dimension has two sizes, or the name of an array.
            if sizes.setdefault(dim, size) != size or dim in taken:
                raise FixInput(
                    f"the dimension {dim!r} has two sizes, or the name of an array",
                    where=spec.name,
                )


def id_files(clip_ids: Sequence[str], movie_ids: Sequence[str]) -> dict[str, bytes]:
    """Return the files of the ids below data.zarr, by name."""
    memory: dict[str, Any] = {}
    group = zarr.create_group(MemoryStore(memory), zarr_format=3)
    for name, ids in zip(ID_ARRAYS, (clip_ids, movie_ids), strict=True):
        add_strings(group, name, ids, ROW_DIM, ID_CHUNK_ROWS)
    return {key: memory[key].to_bytes() for key in sorted(memory) if "/" in key}


def _zarr_files(
    plan: Plan, clip_ids: Sequence[str], movie_ids: Sequence[str]
) -> dict[str, bytes]:
    """Return the files of data.zarr of a new store, by name: all metadata, and the ids."""
    memory: dict[str, Any] = {}
    group = zarr.create_group(
        MemoryStore(memory),
        zarr_format=3,
        attributes={"coordinates": " ".join(ID_ARRAYS)},
    )
    for name, ids in zip(ID_ARRAYS, (clip_ids, movie_ids), strict=True):
        add_strings(group, name, ids, ROW_DIM, ID_CHUNK_ROWS)
    for spec in plan.arrays:
        _create_array(group, plan, spec)
    return {key: memory[key].to_bytes() for key in sorted(memory)}


def array_file(plan: Plan, spec: ArraySpec) -> bytes:
    """Return the zarr.json of an array of a store."""
    memory: dict[str, Any] = {}
    group = zarr.create_group(MemoryStore(memory), zarr_format=3)
    _create_array(group, plan, spec)
    data: bytes = memory[f"{spec.name}/zarr.json"].to_bytes()
    return data


def _create_array(group: zarr.Group, plan: Plan, spec: ArraySpec) -> None:
    """Make an empty array in a group, with the chunks and codecs of a store."""
    codecs = [COMPRESSORS[plan.compressor]] if plan.compressor else []
    inner, shard = _chunks(spec, plan.block_rows)
    shard_shape = None
    if shard is not None:
        shard_shape = (shard, *spec.tail_shape)
    fill_value = np.nan if spec.is_float else 0
    group.create_array(
        spec.name,
        shape=(plan.n_clips, *spec.tail_shape),
        chunks=(inner, *spec.tail_shape),
        shards=shard_shape,
        dtype=spec.dtype,
        compressors=[*codecs, Crc32cCodec()],
        fill_value=fill_value,
        chunk_key_encoding=CHUNK_KEYS,
        dimension_names=[ROW_DIM, *spec.dims],
    )


def _chunks(spec: ArraySpec, block_rows: int) -> tuple[int, int | None]:
    """Return the rows of a chunk, and those of a shard if blocks are shards."""
    if block_rows * spec.row_bytes <= ONE_CHUNK_BYTES:
        return block_rows, None
    fitting = min(_fitting_rows(spec), block_rows)
    inner = max(rows for rows in range(1, fitting + 1) if block_rows % rows == 0)
    return inner, block_rows


def _fitting_rows(spec: ArraySpec) -> int:
    """Return the most rows of an inner chunk."""
    return min(INNER_CHUNK_ROWS, max(1, INNER_CHUNK_BYTES // spec.row_bytes))


def even_rows_of_block(block_rows: int, arrays: Sequence[ArraySpec]) -> int:
    """Return the rows of a block, a few more if no number of rows for inner chunks divides them.

    A block of 9973 rows, a prime number, has inner chunks of one row. Of the rows that are added,
    shards store none but those that fill the last inner chunk.
    """
    steps = [1]
    for spec in arrays:
        chunk_rows, shard_rows = _chunks(spec, block_rows)
        # The largest power of two that fits: one that fits less often divides it.
        even_rows = 1 << (_fitting_rows(spec).bit_length() - 1)
        is_small = chunk_rows * spec.row_bytes < SMALL_CHUNK_BYTES
        if shard_rows is not None and is_small and chunk_rows < even_rows:
            steps.append(even_rows)
    step = max(steps)
    if step == 1:
        return block_rows
    # An array that was one chunk may now be a shard.
    return even_rows_of_block(-(-block_rows // step) * step, arrays)


def add_strings(
    group: zarr.Group, name: str, strings: Sequence[str], dim: str, chunk_rows: int
) -> None:
    """Add an array of strings to a group."""
    array = group.create_array(
        name,
        shape=(len(strings),),
        chunks=(min(len(strings), chunk_rows),),
        dtype="string",
        compressors=[Crc32cCodec()],
        fill_value="",
        chunk_key_encoding=CHUNK_KEYS,
        dimension_names=[dim],
    ).with_config({"write_empty_chunks": True})
    array[:] = np.array(strings, dtype=object)

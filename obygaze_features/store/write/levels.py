"""Add a level to a sealed store as a new version: the mean or the maximum of one that it has."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from obygaze_features.core.console import Progress, Quiet, count
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.core.options import Bar, Option
from obygaze_features.store.format.recipe import Recipe
from obygaze_features.store.format.schema import OK, ArraySpec, FileMark
from obygaze_features.store.read.reader import Store
from obygaze_features.store.write.create import array_file, check_arrays
from obygaze_features.store.write.version import (
    NewVersion,
    VersionDraft,
    folder_to_change,
    new_version,
    stated_author,
    stated_reason,
    store_to_change,
)

By = Literal["mean", "max"]
WORDS_OF = {"mean": "mean", "max": "maximum"}


def derive(
    store: str | os.PathLike[str],
    *,
    array: Annotated[str, Option("--array")],
    by: By = "mean",
    name: str = "",
    reason: str = "",
    author: str = "",
    progress: Annotated[Progress | None, Bar("derive")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> NewVersion:
    """Add the mean or the maximum of an array to a store, as a new version of it.

    The vectors of a clip (of its frames, or its tokens) become one vector; frames that only pad a
    short clip are left out. The new array says of which it was made. The recipe stays the same, so
    models that were trained on the store work on.

    Args:
        store: The store: a name or a folder.
        array: The array with several vectors a clip.
        by: What is made of them.
        name: The name of the new array. [default: ARRAY_mean or ARRAY_max]
        reason: Why the version is made. [default: what is added]
        author: Who makes it. [default: the variable OBYGAZE_AUTHOR]
        progress: Counts blocks.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store derive obygaze12-xclip --array frames
        obygaze store derive obygaze12-xclip --array tokens --by max --name pooled
    """
    root = folder_to_change(store, workspace)
    if by not in get_args(By):
        raise FixUsage(f"--by must be mean or max, got {by!r}")
    opened = store_to_change(root)
    spec = _derived_spec(opened, array, by, name or f"{array}_{by}")
    if spec in opened.plan.arrays:
        text = f"the array {spec.name}, the {WORDS_OF[by]} of {array}, is there"
        return NewVersion.of(
            root, opened, "levels", {"levels": 0}, reason, text, is_new=False
        )
    words = f"the array {spec.name}, the {WORDS_OF[by]} of {array}, added"
    stated = stated_reason(reason or words)
    stated_by = stated_author(author)
    numbers = {"levels": 1}
    with new_version(root, opened) as draft:
        add_arrays(
            draft,
            [spec],
            lambda rows: {spec.name: derived_rows(opened, spec, rows)},
            progress or Quiet(),
        )
        made = draft.publish(
            change="levels", reason=stated, author=stated_by, numbers=numbers
        )
    n_ok = made.status().counts["ok"]
    text = f"{words} for {count(n_ok, 'clip')}"
    return NewVersion.of(root, made, "levels", numbers, stated, text)


def _derived_spec(store: Store, array: str, by: str, name: str) -> ArraySpec:
    """Return the new array; an error for one that cannot be made, or is there."""
    source = store.plan.array(array)
    if not source.is_feature_array or not source.is_float or len(source.tail_shape) < 2:
        several = [
            spec.name
            for spec in store.plan.arrays
            if spec.is_feature_array and spec.is_float and len(spec.tail_shape) > 1
        ]
        raise FixInput(
            f"{array!r} does not have several vectors a clip",
            where=store.location,
            hint=f"one of {', '.join(several)}" if several else "no array of it does",
        )
    dtype = source.dtype
    if by == "mean" and dtype == "float16":
        dtype = "float32"
    spec = ArraySpec(
        name,
        source.tail_shape[-1:],
        source.dims[-1:],
        dtype,
        derived_from=array,
        derived_by=by,
    )
    others = [other for other in store.plan.arrays if other != spec]
    if name in _names(others):
        raise FixInput(
            f"this store has another array {name!r}",
            where=store.location,
            hint="--name, another name",
        )
    check_arrays([*others, spec])
    return spec


def add_arrays(
    draft: VersionDraft,
    specs: Sequence[ArraySpec],
    values_of: Callable[[npt.NDArray[np.int64]], Mapping[str, npt.NDArray[Any]]],
    progress: Progress,
    *,
    recipe: Recipe | None = None,
) -> None:
    """Write the metadata of new arrays, and their blocks.

    Args:
        draft: The new version.
        specs: The arrays.
        values_of: Returns the values of some rows by array; those of rows without features are not
            used.
        progress: Counts blocks.
        recipe: The recipe with these arrays, if it is another one than before.
    """
    plan = draft.plan
    files = dict(plan.files)
    documents = dict(plan.zarr)
    for spec in specs:
        data = array_file(plan, spec)
        key = f"{spec.name}/zarr.json"
        name = f"data.zarr/{key}"
        draft.put(name, [data])
        files[name] = FileMark.of(data)
        documents[key] = json.loads(data)
        draft.crc32c[spec.name] = []
    draft.replace_plan(
        replace(
            plan,
            recipe=recipe or plan.recipe,
            arrays=(*plan.arrays, *specs),
            files=files,
            zarr=documents,
        )
    )
    progress.expect(plan.n_blocks)
    for block in range(plan.n_blocks):
        rows = np.arange(*plan.block_range(block))
        is_ok = [draft.status_of_row.get(row, OK).is_ok for row in rows.tolist()]
        values = values_of(rows)
        for spec in specs:
            fill_value = np.nan if spec.is_float else 0
            values[spec.name][~np.array(is_ok)] = fill_value
            draft.put_array(spec, block, values[spec.name])
        progress.advance()


def derived_rows(
    store: Store, spec: ArraySpec, rows: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """Return rows of an array that is made of another array of a store."""
    source = store.plan.array(spec.derived_from)
    vectors = store.arrays.read(source, rows)
    is_real = None
    mask = store.plan.mask_of(source.name)
    if mask is not None:
        is_real = store.arrays.read(mask, rows).astype(bool)
    return derived_values(vectors, is_real, spec)


def derived_values(
    vectors: npt.NDArray[Any],
    is_real: npt.NDArray[np.bool_] | None,
    spec: ArraySpec,
) -> npt.NDArray[Any]:
    """Return the mean or the maximum of the vectors of each clip.

    Args:
        vectors: The vectors [clip, frame, ..., number].
        is_real: Which frames [clip, frame] are not padding; None for all.
        spec: The array of the result.
    """
    axes = tuple(range(1, vectors.ndim - 1))
    if is_real is None:
        is_counted: Any = True
    else:
        # A row without a picture is one that failed, which gets no numbers.
        is_used = is_real | ~is_real.any(axis=1, keepdims=True)
        n_more = vectors.ndim - 2
        is_counted = is_used.reshape(*is_used.shape, *[1] * n_more)
    if spec.derived_by == "mean":
        means = vectors.mean(axis=axes, dtype=np.float64, where=is_counted)
        return np.asarray(means, dtype=spec.dtype)
    greatest = vectors.max(axis=axes, where=is_counted, initial=-np.inf)
    return np.asarray(greatest, dtype=spec.dtype)


def values_of_rows(
    store: Store, spec: ArraySpec, rows: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """Return rows of an array of a store, which are made of another one if it does not have it."""
    if spec.name in _names(store.plan.arrays):
        return store.arrays.read(spec, rows)
    return derived_rows(store, spec, rows)


def _names(arrays: Sequence[ArraySpec]) -> set[str]:
    return {spec.name for spec in arrays}

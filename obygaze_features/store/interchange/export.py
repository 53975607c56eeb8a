"""Write the features of a store in other formats; failed clips are left out."""

import errno
import json
import os
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from obygaze_features import __version__
from obygaze_features.core.console import Progress, Quiet
from obygaze_features.core.drafts import new_file, new_folder
from obygaze_features.core.errors import EXIT_SOME_FAILED, FixInput, FixUsage
from obygaze_features.core.file_names import FileNames
from obygaze_features.core.files import (
    csv_bytes,
    pretty_json,
    sha256_bytes,
)
from obygaze_features.core.lazy import need
from obygaze_features.core.options import Bar, Option
from obygaze_features.core.own_results import OwnFolder, made_by_obygaze
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest, Windows
from obygaze_features.store.format.limits import check_disk, disk_errors
from obygaze_features.store.format.records import README_FILE
from obygaze_features.store.format.schema import ArraySpec
from obygaze_features.store.interchange import Format
from obygaze_features.store.interchange.labels import LabelTerms, check_labels
from obygaze_features.store.interchange.parquet_files import (
    EXTRA,
    SUFFIX,
    ClipTable,
    check_names,
    facts_of_clips,
)
from obygaze_features.store.interchange.source import (
    DAMAGE,
    HDF5_NAMES,
    NPY_NAMES,
    PROVENANCE,
)
from obygaze_features.store.read.describe import columns_card
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.remote.versions import (
    rows_withdrawn_later,
    text_of_withdrawn_later,
)

DATE = (1980, 1, 1, 0, 0, 0)
SHOWN_CLIPS = 20
LABELS = ("level", "concepts")
LABELS_FILE = "labels.csv"
EXPORT_FILE = ".obygaze-export.json"
# The format that the ending of a name stands for.
FORMAT_OF_ENDING: Mapping[str, Format] = {
    ".npz": "npz",
    ".npy": "npy",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".pth": "pth",
    ".pt": "pth",
    ".parquet": "parquet",
}


@dataclass(frozen=True)
class Exported:
    """The result of an export; `left_out` has the reason for each clip without features.

    `labels_of` is the manifest that labels were taken from where none was named, `without_labels`
    a sentence on clips that the manifest of the labels does not have. `n_withdrawn` of the clips
    that are left out were withdrawn, which is not a failure. `withdrawn_later` of those that were
    written are withdrawn in a later version of the store.
    """

    path: Path
    format: str
    n_clips: int
    arrays: Sequence[str]
    left_out: Mapping[str, str]
    labels_of: str = ""
    without_labels: str = ""
    n_withdrawn: int = 0
    withdrawn_later: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of the export."""
        return {**asdict(self), "path": str(self.path)}

    def __str__(self) -> str:
        return f"{self.path}: {self.n_clips} clips, {', '.join(self.arrays)}"

    @property
    def notes(self) -> list[str]:
        """Where labels are from, and the reasons of the first clips that were left out."""
        reasons = list(self.left_out.items())[:SHOWN_CLIPS]
        notes = [f"{clip}: {reason}" for clip, reason in reasons]
        if self.labels_of:
            notes.insert(
                0,
                f"titles, times and labels are those of the manifest {self.labels_of}",
            )
        if self.format == "parquet":
            data = f"{self.path}/data"
            notes.append(
                f'to read it: pandas.read_parquet("{data}"), or '
                f'datasets.load_dataset("{self.path}")'
            )
        return notes

    @property
    def warnings(self) -> list[str]:
        """How many clips got no labels, and how many are withdrawn by now."""
        warnings = [self.without_labels] if self.without_labels else []
        if self.withdrawn_later:
            warnings.append(text_of_withdrawn_later(self.path, self.withdrawn_later))
        return warnings

    @property
    def exit_code(self) -> int:
        """The exit code of the command, which says whether clips failed or are missing."""
        return EXIT_SOME_FAILED if len(self.left_out) > self.n_withdrawn else 0


@dataclass(frozen=True)
class _Job:
    store: Store
    specs: Sequence[ArraySpec]
    rows: Any
    progress: Progress
    compress: bool
    labels: Mapping[str, tuple[str, str]] | None = None
    manifest: Manifest | None = None

    def label(self, clip: str) -> dict[str, str]:
        """Return the level and the concepts of a clip, where labels are exported."""
        values = () if self.labels is None else self.labels.get(clip, ("", ""))
        return dict(zip(LABELS, values, strict=False))

    def blocks(self, spec: ArraySpec) -> Iterator[Any]:
        """Yield the rows of an array, block by block in the store's order."""
        for matrix in self.store.stream(spec.name, mask=self.rows):
            yield matrix
            self.progress.advance(len(matrix.values))

    def clips(self, spec: ArraySpec) -> Iterator[tuple[str, str, Any]]:
        """Yield clip, film and values of each row."""
        for matrix in self.blocks(spec):
            films = self.store.movie_ids[matrix.rows].tolist()
            yield from zip(matrix.clip_ids.tolist(), films, matrix.values, strict=True)


def export_store(
    store: str | os.PathLike[str] | Store,
    path: Annotated[str | Path, Option(metavar="OUTPUT")],
    format: Annotated[Format, Option(is_first=True)],
    *,
    arrays: Annotated[
        Sequence[str] | None, Option("--array", shown_default="all")
    ] = None,
    compress: bool = False,
    labels: Annotated[
        str | os.PathLike[str] | Manifest | None,
        Option("--with-labels", metavar="MANIFEST"),
    ] = None,
    force: bool = False,
    progress: Annotated[Progress | None, Bar("export")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Exported:
    """Write the features of a store in another format.

    Clips that failed or are missing are left out and listed (exit code 3); so are those that were
    withdrawn, which are not failures. pth holds one array: by default the one with most tokens.
    Licence, citation, recipe and fingerprint go with them: as the attribute `obygaze_provenance`
    of an HDF5 file, an array of that name (npz), or `.obygaze-export.json` in the folder (npy,
    pth, parquet).

    parquet is a folder with a file for each film, in data/, and a README.md by which
    datasets.load_dataset and the hub read it: a row a clip, a column an array. Arrays with several
    vectors a clip are written only if they are named. Titles, times and labels are those of the
    manifest of the store, if it is in the workspace.

    Args:
        store: The store.
        path: The new file; for npy, pth and parquet the new folder.
        format: The format of the files.
        arrays: Only this array.
        compress: Compress (hdf5 and npz; parquet more than it does).
        labels: Write its levels and concepts too: as columns (parquet), arrays (npz),
            attributes (hdf5), or labels.csv in the folder (npy, pth).
        force: Replace the output if it exists.
        progress: Counts clips, once for each array.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store export hdf5 obygaze12-xclip xclip.h5 --compress
        obygaze store export npz obygaze12-xclip pooled.npz --array pooled --with-labels obygaze12
        obygaze store export pth obygaze12-xclip FEATURES --array tokens
        obygaze store export parquet obygaze12-xclip xclip --with-labels obygaze12
    """
    store = open_store(store, workspace=workspace)
    path = Workspace.of(workspace).checked(Path(path))
    if labels is not None:
        labels = read_manifest(labels, workspace=workspace)
    labels_of = ""
    if format == "parquet":
        need("pyarrow", EXTRA, "writing Parquet")
        if labels is None:
            labels = _manifest_of_store(store, Workspace.of(workspace))
            labels_of = "" if labels is None else labels.name
    store.plan.refuse_pictures(store.location)
    if format not in FORMATS:
        raise FixUsage(
            f"unknown format {format!r}", hint=f"one of {', '.join(FORMATS)}"
        )
    _check_ending(path, format)
    specs = _specs(store, format, arrays)
    if format == "npz" and labels is not None:
        _check_label_arrays(specs)
    if format == "parquet":
        check_names(specs)
    present, left_out = rows_with_features(store, specs)
    if not present.any():
        hint = "obygaze extract status shows why"
        raise FixInput(
            "no clip has features; nothing to export", where=store.location, hint=hint
        )
    if FORMATS[format].ids_are_names:
        _check_names(store.clip_ids.tolist() + store.movie_ids.tolist(), store.location)
    words = None
    without_labels = ""
    if labels is not None:
        without_labels = check_labels(
            labels, store.clip_ids[present].tolist(), store.location
        )
        words = {clip.clip_id: (clip.level, "|".join(clip.concepts)) for clip in labels}
    job = _Job(
        store,
        specs,
        present,
        progress or Quiet(),
        compress,
        words,
        labels,
    )
    n_clips = int(present.sum())
    job.progress.expect(len(specs) * n_clips)
    _write(job, path, format, force=force)
    names = [spec.name for spec in specs]
    withdrawn = set()
    for spec in specs:
        for row, status in store.commits.not_ok(spec.name).items():
            if status.is_withdrawn:
                withdrawn.add(row)
    withdrawn_later = rows_withdrawn_later(store.files)
    return Exported(
        path,
        format,
        n_clips,
        names,
        left_out,
        labels_of,
        without_labels,
        n_withdrawn=len(withdrawn),
        withdrawn_later=sum(bool(present[row]) for row in withdrawn_later),
    )


def _manifest_of_store(store: Store, workspace: Workspace) -> Manifest | None:
    """Return the manifest of a store in the workspace; None if it does not have all its clips."""
    manifest = store.find_manifest(workspace)
    # Labels go by clip. Windows have none, and titles go by film.
    if manifest is None or isinstance(manifest.clips, Windows):
        return manifest
    film_of_clip = {clip.clip_id: clip.movie_id for clip in manifest}
    pairs = zip(store.clip_ids.tolist(), store.movie_ids.tolist(), strict=True)
    has_all = all(film_of_clip.get(clip) == film for clip, film in pairs)
    return manifest if has_all else None


def rows_with_features(
    store: Store, specs: Sequence[ArraySpec]
) -> tuple[npt.NDArray[np.bool_], dict[str, str]]:
    """Return which rows have features in all arrays, and why the clips of others have none."""
    present = np.ones(store.n_clips, dtype=bool)
    left_out: dict[str, str] = {}
    for spec in specs:
        for row, status in store.commits.not_ok(spec.name).items():
            present[row] = False
            left_out[str(store.clip_ids[row])] = str(status)
    return present, left_out


def _write(job: _Job, path: Path, format: str, *, force: bool) -> None:
    """Write the file or the folder."""
    kind = FORMATS[format]
    n_bytes = int(job.rows.sum()) * sum(spec.row_bytes for spec in job.specs)
    new = new_folder if kind.in_folder else new_file
    with disk_errors(path), new(path, kind.owned_folder, force=force) as draft:
        check_disk(n_bytes, draft.parent)
        kind.write(job, draft)
        if kind.in_folder:
            _finish_folder(job, draft, format)


def provenance(store: Store, labels: Manifest | None = None) -> dict[str, Any]:
    """Return what an export keeps of how its features were made, and under which terms.

    Args:
        store: The store.
        labels: The manifest whose labels are beside the features; they have terms of their own.
    """
    plan = store.plan
    facts = {
        "created_by": plan.created_by,
        "backbone": plan.recipe.title,
        "fingerprint": plan.recipe.fingerprint,
        "licence": store.licence,
        "citation": store.citation,
        "manifest": {"name": plan.manifest_name, "sha256": plan.manifest_sha256},
        "recipe": plan.recipe.to_json(),
    }
    if labels is not None:
        facts["labels"] = LabelTerms.of(labels).to_json()
    return facts


def _finish_folder(job: _Job, folder: Path, format: str) -> None:
    """Write the labels, and the file by which a later export knows that it may replace this one."""
    if job.labels is not None and FORMATS[format].has_labels_file:
        ids = job.store.clip_ids[job.rows].tolist()
        pairs = zip(ids, job.store.movie_ids[job.rows].tolist(), strict=True)
        rows = ((clip, film, *job.label(clip).values()) for clip, film in pairs)
        columns = ("clip_id", "movie_id", *LABELS)
        data = csv_bytes(columns, rows)
        (folder / LABELS_FILE).write_bytes(data)
    document = {
        "created_by": f"obygaze {__version__}",
        "format": format,
        "levels": [spec.name for spec in job.specs],
        "names_sha256": _names_sha256(folder),
        "provenance": provenance(job.store, job.manifest),
    }
    (folder / EXPORT_FILE).write_bytes(pretty_json(document))


def _not_an_export(folder: Path) -> str:
    if not made_by_obygaze(folder / EXPORT_FILE):
        return f"it has no {EXPORT_FILE}"
    if json.loads((folder / EXPORT_FILE).read_bytes()).get(
        "names_sha256"
    ) != _names_sha256(folder):
        return "files were added to it or removed"
    return ""


def _not_an_hdf5_export(file: Path) -> str:
    import h5py

    with suppress(*DAMAGE), h5py.File(file, "r") as handle:
        if HDF5_NAMES in handle.attrs:
            return ""
    return f"it does not have the attribute {HDF5_NAMES} of one"


def _not_an_npz_export(file: Path) -> str:
    with suppress(*DAMAGE), zipfile.ZipFile(file) as packed:
        if f"{PROVENANCE}.npy" in packed.namelist():
            return ""
    return f"it does not have the array {PROVENANCE} of one"


def _names_sha256(folder: Path) -> str:
    files = (
        path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()
    )
    names = (path.relative_to(folder).as_posix() for path in files)
    return sha256_bytes(
        "\n".join(sorted(name for name in names if name != EXPORT_FILE)).encode()
    )


def _check_ending(path: Path, format: Format) -> None:
    """Raise an error for a name whose ending is that of another format."""
    other = FORMAT_OF_ENDING.get(path.suffix.lower(), format)
    if other != format:
        raise FixUsage(
            f"the format is {format}, and the name is one of {other}",
            where=str(path),
            hint=f"the format {other}, or the name {path.stem}.{format}",
        )


def _specs(store: Store, format: str, arrays: Sequence[str] | None) -> list[ArraySpec]:
    """Return the arrays to export; a format of one array has a default."""
    names = list(dict.fromkeys(arrays or store.feature_arrays))
    store.require_held(names)
    specs = [store.plan.array(name) for name in names]
    if format == "pth" and not arrays:
        specs = sorted(specs, key=lambda spec: -len(spec.tail_shape))[:1]
    if format == "parquet" and not arrays:
        specs = [spec for spec in specs if len(spec.tail_shape) == 1]
        if not specs:
            raise FixUsage(
                "no array has one vector a clip",
                hint=f"--array NAME, one of {', '.join(names)}",
            )
    if not specs or (format == "pth" and len(specs) > 1):
        raise FixUsage(f"expected one array for {format}", hint="--array NAME")
    return specs


def _check_label_arrays(specs: Sequence[ArraySpec]) -> None:
    """Raise an error if an array has the name of an array of labels."""
    for spec in specs:
        if spec.name in LABELS:
            raise FixUsage(
                f"in npz, the array {spec.name!r} and the {spec.name} of labels would be one array",
                hint="hdf5 or npy, or --array for other arrays only",
            )


def _check_names(names: Sequence[str], where: str) -> None:
    """Raise an error for ids that cannot be the name of a file or key in this place."""
    for name in names:
        outside = "/" in name or "\\" in name or "\0" in name or name.startswith(".")
        if outside or len(name.encode()) > 200:
            shown = name if len(name) <= 60 else f"{name[:60]}..."
            raise FixInput(
                f"{shown!r} cannot be the name of a file or key",
                where=where,
                hint="npz, which allows any id",
            )


def _check_files(
    job: _Job, folder: Path, suffix: str, beside_films: Sequence[str] = ()
) -> None:
    """Raise an error if the file system would give two films or two clips one name.

    Many take `A-1` and `a-1` for one name, and some also two forms of one Unicode text.
    """
    clips = job.store.clip_ids[job.rows].tolist()
    films = job.store.movie_ids[job.rows].tolist()
    names = [*dict.fromkeys(films), *beside_films]
    pair = _same_name(names, folder)
    files_of_film: dict[str, list[str]] = {}
    for clip, film in zip(clips, films, strict=True):
        files_of_film.setdefault(film, []).append(f"{clip}{suffix}")
    for files in files_of_film.values():
        pair = pair or _same_name(files, folder)
    if pair is not None:
        raise FixInput(
            f"{pair[0]!r} and {pair[1]!r} would be one name in this folder",
            where=job.store.location,
            hint="npz or hdf5, or a folder on another file system",
        )


def _same_name(names: Sequence[str], folder: Path) -> tuple[str, str] | None:
    """Return two names that the file system of a folder takes for one, None where all differ.

    Only names that might be one are tried.
    """
    similar: dict[str, list[str]] = {}
    for name in names:
        similar.setdefault(unicodedata.normalize("NFKC", name).casefold(), []).append(
            name
        )
    groups = [group for group in similar.values() if len(group) > 1]
    if not groups:
        return None
    with TemporaryDirectory(prefix=".names-", dir=folder) as tried:
        for group in groups:
            for index, name in enumerate(group):
                path = Path(tried, name)
                if path.exists():
                    others = (
                        other
                        for other in group[:index]
                        if path.samefile(Path(tried, other))
                    )
                    return next(others), name
                path.touch()
    return None


def _npz(job: _Job, path: Path) -> None:
    """clip_id, movie_id, and an array of each name; written in pieces, so that any size fits."""
    method = zipfile.ZIP_DEFLATED if job.compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as out:

        def add(
            name: str, shape: tuple[int, ...], dtype: Any, pieces: Iterable[Any]
        ) -> None:
            entry = zipfile.ZipInfo(f"{name}.npy", DATE)
            entry.compress_type = method
            descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
            header = {"descr": descr, "fortran_order": False, "shape": shape}
            with out.open(entry, "w", force_zip64=True) as stream:
                np.lib.format.write_array_header_1_0(stream, header)
                for piece in pieces:
                    stream.write(np.ascontiguousarray(piece).tobytes())

        ids = job.store.clip_ids[job.rows].tolist()
        columns: dict[str, Any] = {"clip_id": ids}
        columns["movie_id"] = job.store.movie_ids[job.rows].tolist()
        columns[PROVENANCE] = json.dumps(provenance(job.store, job.manifest))
        if job.labels is not None:
            for name in LABELS:
                columns[name] = [job.label(clip)[name] for clip in ids]
        for name, column in columns.items():
            array = np.array(column, dtype=np.str_)
            add(name, array.shape, array.dtype, [array])
        for spec in job.specs:
            pieces = (matrix.values for matrix in job.blocks(spec))
            add(spec.name, (len(ids), *spec.tail_shape), spec.dtype, pieces)


def _npy(job: _Job, path: Path) -> None:
    """ARRAY/FILM/CLIP.npy."""
    _check_files(job, path, ".npy")
    names = [spec.name for spec in job.specs]
    lines = "\n".join(names) + "\n"
    (path / NPY_NAMES).write_bytes(lines.encode("utf-8"))
    for spec in job.specs:
        for clip, film, values in job.clips(spec):
            folder = path / spec.name / film
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / f"{clip}.npy", values)


def _hdf5(job: _Job, path: Path) -> None:
    """One array: a dataset a clip. Several: a group a clip, a dataset an array."""
    import h5py

    options = {"compression": "gzip", "shuffle": True} if job.compress else {}
    try:
        with h5py.File(path, "w") as out:
            out.attrs[HDF5_NAMES] = [spec.name for spec in job.specs]
            out.attrs[PROVENANCE] = json.dumps(provenance(job.store, job.manifest))
            for spec in job.specs:
                for clip, film, values in job.clips(spec):
                    if len(job.specs) == 1:
                        node = out.create_dataset(clip, data=values, **options)
                    else:
                        node = out.require_group(clip)
                        node.create_dataset(spec.name, data=values, **options)
                    node.attrs.update(movie_id=film, **job.label(clip))
    except (RuntimeError, OSError) as error:
        # HDF5 reports full disks in various errors, but always in these words.
        if os.strerror(errno.ENOSPC) in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise


def _pth(job: _Job, path: Path) -> None:
    """FILM/CLIP.pth, a tensor [1, D] or [1, tokens, D], as the released code reads them."""
    torch = need("torch", "mlp", "writing .pth files")
    (spec,) = job.specs
    beside_films = () if job.labels is None else (LABELS_FILE,)
    _check_files(job, path, ".pth", beside_films)
    for clip, film, values in job.clips(spec):
        folder = path / film
        folder.mkdir(exist_ok=True)
        vectors = values if values.ndim == 1 else values.reshape(-1, values.shape[-1])
        torch.save(torch.from_numpy(vectors[None].copy()), folder / f"{clip}.pth")


def _parquet(job: _Job, path: Path) -> None:
    """data/FILM.parquet with a row a clip, and a README.md that says where these files are."""
    store = job.store
    rows = np.flatnonzero(job.rows)
    facts = facts_of_clips(store, rows, job.manifest)
    table = ClipTable(
        store, rows, job.specs, facts, provenance(store, job.manifest), job.compress
    )
    folder = path / "data"
    folder.mkdir()
    file_names = FileNames()
    for film, positions in table.positions_of_film.items():
        file = folder / f"{file_names.name_of(film)}{SUFFIX}"
        table.write(file, positions, job.progress)
    labels = ""
    label_licence = None
    if job.manifest is not None:
        labels = str(LabelTerms.of(job.manifest))
        label_licence = job.manifest.header.licence
    card = columns_card(
        store.plan,
        terms=store.terms,
        files=f"data/*{SUFFIX}",
        columns=table.columns,
        labels=labels,
        label_licence=label_licence,
    )
    (path / README_FILE).write_bytes(card.encode())


class _Format(NamedTuple):
    write: Callable[[_Job, Path], None]
    owned_folder: OwnFolder
    in_folder: bool = False
    ids_are_names: bool = True
    has_labels_file: bool = False


EXPORT = OwnFolder("export", _not_an_export)
HDF5 = OwnFolder("export", _not_an_hdf5_export)
NPZ = OwnFolder("export", _not_an_npz_export)
FORMATS = {
    "hdf5": _Format(_hdf5, HDF5),
    "npz": _Format(_npz, NPZ, ids_are_names=False),
    "npy": _Format(_npy, EXPORT, in_folder=True, has_labels_file=True),
    "pth": _Format(_pth, EXPORT, in_folder=True, has_labels_file=True),
    "parquet": _Format(_parquet, EXPORT, in_folder=True, ids_are_names=False),
}

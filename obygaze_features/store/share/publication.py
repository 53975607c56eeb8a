"""Publish a store: one packed file with its card and metadata, on the hub or in a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from obygaze_features.core.console import Progress, Quiet, human
from obygaze_features.core.drafts import new_folder
from obygaze_features.core.errors import AlreadyThere, FixInput, FixUsage
from obygaze_features.core.files import sha256_file
from obygaze_features.core.metadata import (
    CROISSANT_FILE,
    Publication,
    RecordColumn,
    RecordTable,
    number_type,
)
from obygaze_features.core.options import Bar, Option
from obygaze_features.core.own_results import OwnFolder
from obygaze_features.core.workspace import PathLike, is_url
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest
from obygaze_features.store.format.records import CLIPS_FILE, README_FILE, Seal
from obygaze_features.store.format.schema import ArraySpec, FileMark
from obygaze_features.store.interchange.export import (
    provenance,
    rows_with_features,
)
from obygaze_features.store.interchange.labels import LabelTerms, check_labels
from obygaze_features.store.interchange.parquet_files import (
    EXTRA,
    FACTS,
    ClipTable,
    facts_of_clips,
)
from obygaze_features.store.read.describe import card_text, explain, explain_recipe
from obygaze_features.store.read.reader import Store, open_store
from obygaze_features.store.read.verify import verify
from obygaze_features.store.remote import open_files
from obygaze_features.store.remote.files import read_or_none
from obygaze_features.store.remote.hub import HubTarget
from obygaze_features.store.remote.selection import select_files
from obygaze_features.store.remote.send import pack, require_licence, send_packed

HERE = "obygaze_features.store.share"
CITATION_FILE = "CITATION.cff"
ZENODO_FILE = ".zenodo.json"
PUBLICATION = OwnFolder("publication", lambda folder: "a publication is not replaced")
ZENODO_BYTES = 50_000_000_000
PARQUET_FILE = "features.parquet"
# Larger arrays are in the packed store only.
PARQUET_BYTES = 2**30
_CLIPS = RecordTable(
    CLIPS_FILE,
    "The clips, one for each row of every array.",
    [
        RecordColumn("clip_id"),
        RecordColumn("movie_id"),
        RecordColumn("row", "sc:Integer"),
    ],
)
_FACTS = {
    "start_s": RecordColumn("start_s", "sc:Float"),
    "end_s": RecordColumn("end_s", "sc:Float"),
    "concepts": RecordColumn("concepts", "sc:Text", (-1,)),
}


class Published(dict[str, int]):
    """The files of a publication with their lengths in bytes."""

    target: str
    notes: Sequence[str]

    def __init__(
        self, target: str, files: Mapping[str, int], notes: Sequence[str] = ()
    ) -> None:
        super().__init__(files)
        self.target = target
        self.notes = notes

    def to_json(self) -> dict[str, Any]:
        """Return the target and the files."""
        return {"target": self.target, "files": dict(self)}

    def __str__(self) -> str:
        lines = [f"{file}  {human(n_bytes)}" for file, n_bytes in self.items()]
        return "\n".join([f"{self.target}:", *lines])


@dataclass(frozen=True)
class ClipsFile:
    """The Parquet file of a publication, and the manifest that its labels are from."""

    table: ClipTable
    labels: Manifest | None = None

    def write(self, path: Path) -> None:
        """Write the file, film by film."""
        positions = list(self.table.positions_of_film.values())
        self.table.write(path, np.concatenate(positions), Quiet())

    def record_table(self) -> RecordTable:
        """Return what `croissant.json` says of its columns."""
        description = "The clips with features, a row each, and their vectors."
        if self.labels is not None:
            description += f" {LabelTerms.of(self.labels)}"
        columns = []
        for name in self.table.facts:
            columns.append(_FACTS.get(name, RecordColumn(name)))
        for spec in self.table.specs:
            column = RecordColumn(
                spec.name,
                number_type(spec.dtype),
                spec.tail_shape,
                f"The array {spec.name} of the store.",
            )
            columns.append(column)
        return RecordTable(PARQUET_FILE, description, columns)


def publish(
    store: PathLike | Store,
    target: Annotated[str, Option("--to")],
    creators: Annotated[Sequence[str], Option("--creator")],
    *,
    labels: Annotated[
        PathLike | Manifest | None, Option("--with-labels", metavar="MANIFEST")
    ] = None,
    no_parquet: bool = False,
    no_licence: bool = False,
    progress: Annotated[Progress | None, Bar("publish")] = None,
    workspace: PathLike | None = None,
) -> Published:
    """Publish a store with its card and metadata.

    On the hub, as a data set; a new one is private. Or in a new folder whose files are a record
    of Zenodo. The metadata are croissant.json, CITATION.cff and, in a folder, .zenodo.json. The
    same command again resumes. A creator is "Family, Given", or the name of an institution. A store
    without a licence is refused: `obygaze store licence` states it.

    Arrays with one vector a clip, and at most 1 GiB over all clips, are written to features.parquet
    too, beside the packed store: a row a clip, which the hub shows. This needs the extra [parquet].

    Args:
        store: A sealed store.
        target: hf://OWNER/NAME, or a folder for Zenodo.
        creators: Who made it.
        labels: Its titles, times, levels and concepts become columns of features.parquet, under
            its own licence, which the metadata name with its citation.
        no_parquet: Write no features.parquet.
        no_licence: Also if the store, or the manifest of the labels, states no licence.
        progress: Counts bytes.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store publish obygaze12-xclip --to hf://lab/obygaze12-xclip --creator "Doe, Jane"
        obygaze store publish obygaze12-xclip --to zenodo/xclip --creator "Doe, Jane"
    """
    opened = open_store(store, workspace=workspace)
    specs = [] if no_parquet else small_arrays(opened)
    notes = []
    install = f'pip install "obygaze[{EXTRA}]"'
    if specs and find_spec("pyarrow") is None:
        specs = []
        notes.append(f"{PARQUET_FILE} was not written: it needs {install}")
    if labels is not None and not specs:
        raise FixUsage(
            f"labels are columns of {PARQUET_FILE}, which is not written",
            hint=install if notes else "leave out --with-labels",
        )
    manifest = None
    if labels is not None:
        manifest = read_manifest(labels, workspace=workspace)
        if not no_licence:
            _require_licence_of_labels(manifest)
    clips = _clips_file(opened, specs, manifest)
    if clips is not None and manifest is not None:
        clip_ids = opened.clip_ids[clips.table.rows].tolist()
        without_labels = check_labels(manifest, clip_ids, opened.location)
        if without_labels:
            notes.append(without_labels)
        notes += _other_licence(opened, manifest)
    files = _publish(
        opened,
        target,
        creators,
        clips=clips,
        no_licence=no_licence,
        progress=progress,
    )
    return Published(target, files, notes)


def _require_licence_of_labels(labels: Manifest) -> None:
    """Raise an error for labels without a licence, as for a store without one."""
    if not labels.header.licence:
        raise FixInput(
            f"the manifest {labels.name} states no licence for its labels; without one nobody"
            " knows what they may do with them",
            where=labels.name,
            hint='licence = "..." in its .toml;'
            " --no-licence publishes them as they are",
        )


def _other_licence(store: Store, labels: Manifest) -> list[str]:
    """Return a sentence on labels that have another licence than the features."""
    of_labels = labels.header.licence
    if of_labels == store.licence:
        return []
    return [
        f"the features have the licence {store.licence or 'not stated'}, the labels of"
        f" {labels.name} {of_labels or 'not stated'}: the metadata name both, and no licence"
        " for the whole"
    ]


def small_arrays(store: Store) -> list[ArraySpec]:
    """Return the arrays with one vector a clip, and at most 1 GiB over all clips."""
    specs = []
    for name in store.feature_arrays:
        spec = store.plan.array(name)
        is_small = spec.row_bytes * store.n_clips <= PARQUET_BYTES
        # A column of clips may have the name.
        if len(spec.tail_shape) == 1 and is_small and name not in FACTS:
            specs.append(spec)
    return specs


def _clips_file(
    store: Store, specs: Sequence[ArraySpec], labels: Manifest | None
) -> ClipsFile | None:
    """Return the clips that have these arrays; None if there are none."""
    has_features, _ = rows_with_features(store, specs)
    if not specs or not has_features.any():
        return None
    rows = np.flatnonzero(has_features)
    facts = facts_of_clips(store, rows, labels)
    return ClipsFile(
        ClipTable(store, rows, specs, facts, provenance(store, labels)), labels
    )


def _publish(
    store: Store,
    target: str,
    creators: Sequence[str],
    *,
    clips: ClipsFile | None,
    no_licence: bool,
    progress: Progress | None,
) -> dict[str, int]:
    """Publish a sealed store, packed, and return the length of each file there."""
    if not creators or not all(map(str.strip, creators)):
        raise FixUsage(
            "a publication needs the name of who made it", hint='--creator "Doe, Jane"'
        )
    labels = None
    if clips is not None and clips.labels is not None:
        labels = LabelTerms.of(clips.labels)
    publication = publication_of(store, creators=creators, labels=labels)
    if not no_licence:
        require_licence(store)

    def documents(packed: Path) -> dict[str, bytes]:
        counts = store.status().counts
        card = card_text(
            store.plan,
            counts,
            terms=store.terms,
            made_by=store.commits.made_by(),
            zip_name=packed.name,
            parquet="" if clips is None else PARQUET_FILE,
            labels="" if labels is None else str(labels),
            label_licence=publication.label_licence,
            seal_sha256=store.seal_sha256,
            version=store.version,
        )
        return {
            README_FILE: card.encode(),
            CROISSANT_FILE: croissant(store, publication, packed, clips),
            CITATION_FILE: publication.document(CITATION_FILE, HERE),
        }

    def documents_and_clips(packed: Path) -> dict[str, bytes | Path]:
        if clips is None:
            return {**documents(packed)}
        path = packed.parent / PARQUET_FILE
        clips.write(path)
        return {PARQUET_FILE: path, **documents(packed)}

    if is_url(target):
        if not target.startswith("hf://"):
            raise FixUsage(
                f"cannot publish to {target}", hint="hf://OWNER/NAME or a folder"
            )
        repository = HubTarget(target)
        send_packed(
            select_files(store.files),
            repository,
            documents_and_clips,
            progress=progress,
        )
        return {name: mark.n_bytes for name, mark in repository.hub.listing("").items()}
    folder = Path(target)
    zip_name = f"{folder.name}.zip"

    def texts(packed: Path) -> dict[str, bytes]:
        return {
            **documents(packed),
            ZENODO_FILE: publication.document(ZENODO_FILE, HERE),
        }

    if (folder / zip_name).is_file():
        if (folder / PARQUET_FILE).is_file() != (clips is not None):
            verb = "has a" if clips is None else "has no"
            raise AlreadyThere(
                f"the publication that is here {verb} {PARQUET_FILE}",
                where=str(folder),
                hint="choose another name, or rename this one; --no-parquet writes none",
            )
        _require_published(store, folder, texts(folder / zip_name))
        return _sizes(folder)
    with new_folder(folder, PUBLICATION) as draft:
        packed = pack(store, draft / zip_name, progress=progress)
        if packed.n_bytes > ZENODO_BYTES:
            size = f"{packed.n_bytes:,} bytes"
            problem = f"the packed store has {size}, Zenodo takes {ZENODO_BYTES:,}"
            raise FixInput(problem, where=store.location, hint="obygaze store subset")
        if clips is not None:
            clips.write(draft / PARQUET_FILE)
        for name, data in texts(packed.path).items():
            (draft / name).write_bytes(data)
    return _sizes(folder)


def _sizes(folder: Path) -> dict[str, int]:
    """Return the length of each file of a publication."""
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}


def _require_published(store: Store, folder: Path, texts: Mapping[str, bytes]) -> None:
    """Raise an error unless a folder is the same publication of a store, and undamaged."""
    packed = folder / f"{folder.name}.zip"
    documents = select_files(store.files).documents
    there = open_files(packed)
    is_same = all(read_or_none(there, name) == data for name, data in documents.items())
    for name, data in texts.items():
        is_same = (
            is_same
            and (folder / name).is_file()
            and (folder / name).read_bytes() == data
        )
    if not is_same:
        raise AlreadyThere(
            "another publication is here, or this one with other authors or another licence",
            where=str(folder),
            hint="choose another name, or rename this one",
        )
    verify(packed, hashes=True).require_whole()


def publication_of(
    store: Store,
    *,
    creators: Sequence[str] = (),
    labels: LabelTerms | None = None,
) -> Publication:
    """Return the facts about a whole, sealed store for any form of metadata.

    Args:
        store: The store.
        creators: Who made it, each as "Family, Given" or the name of an institution.
        labels: The terms of the labels that are published beside the features.
    """
    if not store.sealed or store.commits.partial is not None:
        hint = "obygaze extract run --seal, or obygaze store subset"
        raise FixInput(
            "only a whole, sealed store is published", where=store.location, hint=hint
        )
    plan = store.plan
    counts = store.status().counts
    plan.refuse_pictures(store.location)
    description = explain(plan, counts).partition("\n\n")[0]
    citations = [store.citation]
    label_licence = None
    if labels is not None:
        description += f" In {PARQUET_FILE}: {labels}"
        citations.append(labels.citation)
        label_licence = labels.licence
    return Publication(
        kind="store",
        name=f"{plan.manifest_name}.{plan.recipe.title}",
        title=f"Features of {plan.manifest_name}: {plan.recipe.title}",
        description=description,
        collection=f"Computed from the clips of the manifest {plan.manifest_name!r}, sha256 "
        f"{plan.manifest_sha256}.",
        licence=store.licence,
        label_licence=label_licence,
        citation=" | ".join(dict.fromkeys(filter(None, citations))),
        created=plan.created[:10],
        creators=creators,
        facts={
            "recipe": explain_recipe(plan.recipe).splitlines(),
            "n_clips": plan.n_clips,
            "n_absent": plan.n_clips - counts["ok"],
            "seal": f"sha256:{store.seal_sha256}",
        },
    )


def croissant(
    store: Store,
    publication: Publication,
    packed: Path | None = None,
    clips: ClipsFile | None = None,
) -> bytes:
    """Return croissant.json of a sealed store; the checksums in it are those of the seal.

    Args:
        store: The store.
        publication: The facts about it, from `publication_of`.
        packed: The zip file of the packed store.
        clips: The Parquet file beside it.
    """
    seal = read_or_none(store.files, Seal.FILE) or b""
    listed = {**store.commits.listed_files(), Seal.FILE: FileMark.of(seal)}
    arrays = {f"data.zarr/{spec.name}": spec for spec in store.plan.arrays}
    names = [name for name in sorted(listed) if name.partition("/c.")[0] not in arrays]
    files = {name: listed[name] for name in names}
    zip_name = ""
    beside: list[str] = []
    tables = [_CLIPS]
    if packed is not None and clips is not None:
        beside.append(PARQUET_FILE)
        tables.append(clips.record_table())
        files = {PARQUET_FILE: _mark_of(packed.parent / PARQUET_FILE), **files}
    if packed is not None:
        zip_name = packed.name
        files = {zip_name: _mark_of(packed), **files}
    return publication.document(
        CROISSANT_FILE,
        listed=files,
        zip_name=zip_name,
        beside=beside,
        tables=tables,
        arrays=list(arrays.values()),
    )


def _mark_of(path: Path) -> FileMark:
    return FileMark(path.stat().st_size, sha256_file(path))

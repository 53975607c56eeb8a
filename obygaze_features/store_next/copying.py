"""Copy whole stores: pull one from anywhere, push one to a folder, a bucket or the hub.

`store.json` is written last, after each file was compared with its SHA-256, so that half a copy is
no store. A copy whose source was replaced becomes the new store; what was withdrawn is removed.
"""

import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from obygaze_features.core.console import Progress, Quiet, count
from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixUsage,
    Mismatch,
    NotFound,
    ObygazeError,
)
from obygaze_features.core.files import is_listed
from obygaze_features.core.metadata import CROISSANT_FILE, RecordTable
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest.model import Manifest
from obygaze_features.store_next.card import (
    card_text,
    citation_file,
    croissant,
    require_licence,
)
from obygaze_features.store_next.exporting import (
    MOST_CARD_BYTES,
    TABLE,
    labels_text,
    published_table,
    record_table,
    refuse_pictures,
    terms_of,
    write_table,
)
from obygaze_features.store_next.files import (
    MOST_DOCUMENT_BYTES,
    FolderFiles,
    Range,
)
from obygaze_features.store_next.finding import Copy, find_copies
from obygaze_features.store_next.layout import CARD, STORE_JSON, check_store_name
from obygaze_features.store_next.making import check_before, take_place
from obygaze_features.store_next.network import Unreachable
from obygaze_features.store_next.placing import (
    finish_waiting,
    link_file,
    remove_tree,
    seal_at,
    sync_tree,
    take_name,
)
from obygaze_features.store_next.reading import Store, open_store
from obygaze_features.store_next.records import (
    FileMark,
    Replaced,
    StoreRecord,
    decode,
    seal_of,
    withdrawn_by,
)
from obygaze_features.store_next.targets import (
    Target,
    has_file,
    hash_of,
    open_target,
    write_pieces,
)
from obygaze_features.store_next.verifying import changes_of, verify

CITATION_FILE = "CITATION.cff"
# What a publication has beside the files of a store.
PUBLISHED = (CROISSANT_FILE, CITATION_FILE, TABLE)
# The card of a store begins with its head; the pages of servers do not.
_CARD_START = b"---"


@dataclass(frozen=True)
class Copied:
    """A copy of a store.

    Args:
        place: The folder or URL of the copy.
        seal: The seal of the store.
        n_sent: How many files were copied; the others were there.
        changes: What changed in the store since the copy that was there before.
        notes: What its user should do.
        copies: Where features of withdrawn clips still are, each with the line that removes it.
    """

    place: str
    seal: str
    n_sent: int = 0
    changes: Sequence[str] = ()
    notes: Sequence[str] = ()
    copies: Sequence[Copy] = ()

    def __str__(self) -> str:
        lines = [f"{self.place}: {count(self.n_sent, 'file')} copied"]
        lines += [*self.changes, *self.notes]
        if self.copies:
            lines.append("the withdrawn features are still in:")
            lines += [f"  {copy}" for copy in self.copies]
        return "\n".join(lines)


def pull(
    source: str | os.PathLike[str] | Store,
    target: Path,
    *,
    expect: str | None = None,
    workspace: Workspace | None = None,
    progress: Progress | None = None,
) -> Copied:
    """Copy a store to a folder of this machine; go on where a copy was interrupted.

    If an older copy of the store has this name, the new one takes its place: files that did not
    change are linked.

    Args:
        source: The store: a URL, a folder, a name.
        target: The folder of the copy.
        expect: The seal of the store, from its publisher. Another store is an error.
        workspace: Where to look for what is withdrawn since an older copy.
        progress: Counts bytes.
    """
    check_store_name(target.name, str(target))
    if not target.parent.is_dir():
        raise NotFound(
            "no such folder", where=str(target.parent), hint=f"mkdir {target.parent}"
        )
    here = workspace or Workspace.current()
    store = open_store(source, workspace=here, expect=expect)
    finish_waiting(target)
    older = _copy_at(target, store)
    if older is not None and older.seal == store.seal:
        report = verify(older, hashes=True)
        if not report.problems:
            _remove_leftovers(target)
            return Copied(str(target), store.seal)
    elif older is not None:
        check_before(target, older.seal)
    n_sent = _pull(store, target, older, progress or Quiet())
    _remove_leftovers(target)
    if older is None or older.seal == store.seal:
        return Copied(str(target), store.seal, n_sent)
    changes = _since(store.record, older.seal)
    withdrawn = withdrawn_by(changes)
    copies: Sequence[Copy] = ()
    if any(withdrawn):
        films = sorted(withdrawn.films)
        clips = sorted(withdrawn.clips)
        copies = find_copies(open_store(target), films, clips, here)
    return Copied(str(target), store.seal, n_sent, changes_of(changes), copies=copies)


def _since(record: StoreRecord, seal: str) -> Sequence[Replaced]:
    """Return the changes of a store since an earlier one; all of them if it is not known."""
    seals = [entry.seal for entry in record.replaces]
    first = seals.index(seal) if seal in seals else 0
    return record.replaces[first:]


def _copy_at(target: Path, store: Store) -> Store | None:
    """Return the older copy at a target; an error if anything else is there."""
    if not is_listed(target):
        return None
    taken = "a folder or file that is not a copy of this store has this name"
    if seal_at(target):
        copy = open_store(target)
        if copy.seal in (store.seal, *(entry.seal for entry in store.record.replaces)):
            return copy
        taken = "another store has this name"
        if store.seal in [entry.seal for entry in copy.record.replaces]:
            taken = "the store here is later than this one, which it replaces"
    raise AlreadyThere(taken, where=str(target), hint="choose another name")


def _hidden_of(target: Path, seal: str) -> Path:
    """Return where a copy is built; it stays there if it is interrupted."""
    return target.with_name(f".{target.name}.pull-{seal[:16]}")


def _remove_leftovers(target: Path) -> None:
    """Remove what interrupted copies of earlier stores have left."""
    for path in target.parent.iterdir():
        if path.name.startswith(f".{target.name}.pull-"):
            remove_tree(path)


def _pull(store: Store, target: Path, older: Store | None, progress: Progress) -> int:
    """Build the copy, then give it its name; return how many files were copied."""
    hidden = _hidden_of(target, store.seal)
    for path in target.parent.iterdir():
        # It may have what was withdrawn since.
        is_leftover = path.name.startswith(f".{target.name}.pull-")
        if is_leftover and path != hidden:
            remove_tree(path)
    # All folders are made here: a late process must not bring back a folder that has its name.
    hidden.mkdir(exist_ok=True)
    for name in store.record.files:
        (hidden / name).parent.mkdir(parents=True, exist_ok=True)
    try:
        n_sent = _fetch_all(store, hidden, older, progress)
        sync_tree(hidden)
        if older is not None and older.seal == store.seal:
            # The copy that is there is damaged.
            remove_tree(target)
            older = None
        if older is not None:
            take_place(hidden, target, older.seal)
        elif not take_name(hidden, target):
            raise AlreadyThere(
                "a file or folder of this name exists already",
                where=str(target),
                hint="choose another name",
            )
    except (FileNotFoundError, Mismatch, AlreadyThere):
        # Another process may have made the same copy, and was first.
        if seal_at(target) != store.seal:
            raise
        n_sent = 0
    return n_sent


def _fetch_all(
    store: Store, hidden: Path, older: Store | None, progress: Progress
) -> int:
    """Bring all files of a store into a folder; return how many were copied."""
    marks = store.record.files
    progress.expect(sum(mark.n_bytes for mark in marks.values()), "B")
    files_there: dict[FileMark, Path] = {}
    if older is not None:
        for name, mark in older.record.files.items():
            files_there[mark] = Path(older.files.address) / name
    n_sent = 0
    for name, mark in marks.items():
        path = hidden / name
        if not has_file(path, mark):
            path.unlink(missing_ok=True)
            there = files_there.get(mark)
            if there is not None and has_file(there, mark):
                link_file(there, path, mark)
            else:
                write_pieces(_pieces(store, name), path, mark, store.location)
                n_sent += 1
        progress.advance(mark.n_bytes)
    known = {*marks, CARD}
    for name in FolderFiles(hidden).names() or []:
        if name not in known:
            (hidden / name).unlink()
    card = _card_of(store)
    if card:
        (hidden / CARD).write_bytes(card)
    data = _store_json(store)
    mark = FileMark(len(data), seal_of(data))
    write_pieces(iter([data]), hidden / STORE_JSON, mark, store.location)
    return n_sent


def _pieces(store: Store, name: str) -> Iterator[memoryview]:
    """Yield the bytes of a listed file."""
    n_bytes = store.record.files[name].n_bytes
    size = store.files.piece_bytes
    ranges = []
    for start in range(0, n_bytes, size):
        ranges.append(Range(name, start, min(start + size, n_bytes)))
    for data in store.listed.parts(ranges):
        yield data.data


def _card_of(store: Store) -> bytes:
    """Return the card of a store; it is not listed, so that a server may answer anything."""
    try:
        card = store.files.read(CARD, MOST_CARD_BYTES).tobytes()
    except Unreachable:
        raise
    except (FileNotFoundError, ObygazeError):
        return b""
    return card if card.startswith(_CARD_START) else b""


def _store_json(store: Store) -> bytes:
    """Return the bytes of store.json, which decide the seal."""
    data = store.files.read(STORE_JSON, MOST_DOCUMENT_BYTES).tobytes()
    if seal_of(data) != store.seal:
        raise Corrupt(
            "the store was replaced while it was copied",
            where=store.location,
            hint="the same command again",
        )
    return data


# --- Push ---


def push(
    store: str | os.PathLike[str] | Store,
    target: str | os.PathLike[str],
    *,
    publish: bool = False,
    creators: Sequence[str] = (),
    labels: Manifest | None = None,
    workspace: Workspace | None = None,
    progress: Progress | None = None,
) -> Copied:
    """Send a store to a folder, a bucket or the hub; go on where this was interrupted.

    A store that is there is replaced only if this store has taken its place here.

    Args:
        store: The store, in a folder of this machine.
        target: A folder, s3://BUCKET/NAME or hf://OWNER/NAME.
        publish: Send the card, Croissant, CITATION.cff and Parquet made of the store too; the
            store must state a licence.
        creators: publish: who made it, each as "Family, Given".
        labels: publish: levels and concepts of this manifest are columns of the Parquet file.
        workspace: The workspace, if it is not the current one.
        progress: Counts bytes.
    """
    opened = open_store(store, workspace=workspace)
    if not isinstance(opened.files, FolderFiles):
        raise FixUsage(
            "only a store in a folder of this machine is sent",
            where=opened.location,
            hint="obygaze store pull first",
        )
    refuse_pictures(opened)
    if publish:
        require_licence(terms_of(opened), opened.location)
    with tempfile.TemporaryDirectory() as made:
        extra = _publication(opened, Path(made), creators, labels) if publish else {}
        return _push(opened, open_target(target), extra, progress or Quiet())


def _push(
    store: Store, target: Target, extra: dict[str, Path], progress: Progress
) -> Copied:
    root = Path(store.files.address)
    record = store.record
    data = _store_json(store)
    names_there = target.names()
    seal_there = _check_target(target, store, names_there)
    if seal_there and seal_there != store.seal:
        # From now on no store is there, until all files of the new one are.
        target.remove(STORE_JSON)
        target.finish("Begin to replace the store")
    progress.expect(sum(mark.n_bytes for mark in record.files.values()), "B")
    n_sent = 0
    for name, mark in record.files.items():
        if not target.has(name, mark):
            path = root / name
            if not has_file(path, mark):
                raise store.listed.damaged(name, "it does not have its SHA-256")
            target.put(name, path, mark)
            n_sent += 1
        progress.advance(mark.n_bytes)
    sent = {*record.files, *extra, STORE_JSON}
    if CARD not in extra and (root / CARD).is_file():
        extra = {**extra, CARD: root / CARD}
    sent.update(extra)
    for name in names_there:
        if name not in sent:
            target.remove(name)
    for name, path in extra.items():
        target.put(name, path, hash_of(path))
    if seal_there != store.seal:
        target.put(STORE_JSON, root / STORE_JSON, FileMark(len(data), store.seal))
        n_sent += 1
    target.finish(f"The store {store.seal[:16]}")
    changes = () if seal_there in ("", store.seal) else _since(record, seal_there)
    notes = []
    if any(withdrawn_by(record.replaces)):
        note = target.forget()
        if note:
            notes.append(f"clips were withdrawn from this store: {note}")
    return Copied(
        target.location, store.seal, n_sent, changes_of(changes), tuple(notes)
    )


def _check_target(target: Target, store: Store, names: Sequence[str]) -> str:
    """Return the seal of the store at a target, "" if none; an error for anything else there."""
    seal = ""
    record = store.record
    known = {*record.files, STORE_JSON, CARD, *PUBLISHED}
    if STORE_JSON in names:
        data = target.files().read(STORE_JSON, MOST_DOCUMENT_BYTES).tobytes()
        seal = seal_of(data)
        if seal != store.seal:
            there = decode(data, StoreRecord, target.location)
            if seal not in [entry.seal for entry in record.replaces]:
                is_later = store.seal in [entry.seal for entry in there.replaces]
                raise AlreadyThere(
                    "the target has a store that replaces this one"
                    if is_later
                    else "another store is there",
                    where=target.location,
                    hint="another address",
                )
            known.update(there.files)
    strange = [name for name in names if name not in known and not _is_part(name)]
    is_ours = bool(set(record.files) & set(names))
    if CARD in names and not is_ours:
        strange.append(CARD)
    if strange:
        raise AlreadyThere(
            f"{strange[0]} does not belong to this store",
            where=target.location,
            hint="another address, or an empty folder",
        )
    return seal


def _is_part(name: str) -> bool:
    """Return whether a file was left by a push to a folder that was killed."""
    last = name.rpartition("/")[2]
    return last.startswith(".") and last.endswith(".part")


def _publication(
    store: Store, folder: Path, creators: Sequence[str], labels: Manifest | None
) -> dict[str, Path]:
    """Write what a publication has beside the store; return the files by their names."""
    if not creators:
        raise FixUsage(
            "a publication needs the name of who made it", hint='--creator "Doe, Jane"'
        )
    record = store.record
    terms = terms_of(store)
    files = {}
    tables: dict[str, tuple[RecordTable, FileMark]] = {}
    job = published_table(store, labels)
    if job is not None:
        path = folder / secrets.token_hex(4)
        write_table(job, path)
        files[TABLE] = path
        tables[TABLE] = (record_table(job, TABLE), hash_of(path))
    label_text = ""
    label_terms = None
    if labels is not None and job is not None:
        label_text = labels_text(labels)
        header = labels.header
        label_terms = (header.licence or "", header.citation or "")
    card = card_text(
        record.manifest,
        store.recipe,
        record.arrays,
        store.rows,
        terms,
        makers=record.makers,
        replaces=record.replaces,
        seal=store.seal,
        parquet=TABLE if tables else "",
        labels=label_text,
        label_licence=label_terms[0] if label_terms else None,
    ).encode()
    store_json = _store_json(store)
    document = croissant(
        record,
        card,
        store_json,
        creators=creators,
        tables=tables,
        label_terms=label_terms,
    )
    texts = {
        CARD: card,
        CROISSANT_FILE: json.dumps(document, indent=1, ensure_ascii=False).encode(),
        CITATION_FILE: citation_file(record, card, store_json, creators).encode(),
    }
    for name, text in texts.items():
        path = folder / name
        path.write_bytes(text)
        files[name] = path
    return files

"""Copy whole stores: pull one from anywhere, push one to a folder, a bucket or the hub.

A file that is there, with its length and its SHA-256, is not copied again. `store.json` is written
last, so that half a copy is no store. No command replaces another store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from obygaze_features.core.console import Progress, Quiet, human
from obygaze_features.core.errors import AlreadyThere, Corrupt, FixUsage, Stopped
from obygaze_features.core.files import sha256_bytes, write_atomic
from obygaze_features.core.leftovers import (
    PULL,
    Leftover,
    hidden_name,
    hidden_of,
    pulled_name,
    read_hidden,
    remove_leftovers,
)
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import PathLike, Workspace, last_part
from obygaze_features.store.card import (
    Terms,
    card_of_store,
    with_terms,
)
from obygaze_features.store.exporting import refuse_pictures
from obygaze_features.store.files import MOST_DOCUMENT_BYTES, FolderFiles
from obygaze_features.store.layout import CARD, CLAIM, STORE_JSON, check_store_name
from obygaze_features.store.making import check_free, check_outside, name_taken
from obygaze_features.store.network import AGAIN, Unreachable
from obygaze_features.store.placing import (
    remove_tree,
    seal_at,
    sync_tree,
    take_name,
)
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.records import FileMark, seal_of
from obygaze_features.store.rows import RowColumns
from obygaze_features.store.targets import (
    OWN_PLACE,
    Target,
    has_file,
    open_target,
    write_pieces,
)
from obygaze_features.store.verifying import verify

_ATTEMPTS = 5


@dataclass(frozen=True)
class Copied:
    """A copy of a store.

    Args:
        place: The folder or URL of the copy.
        seal: The seal of the store.
        n_sent: How many files were copied; the others were there.
        n_bytes_transferred: How long these are together.
        notes: What its user should know.
    """

    place: str
    seal: str
    n_sent: int = 0
    n_bytes_transferred: int = 0
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of the copy."""
        return vars(self)

    def __str__(self) -> str:
        sent = f"{human(self.n_bytes_transferred)} copied"
        if not self.n_sent:
            sent = "all files were there, and are those of this store"
        return f"{self.place}: {sent}"


def pull(
    source: PathLike | Store,
    path: PathLike | None = None,
    *,
    expect: str | None = None,
    progress: Progress | None = None,
    workspace: PathLike | None = None,
) -> Copied:
    """Copy a store to this machine.

    From a web server, a bucket, the hub or a folder. The same command again continues an
    interrupted copy, and every file is checked as it arrives. A store that is there is never
    replaced. `obygaze store subset URL` copies a part only.

    Whoever can change the files at an address can make another store of them. #sha256=... at its
    end, or --expect, refuses any but the store that has this seal.

    Args:
        source: The store: a name, a folder or a URL.
        path: The new store: a name or a folder. [default: the last word]
        expect: The seal of the store, from its publisher.
        progress: Counts bytes.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store pull https://example.org/features/xclip
        obygaze store pull https://example.org/features/xclip#sha256=5f0c...
        obygaze store pull hf://lab/obygaze12-xclip -o theirs
    """
    here = Workspace.of(workspace)
    progress = progress or Quiet()
    store = open_store(source, workspace=here, expect=expect)
    target = here.new_store(last_part(store.location) if path is None else path)
    check_store_name(target.name, str(target))
    check_outside(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    n_sent = 0
    n_bytes = 0
    if seal_at(target) == store.seal:
        _check_copy(target, progress)
    else:
        n_sent, n_bytes = _pull(store, target, progress)
    _remove_copies(target)
    return Copied(str(target), store.seal, n_sent, n_bytes)


def _check_copy(target: Path, progress: Progress) -> None:
    """Raise an error for a copy that is there and damaged."""
    try:
        verify(target, hashes=True, progress=progress).require_ok()
    except Corrupt as error:
        error.hint = f"rm -r {shell_word(target)}, then the same command again"
        raise


def _remove_copies(target: Path, seal: str = "") -> None:
    """Remove what interrupted copies have left, except the one of this seal."""
    wanted = pulled_name(target, seal)
    for hidden in hidden_of(target):
        is_built = hidden.word == PULL and hidden.state == "unknown"
        if is_built and hidden.path != wanted:
            remove_tree(hidden.path)


def _pull(store: Store, target: Path, progress: Progress) -> tuple[int, int]:
    """Build the copy, then give it its name; return how many files and bytes were copied.

    Other processes may build the same copy in the same folder. Each of them finishes it, or finds
    that it is finished.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _pull_once(store, target, progress)
        except Unreachable as error:
            raise Stopped(
                f"the copy was interrupted: {error.message}",
                where=error.where,
                hint="the same command again; it goes on where it was stopped",
            ) from error
        except Corrupt as error:
            begun = pulled_name(target, store.seal)
            if begun.is_dir() and error.hint is None:
                error.hint = (
                    "the same command again, when the source is whole; or remove what was copied:"
                    f" rm -r {shell_word(begun)}"
                )
            raise
        except (FileNotFoundError, FileExistsError, AlreadyThere) as error:
            if seal_at(target) == store.seal:
                break
            # The folder in which the copy is built was renamed, and not to its name: again.
            is_moved = isinstance(error, OSError)
            if not is_moved or attempt == _ATTEMPTS - 1:
                raise
    return (0, 0)


def _pull_once(store: Store, target: Path, progress: Progress) -> tuple[int, int]:
    """Build the copy, then give it its name; see `_pull`."""
    hidden = pulled_name(target, store.seal)
    # Each file is written in a folder of this process first.
    parts = hidden_name(target)
    check_free(target)
    _remove_copies(target, store.seal)
    try:
        parts.mkdir()
        # All folders are made here: a late process must not bring back a folder that has its name.
        hidden.mkdir(exist_ok=True)
        for name in store.record.files:
            (hidden / name).parent.mkdir(parents=True, exist_ok=True)
        sent = _fetch_all(store, hidden, parts, progress)
        card = store.card
        if card:
            part = hidden_name(parts / CARD)
            part.write_bytes(card)
            part.replace(hidden / CARD)
        # The file that makes a copy a store comes after all others.
        data = store.store_json()
        mark = FileMark(len(data), seal_of(data))
        write_pieces(iter([data]), hidden / STORE_JSON, mark, store.location, parts)
        sync_tree(hidden)
        if not take_name(hidden, target):
            raise name_taken(target)
    finally:
        remove_tree(parts)
    return sent


def _fetch_all(
    store: Store, hidden: Path, parts: Path, progress: Progress
) -> tuple[int, int]:
    """Bring all listed files into a folder; return how many files and bytes were copied.

    A file that is there is never removed before another one takes its place: another process may
    have put it there, and be about to give the folder its name.
    """
    marks = store.record.files
    progress.expect(sum(mark.n_bytes for mark in marks.values()), "B")
    n_sent = 0
    n_bytes = 0
    for name, mark in marks.items():
        path = hidden / name
        if not has_file(path, mark):
            try:
                pieces = store.listed.pieces(name)
                write_pieces(pieces, path, mark, store.location, parts)
            except Corrupt as error:
                raise store.listed.damaged(name, error.message) from error
            n_sent += 1
            n_bytes += mark.n_bytes
        progress.advance(mark.n_bytes)
    known = {*marks, CARD, STORE_JSON}
    for name in FolderFiles(hidden).names() or []:
        if name not in known:
            (hidden / name).unlink()
    return n_sent, n_bytes


# --- Push ---


def push(
    store: PathLike | Store,
    target: PathLike,
    *,
    licence: str = "",
    citation: str = "",
    no_licence: bool = False,
    progress: Progress | None = None,
    workspace: PathLike | None = None,
) -> Copied:
    """Send a store to a folder, a bucket or the hub.

    Files that are there already are not sent again; the same command again continues what was
    interrupted. Where another store is, nothing is sent. A bucket's keys come from the AWS_*
    variables, the hub's token from `hf auth login`; a new data set on the hub is private.

    A store without a licence is refused. --licence and --citation state them: they are written into
    the head of README.md of the store, which may also be edited, and which is not sealed. The hub
    shows it. `obygaze store export --as parquet` makes a table for `datasets`.

    Args:
        store: The store, in a folder of this machine.
        target: A folder, s3://BUCKET/NAME or hf://OWNER/NAME.
        licence: Under which licence the features are: CC-BY-4.0.
        citation: What to cite for them.
        no_licence: Send the store also if it states no licence.
        progress: Counts bytes.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store push obygaze12-xclip s3://films/xclip --licence CC-BY-4.0
        obygaze store push obygaze12-xclip hf://lab/xclip --licence CC-BY-4.0 --citation "Doe, 2026"
        obygaze store push obygaze12-xclip /mnt/lab/xclip --no-licence
    """
    opened = open_store(store, workspace=workspace)
    if not isinstance(opened.files, FolderFiles):
        raise FixUsage(
            "only a store in a folder of this machine is sent",
            where=opened.location,
            hint="obygaze store pull --help",
        )
    refuse_pictures(opened)
    notes = []
    if licence or citation:
        _state_terms(opened, Terms(licence, citation))
        notes.append(f"README.md of {opened.location} states these terms, too")
    if not (no_licence or opened.terms.licence):
        raise FixUsage(
            "this store states no licence; without one nobody knows what they may do with the"
            " features",
            where=opened.location,
            hint="--licence CC-BY-4.0, or, where it is not published, --no-licence",
        )
    place = open_target(target)
    documents = {CARD: _card_of(opened), STORE_JSON: opened.store_json()}
    parcel = Parcel("store", Path(opened.files.address), opened.record.files, documents)

    def require_unchanged() -> None:
        try:
            opened.store_json()
        except Stopped as error:
            error.hint = (
                f"remove what was sent to {place.location}, then the same command again"
            )
            raise

    sent = send(parcel, place, progress or Quiet(), require_unchanged)
    if CARD in sent.replaced:
        notes.append("README.md there was another one; it was replaced")
    return Copied(place.location, opened.seal, sent.n_files, sent.n_bytes, notes)


def _state_terms(store: Store, terms: Terms) -> None:
    """Write licence and citation into the card of a store; others that are there are an error."""
    stated = store.terms
    terms.require_same(stated, store.location)
    new_terms = stated.or_else(terms)
    if new_terms != stated:
        path = Path(store.files.address) / CARD
        write_atomic(path, with_terms(_card_of(store), new_terms))


def _card_of(store: Store) -> bytes:
    """Return README.md of a store, made anew if it is not there."""
    if store.card:
        return store.card
    rows = RowColumns.of(store.rows)
    return card_of_store(store.record, rows, store.terms, store.seal).encode()


class OtherSeal(AlreadyThere):
    """A place belongs to another store or model: choose another place."""


@dataclass(frozen=True)
class Parcel:
    """Files that are sent together.

    Args:
        kind: What they are: a store, or a model.
        root: The folder of the listed files.
        marks: The listed files.
        documents: The others, in the order to send them. The last one lists the files and decides
            the seal; before it is there, nobody reads a store or a model.
    """

    kind: str
    root: Path
    marks: Mapping[str, FileMark]
    documents: Mapping[str, bytes]

    @property
    def last(self) -> str:
        """The name of the document that lists the files."""
        return [*self.documents][-1]

    @property
    def seal(self) -> str:
        """The SHA-256 of the document that lists the files."""
        return seal_of(self.documents[self.last])

    def another(self, state: str, where: str) -> OtherSeal:
        """Return the error that a place belongs to another seal."""
        return OtherSeal(
            f"another {self.kind} {state}",
            where=where,
            hint="another target; or remove what is there first",
        )


class Sent(NamedTuple):
    """How many files and bytes were sent, and which documents others had the names of."""

    n_files: int
    n_bytes: int
    replaced: Sequence[str]


def send(
    parcel: Parcel,
    target: Target,
    progress: Progress,
    check: Callable[[], object] = lambda: None,
) -> Sent:
    """Send files to a place, which belongs to the first seal that comes.

    First a document is put that names the seal, and only where none is. So whoever sends another
    store is refused, and whoever sends the same one puts the same bytes. Files that are there are
    not sent again. The document that lists the files comes last; `check` may refuse it.
    """
    marks = dict(parcel.marks)
    n_sent = 0
    n_bytes = 0
    replaced = []
    with _explained_interruption(target, parcel.kind), TemporaryDirectory() as folder:
        for name, data in parcel.documents.items():
            Path(folder, name).write_bytes(data)
            marks[name] = FileMark(len(data), sha256_bytes(data))
        names_there = _take_place(parcel, target)
        progress.expect(sum(mark.n_bytes for mark in marks.values()), "B")
        for name, mark in marks.items():
            root = folder if name in parcel.documents else parcel.root
            path = Path(root, name)
            if name == parcel.last:
                check()
            if not target.has(name, path, mark):
                if not has_file(path, mark):
                    check()
                    raise Corrupt(
                        f"{name} is damaged: it does not have its SHA-256",
                        where=str(parcel.root),
                    )
                if name in parcel.documents and name in names_there:
                    replaced.append(name)
                target.put(name, path, mark)
                n_sent += 1
                n_bytes += mark.n_bytes
            progress.advance(mark.n_bytes)
        for name in target.names():
            hidden = _hidden_in(name)
            # Another process may be sending the same files.
            if hidden is not None and hidden.state == "ended":
                target.remove(str(hidden.path))
            elif name == CLAIM:
                target.remove(name)
        target.finish(f"The {parcel.kind} {parcel.seal[:16]}")
    return Sent(n_sent, n_bytes, replaced)


def _take_place(parcel: Parcel, target: Target) -> list[str]:
    """Return the names that are at a place, when it belongs to the seal of what is sent."""
    names = _names_at(parcel, target)
    if parcel.last in names:
        return names
    try:
        owner = target.claim(parcel.seal)
    except FileNotFoundError:
        # Who had claimed the place has finished.
        return _take_place(parcel, target)
    if owner != parcel.seal:
        raise parcel.another("is being sent there, or was begun", target.location)
    try:
        # Another process may have finished here, or begun in a folder above or below.
        return _names_at(parcel, target)
    except OtherSeal:
        target.remove(CLAIM)
        target.finish(f"Not the {parcel.kind} {parcel.seal[:16]}")
        raise


def _names_at(parcel: Parcel, target: Target) -> list[str]:
    """Return the names that are at a place; an error for another store, and for other files."""
    target.check_above()
    names = target.names()
    if parcel.last in names:
        there = target.files().read(parcel.last, MOST_DOCUMENT_BYTES).tobytes()
        if seal_of(there) != parcel.seal:
            raise parcel.another("is there", target.location)
    known: set[str] = set()
    if parcel.last in names or CLAIM in names:
        known = {*parcel.marks, *parcel.documents, CLAIM}
    for name in names:
        if name not in known and _hidden_in(name) is None:
            raise AlreadyThere(
                f"{name} does not belong to this {parcel.kind}",
                where=target.location,
                hint=OWN_PLACE,
            )
    return names


def _hidden_in(name: str) -> Leftover | None:
    """Return what the hidden part of a name says; None if no part is hidden."""
    path = Path(name)
    for part in (*reversed(path.parents), path):
        hidden = read_hidden(part)
        if hidden is not None:
            return hidden
    return None


@contextmanager
def _explained_interruption(target: Target, kind: str) -> Iterator[None]:
    """Say of an interruption what is at a target until the push is repeated."""
    state = f"until the push is finished, nobody can read a {kind} at the target"
    try:
        yield
    except KeyboardInterrupt as error:
        error.add_note(state)
        error.add_note(AGAIN)
        raise
    except Unreachable as error:
        raise Stopped(
            f"the push was interrupted: {error.message}; {state}",
            where=target.location,
            hint=AGAIN,
        ) from error

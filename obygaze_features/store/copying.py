"""Copy whole stores: pull a store from anywhere, or push it to a folder, a bucket or the hub.

Models are copied by the same two functions, `fetch` and `send`. A file that exists with the right
length and SHA-256 is not copied again. The document that lists the files is written last, so an
unfinished copy is not a store. No command overwrites a store that has a different seal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from obygaze_features.core.console import Progress, Quiet, count
from obygaze_features.core.errors import AlreadyThere, Corrupt, FixUsage, Stopped
from obygaze_features.core.files import canonical_json, sha256_bytes, write_atomic
from obygaze_features.core.temporary_names import (
    PULL,
    find_hidden,
    pulled_name,
    remove_leftovers,
)
from obygaze_features.core.workspace import PathLike, Workspace, last_part
from obygaze_features.store.atomic_files import (
    has_file,
    read_seal,
    remove_empty_group,
    remove_tree,
    replaced_store_path,
    sync_tree,
    take_name,
    write_pieces,
)
from obygaze_features.store.card import (
    MOST_CARD_BYTES,
    Terms,
    read_terms,
    with_terms,
)
from obygaze_features.store.exporting import refuse_pictures
from obygaze_features.store.files import (
    MOST_DOCUMENT_BYTES,
    FolderFiles,
    ListedFiles,
    store_replaced_error,
)
from obygaze_features.store.layout import CARD, CLAIM, STORE_JSON, check_store_name
from obygaze_features.store.making import (
    check_name_is_free,
    check_not_inside_store,
    store_exists_error,
)
from obygaze_features.store.network import AGAIN, Unreachable
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.records import FileMark, seal_of
from obygaze_features.store.targets import OWN_PLACE, Target, open_target
from obygaze_features.store.verifying import verify

# A term that is not stated here differs from each term that is stated at a target.
_NOT_STATED = Terms("not stated", "not stated")
_ATTEMPTS = 5


@dataclass(frozen=True)
class Copied:
    """A copy of a store or of a model.

    Args:
        place: The folder or URL of the copy.
        seal: The seal of the store or model.
        n_sent: The number of copied files; the other files existed.
        notes: Remarks for the user.
    """

    place: str
    seal: str
    n_sent: int
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON."""
        return vars(self)

    def __str__(self) -> str:
        copied = "all files exist already"
        if self.n_sent:
            copied = f"{count(self.n_sent, 'file')} copied"
        return f"{self.place}: {copied}\nseal: {self.seal}"


# --- Pull ---


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
    interrupted copy, and every file is checked as it arrives. An existing store is never replaced.
    After `zarr.open_group(NAME, mode="w")`, which removes all files of a store, the same command
    copies it again. `og.store.subset` copies a part.

    The files at an address may be changed by others. #sha256=... at its end, or `expect`, refuses
    any store but the one with this seal.

    Args:
        source: The store: a name, a folder or a URL.
        path: The new store: a name or a folder; by default the last part of the source.
        expect: The seal of the store, from its publisher.
        progress: Counts bytes.
        workspace: The workspace, if it is not the current one.
    """
    here = Workspace.of(workspace)
    progress = progress or Quiet()
    store = open_store(source, workspace=here, expect=expect)
    target = here.new_store(last_part(store.location) if path is None else path)
    check_store_name(target.name, str(target))
    check_not_inside_store(target)
    n_sent = 0
    if read_seal(target) == store.seal:
        verify(target, hashes=True, progress=progress).require_ok()
    for attempt in range(_ATTEMPTS):
        if read_seal(target) == store.seal:
            break
        try:
            remove_empty_group(target)
            check_name_is_free(target)
            n_sent = _pull(store, target, progress)
        except (FileNotFoundError, FileExistsError, AlreadyThere):
            # Another process may have finished this copy. `Path.mkdir` raises FileExistsError if
            # the folder exists at first, and is renamed before the second look.
            if read_seal(target) != store.seal and attempt == _ATTEMPTS - 1:
                if read_seal(target):
                    # The name has another store, so that this copy cannot be continued.
                    remove_tree(pulled_name(target, store.seal))
                raise
    remove_leftovers(target)
    for hidden in find_hidden(target):
        if hidden.word == PULL:
            remove_tree(hidden.path)
    notes = []
    card = b"" if n_sent else store.card
    card_here = open_store(target).card
    if card and not card_here:
        write_atomic(target / CARD, card)
        n_sent = 1
    elif card and read_terms(card) != read_terms(card_here):
        # The user may have edited README.md here.
        notes.append(
            "the source states another licence or citation than README.md here"
        )
    return Copied(str(target), store.seal, n_sent, notes)


def _pull(store: Store, target: Path, progress: Progress) -> int:
    """Build a copy in a hidden folder and rename it; return the number of copied files.

    The hidden folder is named by the seal, so several processes may build the same copy in it. Each
    process finishes the copy, or finds that another process has renamed the folder.
    """
    hidden = pulled_name(target, store.seal)
    documents = {CARD: store.card, STORE_JSON: store.store_json()}
    # All folders are made here: a late process must not bring back a folder that was renamed.
    for name in store.record.files:
        (hidden / name).parent.mkdir(parents=True, exist_ok=True)
    try:
        n_sent = fetch(store.listed, documents, hidden, target, progress)
    except Unreachable as error:
        raise Stopped(
            f"the copy was interrupted: {error.message}", where=error.where, hint=AGAIN
        ) from error
    sync_tree(hidden)
    if not take_name(hidden, target):
        raise store_exists_error(target)
    return n_sent


def fetch(
    listed: ListedFiles,
    documents: Mapping[str, bytes],
    folder: Path,
    beside: Path,
    progress: Progress,
) -> int:
    """Copy missing files into a folder; return the number of copied files.

    A file with a different length or SHA-256 is replaced by the new file in one step, and is not
    removed first. Another process may have written it correctly meanwhile, and may be about to
    rename the folder.

    Args:
        listed: The listed files, each of which must have its listed length and SHA-256.
        documents: Documents that are not among the listed files. The last of them is the document
            that lists the files.
        folder: The folder of the copy.
        beside: The path next to which an unfinished file has a hidden name.
        progress: Counts bytes.
    """
    progress.expect(sum(mark.n_bytes for mark in listed.marks.values()), "B")
    n_sent = 0
    for name, mark in listed.marks.items():
        path = folder / name
        if not has_file(path, mark):
            try:
                pieces = listed.pieces(name)
                write_pieces(pieces, path, mark, listed.location, beside)
            except Corrupt as error:
                raise listed.damaged(name, error.message) from error
            n_sent += 1
        progress.advance(mark.n_bytes)
    for name, data in documents.items():
        if data:
            mark = FileMark(len(data), sha256_bytes(data))
            write_pieces(iter([data]), folder / name, mark, listed.location, beside)
            n_sent += 1
    return n_sent


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

    Files that exist at the target are not sent again; the same command again continues an
    interrupted push. A target with a different store is refused. The keys of a bucket are AWS_*
    variables; `hf auth login` sets the token of the hub. A new data set on the hub is private.

    A store without a licence is refused. Licence and citation are written into the head of
    README.md of the store, if it states none. You may edit this head: it is not sealed.
    `og.store.export` makes a table for `datasets`.

    Args:
        store: The store, in a folder of this machine.
        target: A folder, s3://BUCKET/NAME or hf://OWNER/NAME.
        licence: The licence of the features: CC-BY-4.0.
        citation: What to cite for them.
        no_licence: Send a store that states no licence.
        progress: Counts bytes.
        workspace: The workspace, if it is not the current one.
    """
    opened = open_store(store, workspace=workspace)
    if not isinstance(opened.files, FolderFiles):
        raise FixUsage(
            "expected a store in a folder of this machine, got an address",
            where=opened.location,
            hint="copy the store first: obygaze store pull SOURCE",
        )
    refuse_pictures(opened)
    terms = Terms(licence, citation)
    terms.require_same(opened.terms, opened.location)
    terms = opened.terms.or_else(terms)
    if not (no_licence or terms.licence):
        raise FixUsage(
            "the licence of this store is missing: users would not know what they may do with"
            " the features",
            where=opened.location,
            hint="pass --licence CC-BY-4.0, or --no-licence if you do not publish the store",
        )
    place = open_target(target)
    root = Path(opened.files.address)
    notes = []
    card_before = opened.card
    card = with_terms(card_before, terms)
    # The user may have edited the header only.
    if any(terms) and card != card_before:
        write_atomic(root / CARD, card)
        notes.append(f"wrote these terms into README.md of {opened.location}")
    marks = dict(opened.record.files)
    if opened.card:
        marks[CARD] = FileMark(len(opened.card), sha256_bytes(opened.card))
    marks[STORE_JSON] = FileMark(len(opened.store_json()), opened.seal)
    parcel = Parcel("store", root, marks)
    progress = progress or Quiet()
    try:
        n_sent = send(parcel, place, progress)
    except (AlreadyThere, Corrupt):
        # A refused push states no terms.
        if notes:
            write_atomic(root / CARD, card_before)
        raise
    except Stopped:
        before = replaced_store_path(root, parcel.seal)
        if read_seal(before) != parcel.seal:
            raise
        # Another process replaced the store meanwhile: the replaced store is kept, and is sent.
        n_sent = send(Parcel("store", before, marks), place, progress)
        notes.append(
            f"{opened.location} was replaced during the push; the push sent the previous store"
        )
    return Copied(place.location, opened.seal, n_sent, notes)


class Parcel(NamedTuple):
    """The files of a store or a model, which are sent together.

    Args:
        kind: `store` or `model`.
        root: The folder of the store or model.
        marks: The files, in the order in which they are sent. The last file lists the others, and
            its SHA-256 is the seal. Before this file exists, no store or model can be read.
    """

    kind: str
    root: Path
    marks: Mapping[str, FileMark]

    @property
    def last(self) -> str:
        """The name of the document that lists the files."""
        return [*self.marks][-1]

    @property
    def seal(self) -> str:
        """The SHA-256 of the document that lists the files."""
        return self.marks[self.last].sha256

    def require(self, name: str) -> None:
        """Raise an error unless a file of the folder has its listed length and SHA-256."""
        if has_file(self.root / name, self.marks[name]):
            return
        if not has_file(self.root / self.last, self.marks[self.last]):
            raise store_replaced_error(str(self.root))
        raise Corrupt(
            f"{name} is damaged: length or SHA-256 differs", where=str(self.root)
        )

    def conflict_error(self, state: str, where: str) -> AlreadyThere:
        """Return the error for a target that has, or is claimed for, a different seal.

        `state` is the end of the message, such as "exists here".
        """
        return AlreadyThere(
            f"a different {self.kind} {state}",
            where=where,
            hint="choose another target, or remove the files there first",
        )


def send(parcel: Parcel, target: Target, progress: Progress) -> int:
    """Send the files of a parcel to a target; return the number of sent files.

    First, the target is claimed: a document with the seal is created there, if the target has none.
    A claim with a different seal raises an error. Therefore all processes that push to one target
    push files with the same bytes. Existing files are not sent again. The document that lists the
    files is sent last.
    """
    # A damaged store must not claim a target.
    for name in parcel.marks:
        parcel.require(name)
    try:
        names = _claim_target(parcel, target)
        progress.expect(sum(mark.n_bytes for mark in parcel.marks.values()), "B")
        n_sent = 0
        for name, mark in parcel.marks.items():
            path = parcel.root / name
            try:
                if not target.has(name, path, mark):
                    target.put(name, path, mark)
                    n_sent += 1
            except (Corrupt, FileNotFoundError):
                parcel.require(name)
                raise
            progress.advance(mark.n_bytes)
        if parcel.last not in names or CLAIM in names:
            target.remove_claim()
        target.finish(f"The {parcel.kind} {parcel.seal[:16]}")
    except Unreachable as error:
        raise Stopped(
            f"the push was interrupted: {error.message}; the {parcel.kind} at the target cannot be"
            " read until the push is finished",
            where=target.location,
            hint=AGAIN,
        ) from error
    return n_sent


def _claim_target(parcel: Parcel, target: Target) -> list[str]:
    """Claim a target for the seal of a parcel; return the names of the files at the target."""
    names = _list_target(parcel, target)
    if parcel.last in names:
        return names
    claim = canonical_json({"format": "obygaze-claim", "seal": parcel.seal})
    try:
        owner = target.claim(claim)
    except FileNotFoundError:
        # The process that claimed the target has finished.
        return _claim_target(parcel, target)
    if owner != claim:
        raise parcel.conflict_error(
            "is being sent here, or was sent in part", target.location
        )
    try:
        # Another process may have finished its push here, or begun one in a folder above or below.
        return _list_target(parcel, target)
    except AlreadyThere:
        target.remove_claim()
        target.finish(f"Not the {parcel.kind} {parcel.seal[:16]}")
        raise


def _list_target(parcel: Parcel, target: Target) -> list[str]:
    """Return the names of the files at a target.

    Raise an error if the target has a store or model with a different seal, or files that do not
    belong to the parcel.
    """
    target.check_above()
    names = target.names()
    if parcel.last in names:
        there = target.files.read(parcel.last, MOST_DOCUMENT_BYTES).tobytes()
        if seal_of(there) != parcel.seal:
            raise parcel.conflict_error("exists here", target.location)
        if CARD in parcel.marks and CARD in names:
            # Somebody may have corrected the terms there, or have added one.
            card = target.files.read(CARD, MOST_CARD_BYTES).tobytes()
            ours = read_terms((parcel.root / CARD).read_bytes()).or_else(_NOT_STATED)
            ours.require_same(read_terms(card), target.location)
    is_claimed = parcel.last in names or CLAIM in names
    known = {*parcel.marks, CLAIM} if is_claimed else set()
    for name in names:
        if name not in known:
            raise AlreadyThere(
                f"{name} does not belong to this {parcel.kind}",
                where=target.location,
                hint=OWN_PLACE,
            )
    return names

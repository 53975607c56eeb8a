"""Copy whole stores: pull one from anywhere, push one to a folder, a bucket or the hub.

`store.json` is written last, after each file was compared with its SHA-256, so that half a copy is
no store. A copy whose source was replaced becomes the new store; the copy before is kept beside it.
"""

import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from obygaze_features.core.clip_ids import each_name
from obygaze_features.core.console import Progress, Quiet, few, human
from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixUsage,
    Mismatch,
    NotFound,
    Stopped,
)
from obygaze_features.core.files import is_listed, write_atomic
from obygaze_features.core.leftovers import (
    PULL,
    hidden_name,
    hidden_of,
    pulled_name,
    read_hidden,
    remove_hidden,
    remove_leftovers,
)
from obygaze_features.core.shell import shell_word
from obygaze_features.core.workspace import Workspace, last_part
from obygaze_features.store.card import (
    PUBLISHED_TABLE,
    Terms,
    edits_of,
    read_terms,
    require_licence,
    with_body,
    with_terms,
)
from obygaze_features.store.exporting import refuse_pictures
from obygaze_features.store.files import FolderFiles
from obygaze_features.store.finding import (
    Copy,
    find_copies,
    text_of_copies,
)
from obygaze_features.store.layout import CARD, STORE_JSON, check_store_name
from obygaze_features.store.making import (
    OTHER_NAME,
    check_before,
    check_free,
    name_taken,
    take_place,
)
from obygaze_features.store.network import AGAIN, Unreachable
from obygaze_features.store.placing import (
    before_of,
    finish_change,
    finish_waiting,
    link_file,
    next_of,
    remove_tree,
    seal_at,
    sync_tree,
    take_name,
)
from obygaze_features.store.publishing import (
    PUBLISHED_FILES,
    creators_as_read,
    full_card,
    published_files,
    require_names,
)
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.records import (
    FileMark,
    Tombstone,
    changes_of,
    seal_of,
)
from obygaze_features.store.targets import (
    OWN_PLACE,
    WITHDRAWING,
    Target,
    has_file,
    hash_of,
    open_target,
    write_pieces,
)
from obygaze_features.store.verifying import has_replaced, verify
from obygaze_features.store.withdrawals import rows_withdrawn_elsewhere

_ATTEMPTS = 5


@dataclass(frozen=True)
class Copied:
    """A copy of a store.

    Args:
        place: The folder or URL of the copy.
        seal: The seal of the store.
        n_sent: How many files were copied; the others were there.
        n_bytes_transferred: How long these are together.
        changes: What changed in the store since the copy that was there before.
        notes: What its user should do.
        copies: Where features of withdrawn clips still are.
        withdrawn: Of a copy that was pulled, the films and clips that were ever withdrawn.
    """

    place: str
    seal: str
    n_sent: int = 0
    n_bytes_transferred: int = 0
    changes: Sequence[str] = ()
    notes: Sequence[str] = ()
    copies: Sequence[Copy] = ()
    withdrawn: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return all that is known of the copy."""
        copies = [copy.to_json() for copy in self.copies]
        return {**vars(self), "copies": copies}

    def __str__(self) -> str:
        sent = f"{human(self.n_bytes_transferred)} copied"
        if not self.n_sent:
            sent = "all files were there, and are those of this store"
        lines = [f"{self.place}: {sent}", *self.changes]
        if self.withdrawn:
            names = few(self.withdrawn)
            lines.append(f"withdrawn: {names}; none of their features are in this copy")
        return "\n".join([*lines, *text_of_copies(self.copies)])


def pull(
    source: str | os.PathLike[str] | Store,
    path: str | os.PathLike[str] | None = None,
    *,
    expect: str | None = None,
    progress: Progress | None = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Copied:
    """Copy a store to this machine."""
    here = Workspace.of(workspace)
    store = open_store(source, workspace=here, expect=expect)
    target = here.new_store(last_part(store.location) if path is None else path)
    check_store_name(target.name, str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    seal_before = seal_at(target)
    finish_waiting(target)
    older = _copy_at(target, store)
    card, notes = _card_of_copy(store, older)
    changes: list[str] = []
    n_sent = 0
    n_bytes = 0
    is_there = older is not None and older.seal == store.seal
    if older is None or not is_there or verify(older, hashes=True).problems:
        n_sent, n_bytes = _pull(store, target, older, card, progress or Quiet())
    elif card != older.card:
        write_atomic(target / CARD, card)
        notes.append("README.md was updated from the source")
    _remove_copies(target)
    # The source may have been replaced since it was copied.
    copy = open_store(target)
    notes += rows_withdrawn_elsewhere(copy, here, "in this copy")
    # The new copy may have come here before this process, which was killed then.
    if seal_before not in ("", store.seal):
        since = store.record.tombstones_since(seal_before)
        changes = changes_of(since, "the source was replaced")
    # Each pull lists them, as the list of an earlier one may be lost.
    withdrawn = store.record.tombstones
    copies = find_copies(copy, withdrawn, here) if withdrawn else []
    return Copied(
        place=str(target),
        seal=store.seal,
        n_sent=n_sent,
        n_bytes_transferred=n_bytes,
        changes=changes,
        notes=notes,
        copies=copies,
        withdrawn=tuple(dict.fromkeys(each.name for each in withdrawn)),
    )


def _card_of_copy(store: Store, older: Store | None) -> tuple[bytes, list[str]]:
    """Return README.md of a copy: that of the source, with what was edited in an older copy."""
    card = store.card
    if PUBLISHED_TABLE.encode() in card:
        # The table of a publication is not copied.
        card = full_card(store)
    if older is None or not older.card:
        return card, []
    if not card:
        return older.card, []
    notes = []
    edits = older.card_edits()
    if edits.body and edits_of(card).body not in ("", edits.body):
        notes.append(
            "README.md stays as it was edited here; that of the source is another one"
        )
    card = with_body(card, edits)
    of_source = read_terms(card)
    terms = of_source.or_else(older.terms)
    for name, text, stated in zip(terms._fields, terms, of_source, strict=True):
        if text != stated:
            # It was stated here, or the source has taken it back.
            notes.append(
                f"the {name} stays as stated here, and not at the source: {text}"
            )
    if terms != of_source:
        card = with_terms(card, terms)
    return card, notes


def _copy_at(target: Path, store: Store) -> Store | None:
    """Return the older copy at a target; an error if anything else is there."""
    has_store = bool(seal_at(target))
    if not has_store:
        # Another process may be between the two renames by which a store takes a place.
        finish_change(target)
        if not is_listed(target):
            return None
        has_store = bool(seal_at(target))
    taken = "a folder or file that is not a copy of this store has this name"
    if has_store:
        copy = open_store(target)
        if copy.seal == store.seal or has_replaced(store, copy):
            return copy
        taken = "another store has this name"
    raise AlreadyThere(taken, where=str(target), hint=OTHER_NAME)


def _remove_copies(target: Path, seal: str = "") -> None:
    """Remove what interrupted copies have left; not the one of this seal, with which one goes on.

    An earlier one may have what was withdrawn since.
    """
    wanted = pulled_name(target, seal)
    here = seal_at(target)
    damaged = before_of(target, here)
    for name in (target, next_of(target), damaged):
        remove_leftovers(name)
    if here and seal_at(damaged) == here:
        # A whole copy of the same store has taken its place.
        remove_tree(damaged)
    for hidden in hidden_of(target):
        is_built = hidden.word == PULL and hidden.state == "unknown"
        if is_built and hidden.path != wanted:
            remove_tree(hidden.path)


def _pull(
    store: Store, target: Path, older: Store | None, card: bytes, progress: Progress
) -> tuple[int, int]:
    """Build the copy, then give it its name; return how many files and bytes were copied.

    Other processes may build the same copy in the same folder. Each of them finishes it, or finds
    that it is finished.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _pull_once(store, target, older, card, progress)
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
        except (FileNotFoundError, FileExistsError, Mismatch, AlreadyThere) as error:
            finish_waiting(target)
            is_damaged = older is not None and older.seal == store.seal
            if seal_at(target) == store.seal and not is_damaged:
                break
            # The folder in which the copy is built was renamed, and not to its name: again.
            is_moved = isinstance(error, OSError)
            if not is_moved or attempt == _ATTEMPTS - 1:
                raise
    return (0, 0)


def _pull_once(
    store: Store, target: Path, older: Store | None, card: bytes, progress: Progress
) -> tuple[int, int]:
    """Build the copy, then give it its name; see `_pull`."""
    hidden = pulled_name(target, store.seal)
    # Each file is written in a folder of this process first.
    parts = hidden_name(target)
    if older is None:
        check_free(target)
    else:
        check_before(target, older.seal)
    _remove_copies(target, store.seal)
    try:
        parts.mkdir()
        # All folders are made here: a late process must not bring back a folder that has its name.
        hidden.mkdir(exist_ok=True)
        for name in store.record.files:
            (hidden / name).parent.mkdir(parents=True, exist_ok=True)
        sent = _fetch_all(store, hidden, parts, older, progress)
        if card:
            part = hidden_name(parts / CARD)
            part.write_bytes(card)
            part.replace(hidden / CARD)
        # The file that makes a copy a store comes after all others.
        data = store.store_json()
        mark = FileMark(len(data), seal_of(data))
        write_pieces(iter([data]), hidden / STORE_JSON, mark, store.location, parts)
        sync_tree(hidden)
        if older is not None:
            take_place(hidden, target, older.seal)
        elif not take_name(hidden, target):
            raise name_taken(target)
    finally:
        remove_tree(parts)
    return sent


def _fetch_all(
    store: Store, hidden: Path, parts: Path, older: Store | None, progress: Progress
) -> tuple[int, int]:
    """Bring all listed files into a folder; return how many files and bytes were copied.

    A file that is there is never removed before another one takes its place: another process may
    have put it there, and be about to give the folder its name.
    """
    marks = store.record.files
    progress.expect(sum(mark.n_bytes for mark in marks.values()), "B")
    files_there: dict[FileMark, Path] = {}
    if older is not None:
        for name, mark in older.record.files.items():
            files_there[mark] = Path(older.files.address) / name
    n_sent = 0
    n_bytes = 0
    for name, mark in marks.items():
        path = hidden / name
        if not has_file(path, mark):
            there = files_there.get(mark)
            if there is not None and has_file(there, mark):
                part = hidden_name(parts / path.name)
                link_file(there, part, mark)
                part.replace(path)
            else:
                where = f"{store.location}/{name}"
                write_pieces(store.listed.pieces(name), path, mark, where, parts)
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
    store: str | os.PathLike[str] | Store,
    target: str | os.PathLike[str],
    *,
    licence: str = "",
    citation: str = "",
    no_licence: bool = False,
    publish: bool = False,
    creators: Sequence[str] = (),
    progress: Progress | None = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Copied:
    """Send a store to a folder, a bucket or the hub."""
    opened = open_store(store, workspace=workspace)
    if not isinstance(opened.files, FolderFiles):
        raise FixUsage(
            "only a store in a folder of this machine is sent",
            where=opened.location,
            hint="obygaze store pull --help",
        )
    refuse_pictures(opened)
    creators = each_name(creators)
    if creators and not publish:
        raise FixUsage("--creator belongs to --publish")
    if publish:
        require_names(creators or [""])
    if licence or citation:
        _state_terms(opened, Terms(licence, citation))
    if publish or not no_licence:
        require_licence(
            opened.terms,
            opened.location,
            "--licence CC-BY-4.0, or, where it is not published, --no-licence",
        )
    # Before anything is sent: later, another store may have taken its place here.
    here = Workspace.of(workspace)
    withdrawn = rows_withdrawn_elsewhere(opened, here, "in what was sent")
    place = open_target(target)
    with _folder_beside(Path(opened.files.address)) as folder:
        extra = published_files(opened, folder, creators) if publish else {}
        sent = _push(opened, place, extra, folder, progress or Quiet())
    notes = [*sent.notes]
    if licence or citation:
        notes.append(f"README.md of {opened.location} states these terms, too")
    if publish:
        notes.append(creators_as_read(creators))
    return replace(sent, notes=(*notes, *withdrawn))


@contextmanager
def _folder_beside(store: Path) -> Iterator[Path]:
    """Make a folder for what is sent beside the files of a store, and remove it afterwards.

    Where the store may only be read, the system's folder for temporary files has it.
    """
    remove_leftovers(store)
    folder = hidden_name(store)
    try:
        folder.mkdir()
    except OSError:
        with tempfile.TemporaryDirectory() as made:
            yield Path(made)
        return
    try:
        yield folder
    finally:
        remove_hidden(folder)


def _state_terms(store: Store, terms: Terms) -> None:
    """Write licence and citation into the card of a store; others that are there are an error."""
    stated = store.terms
    terms.require_same(stated, store.location)
    new_terms = stated.or_else(terms)
    if new_terms != stated:
        card = store.card or full_card(store)
        path = Path(store.files.address) / CARD
        write_atomic(path, with_terms(card, new_terms))


def _push(
    store: Store,
    target: Target,
    extra: Mapping[str, Path],
    folder: Path,
    progress: Progress,
) -> Copied:
    """Send a store with extra files; store.json waits in a folder until it is sent, last."""
    root = Path(store.files.address)
    record = store.record
    names_there = target.names()
    there = _check_target(target, store, names_there)
    is_replaced = there is not None and there.seal != store.seal
    since = _withdrawn_since_target(store, there, names_there)
    title = WITHDRAWING if since else f"The store {store.seal[:16]}"
    sent = {*record.files, *extra, STORE_JSON}
    published_there = [name for name in PUBLISHED_FILES if name in names_there]
    notes = []
    if there is not None and not (is_replaced or extra) and there.terms == store.terms:
        # They are of this store, and state its terms.
        sent.update(published_there)
    removed = [name for name in published_there if name not in sent]
    if removed:
        notes.append(
            f"removed there, since the store or its terms have changed: {', '.join(removed)};"
            " --publish --creator NAME sends it anew"
        )
    card, note = _card_to_send(store, target, names_there, sent)
    notes += note
    if card:
        sent.add(CARD)
        path = folder / CARD
        path.write_bytes(card)
        extra = {**extra, CARD: path}
    progress.expect(sum(mark.n_bytes for mark in record.files.values()), "B")
    n_sent = 0
    n_bytes = 0
    with _explained_interruption(target):
        if is_replaced:
            # From now on no store is there, until all files of the new one are.
            target.remove(STORE_JSON)
            target.finish(title)
        for name, mark in record.files.items():
            path = root / name
            if not target.has(name, path, mark):
                if not has_file(path, mark):
                    raise store.listed.damaged(name, "it does not have its SHA-256")
                target.put(name, path, mark)
                n_sent += 1
                n_bytes += mark.n_bytes
            progress.advance(mark.n_bytes)
        for name in names_there:
            hidden = read_hidden(Path(name))
            # Another process may be sending this store too.
            is_needed = name in sent if hidden is None else hidden.state != "ended"
            if not is_needed:
                target.remove(name)
        for name, path in extra.items():
            mark = hash_of(path)
            if not target.has(name, path, mark):
                target.put(name, path, mark)
                n_sent += 1
                n_bytes += mark.n_bytes
        # If another store has taken its place meanwhile, the files may be of both.
        data = store.store_json()
        if there is None or is_replaced:
            path = folder / STORE_JSON
            path.write_bytes(data)
            target.put(STORE_JSON, path, FileMark(len(data), store.seal))
            n_sent += 1
        target.finish(title)
    changes = []
    if is_replaced:
        changes = changes_of(since, "sent too: this store was changed")
    if record.tombstones:
        note_on_versions = target.forget()
        if note_on_versions:
            notes.append(f"clips were withdrawn from this store: {note_on_versions}")
    return Copied(
        target.location,
        store.seal,
        n_sent,
        n_bytes,
        changes,
        tuple(notes),
    )


def _withdrawn_since_target(
    store: Store, there: Store | None, names_there: Sequence[str]
) -> Sequence[Tombstone]:
    """Return what was withdrawn since the store at a target; all of it if only a part is there."""
    if there is not None:
        is_same = there.seal == store.seal
        return () if is_same else store.record.tombstones_since(there.seal)
    is_begun = not store.record.files.keys().isdisjoint(names_there)
    return store.record.tombstones if is_begun else ()


def _card_to_send(
    store: Store,
    target: Target,
    names_there: Sequence[str],
    sent: Collection[str],
) -> tuple[bytes, list[str]]:
    """Return README.md for a target, with the text that was edited there, unless ours was too."""
    is_published = not set(PUBLISHED_FILES).isdisjoint(sent)
    card = (
        full_card(store, has_table=PUBLISHED_TABLE in sent)
        if is_published
        else store.card
    )
    if CARD not in names_there:
        return card, []
    # The files of a target are read like those of a store, whether or not one is there.
    there = Store(target.files(), store.record, store.seal).card_edits()
    edited = edits_of(card).body
    notes = []
    if there.body not in ("", edited) and edited:
        notes.append("README.md there had another text; it has that of the store now")
    if card or there.body:
        card = with_body(
            card or full_card(store), there._replace(body=edited or there.body)
        )
    return card, notes


@contextmanager
def _explained_interruption(target: Target) -> Iterator[None]:
    """Say of an interruption what is at a target until the push is repeated."""
    state = "until the push is finished, nobody can read a store at the target"
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


def _check_target(target: Target, store: Store, names: Sequence[str]) -> Store | None:
    """Return the store at a target, None if none; an error for anything else there."""
    there = None
    record = store.record
    known = {*record.files, STORE_JSON, CARD, *PUBLISHED_FILES}
    if STORE_JSON in names:
        # Another process that sends a store may have removed it meanwhile.
        with suppress(NotFound):
            there = open_store(target.files())
        if there is not None and there.seal != store.seal:
            if not has_replaced(store, there):
                raise AlreadyThere("another store is there", where=target.location)
            known.update(there.record.files)
    if set(record.files).isdisjoint(names):
        # A card alone is that of something else.
        known.discard(CARD)
    for name in names:
        if name not in known and read_hidden(Path(name)) is None:
            raise AlreadyThere(
                f"{name} does not belong to this store",
                where=target.location,
                hint=OWN_PLACE,
            )
    return there

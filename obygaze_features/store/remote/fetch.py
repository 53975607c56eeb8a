"""Fetch stores, whole or in part, from another place or out of a zip.

Files arrive in a hidden draft folder, several at once. Each gets its name only when its bytes are
the ones that the seal or marker lists. An interrupted file is resumed; its name in the draft is
made from its name and sha256, so that it is never mixed with a file of another store.

Each process has its own draft, readable by its user only, which it holds (`core.holds`). To resume,
a process renames the draft of an ended one to a name of its own, which only one can do, on every
file system.
"""

import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

from obygaze_features.core import system
from obygaze_features.core.console import Progress, few
from obygaze_features.core.drafts import draft_beside, short_name, stop_when_lost
from obygaze_features.core.errors import (
    AlreadyThere,
    Corrupt,
    FixUsage,
    ObygazeError,
    Stopped,
)
from obygaze_features.core.files import (
    confined,
    locked,
    sha256_file,
    sync_dir,
    write_atomic,
)
from obygaze_features.core.holds import TAG, HeldFolder, hold_new, new_tag, take_over
from obygaze_features.core.options import Bar, Option
from obygaze_features.core.outside import safe_text
from obygaze_features.core.own_results import check_name
from obygaze_features.core.workspace import (
    Workspace,
    is_url,
    last_part,
    split_version,
)
from obygaze_features.store.format.limits import check_disk, disk_errors
from obygaze_features.store.format.records import (
    LicenceHistory,
    Partial,
    Plan,
    Seal,
)
from obygaze_features.store.format.schema import (
    KEPT_FOLDER,
    VERSIONS_FOLDER,
    Bytes,
    FileMark,
)
from obygaze_features.store.read.log import store_log
from obygaze_features.store.read.reader import open_store
from obygaze_features.store.remote import split_expected
from obygaze_features.store.remote.files import (
    Files,
    FolderFiles,
    Piece,
    not_as_listed,
    open_zip,
)
from obygaze_features.store.remote.grow import (
    add_blocks,
    move_files,
    refuse_other_blocks,
    seal_copy,
)
from obygaze_features.store.remote.object_store import (
    AGAIN,
    NoRanges,
    Unreachable,
    stop_when_unreachable,
)
from obygaze_features.store.remote.selection import (
    THREADS,
    FileSelection,
    Transfer,
    Transferred,
    existing_copy,
    is_earlier_copy,
    licence_to_add,
    select_files,
)
from obygaze_features.store.remote.versions import (
    first_to_send,
    is_kept_name,
    kept_marks,
    read_seal,
)
from obygaze_features.store.write.commit import rename_new
from obygaze_features.store.write.publication import (
    clean_versions,
    keep_bytes,
    keep_file,
    prepared_version,
    sync_kept,
)

PIECE_BYTES = 4_000_000
MIN_PIECE_BYTES = 64_000
# The folders of a draft.
STORE = "store"
PARTS = "parts"
CUT = "cut"
# The name of the copy of a part, while it is made.
COPY = "copy"
_TAG = re.compile(TAG + r"\.pull")
TRIES = 5
PAUSE_S = 0.2


def pull(
    source: str | os.PathLike[str] | Files,
    path: Annotated[
        str | os.PathLike[str] | None, Option("-o --output", metavar="NAME")
    ] = None,
    *,
    arrays: Annotated[
        Sequence[str] | None, Option("--array", shown_default="all")
    ] = None,
    films: Annotated[Iterable[str] | None, Option("--film")] = None,
    expect: Annotated[str | None, Option(metavar="SHA256")] = None,
    progress: Annotated[Progress | None, Bar("pull")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Transferred:
    """Fetch a store, or a part of it.

    From a web server, a bucket, the hub or a folder. The same command again continues an
    interrupted transfer, and every file is checked as it arrives. A part is a store of its own: of
    --array with these arrays, of --film with the clips of these films. It does not grow;
    `obygaze store merge` joins several of films.

    Whoever can change the files at an address can make another store of them. #sha256=... at its
    end, or --expect, refuses any but the store whose seal has that sha256.

    Args:
        source: The store: a name, a folder, a packed zip or a URL.
        path: The new store: a name or a folder. [default: the last word]
        arrays: Only this array.
        films: Only the clips of this film, an id.
        expect: The sha256 of its seal, from its publisher.
        progress: Counts the bytes of files.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store pull https://example.org/features/xclip
        obygaze store pull https://example.org/features/xclip#sha256=5f0c...
        obygaze store pull hf://lab/obygaze12-xclip --array pooled -o pooled-only
        obygaze store pull s3://films/xclip --film tt0108160 --array frames
    """
    stores = Workspace.of(workspace)
    location: str | Files
    if isinstance(source, str | os.PathLike):
        location, sha256 = split_expected(os.fspath(source), expect)
        name = location
        if isinstance(source, str) and not is_url(location):
            location = stores.existing_store(location)
    else:
        location = source
        _, sha256 = split_expected("", expect)
        name = source.location
    target = stores.new_store(_last_word(name) if path is None else path)
    if films is not None and not isinstance(films, str):
        films = list(films)
    select = partial(select_files, location, arrays, films, sha256 or None)
    return _with_changes(target, lambda: _fetch_changing(select, target, progress))


def _with_changes(target: Path, transfer: Callable[[], Transferred]) -> Transferred:
    """Transfer to a place, and say what has changed in a copy that was there."""
    number = _version_here(target)
    transferred = transfer()
    if number is None:
        return transferred
    return replace(transferred, changes=_changes_since(target, number))


def _version_here(target: Path) -> int | None:
    """Return the version of a sealed store that is there; None where there is none to compare."""
    if not (target / Seal.FILE).is_file():
        return None
    try:
        return open_store(target).version
    except ObygazeError:
        return None  # the pull mends or refuses it


def _changes_since(target: Path, number: int) -> tuple[str, ...]:
    """Return a sentence on each version of a store after one, the oldest first."""
    store = open_store(target)
    if store.version == number:
        return ()
    sentences = [f"{target.name} was version {number}, and is version {store.version}"]
    for version in reversed(store_log(store).versions):
        if version.number <= number:
            continue
        sentence = f"version {version.number}, {version.change_text}"
        if version.change == "withdrawn":
            clips: list[str] = []
            for first, after in version.rows:
                clips += store.clip_ids[first:after].tolist()
            sentence += f" ({few(clips)})"
        if version.reason:
            sentence += f": {version.reason}"
        sentences.append(safe_text(sentence, "terminal"))
    return tuple(sentences)


def _fetch_changing(
    select: Callable[[], FileSelection], target: Path, progress: Progress | None
) -> Transferred:
    """Fetch selected files, which are selected again where they have changed meanwhile."""
    selection = select()
    for _ in range(TRIES):
        try:
            return fetch(selection, target, progress)
        except Corrupt:
            before = selection
            selection = select()
            # Rows that are extracted again meanwhile change files, and their markers. So does a
            # version that is published meanwhile.
            if selection.marks == before.marks:
                raise
    return fetch(selection, target, progress)


def _last_word(source: str) -> str:
    """Return the name of a new store, from where it is fetched."""
    without_version, _ = split_version(source)
    word = last_part(without_version).removesuffix(".zip")
    if not word or word in (".", ".."):
        raise FixUsage(
            f"no name for the new store in {source!r}", hint="give one with -o NAME"
        )
    return word


def unpack(
    packed: Annotated[str | Path, Option(exists="file")],
    path: Annotated[
        str | os.PathLike[str] | None, Option("-o --output", metavar="NAME")
    ] = None,
    *,
    expect: Annotated[str | None, Option(metavar="SHA256")] = None,
    progress: Annotated[Progress | None, Bar("unpack")] = None,
    workspace: str | os.PathLike[str] | None = None,
) -> Transferred:
    """Make a store of a packed one.

    Only the files that the store lists are unpacked, and every file is checked before it is used.

    Args:
        packed: The zip file.
        path: The new store: a name or a folder. [default: the zip's name]
        expect: The sha256 of its seal, from its publisher.
        progress: Counts the bytes of files.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze store unpack xclip.zip
        obygaze store unpack xclip.zip -o films-xclip
    """
    packed = Path(packed)
    target = Workspace.of(workspace).new_store(packed.stem if path is None else path)
    selection = select_files(open_zip(packed), expect=expect)
    download = _Download(selection, progress)
    return _with_changes(target, lambda: download.run(target, draft_beside))


def fetch(
    selection: FileSelection, target: Path | str, progress: Progress | None = None
) -> Transferred:
    """Fetch the selected files into a folder."""
    return _Download(selection, progress).run(Path(target), _kept_draft)


class _Download(Transfer):
    """Selected files on their way into a draft of a folder."""

    def run(
        self, path: Path, new_draft: Callable[[Path], AbstractContextManager[Path]]
    ) -> Transferred:
        """Fetch the missing files into a draft, then publish it, or add its files to a copy."""
        selection = self.selection
        self.target = check_name(path)
        target = self.target
        self.progress.expect(sum(mark.n_bytes for mark in self.marks.values()), "B")
        if (target / Plan.FILE).is_file() and (target / VERSIONS_FOLDER).is_dir():
            clean_versions(target)
        existing = _existing(target, selection)
        with disk_errors(target), new_draft(target) as draft:
            if existing is not None and selection.cut is not None:
                # It is whole, and its files are not those that it was cut from.
                self.n_kept = len(self.marks)
                _add_licence(target, selection)
            else:
                new_copy = self._make(draft, is_new=existing is None)
                if existing is not None or not _publish(new_copy, target):
                    if is_earlier_copy(FolderFiles(target), selection):
                        _bring_up_to_date(new_copy, target, selection)
                    else:
                        _extend(new_copy, target, selection)
            shutil.rmtree(draft, ignore_errors=True)
        return self.done(str(path), remote=self.source.is_remote)

    def _make(self, draft: Path, *, is_new: bool) -> Path:
        """Fetch the files that are missing; return the folder of the store, or of its new files."""
        selection = self.selection
        self.draft = draft / STORE
        self.parts = draft / PARTS
        draft.mkdir(mode=system.PRIVATE_MODE, exist_ok=True)
        self.draft.mkdir(exist_ok=True)
        self.parts.mkdir(exist_ok=True)
        wanted = self.absent(self._has)
        n_bytes = sum(self.marks[name].n_bytes for name in wanted)
        if selection.cut is not None:
            n_bytes += selection.n_bytes_rows
        check_disk(n_bytes, self.draft)
        with stop_when_unreachable():
            self.move(self._fetch, wanted, THREADS)
        shutil.rmtree(self.parts)
        # A killed transfer, maybe of another store, may have left other files.
        for path in self.draft.rglob("*"):
            name = path.relative_to(self.draft).as_posix()
            if not path.is_dir() and name not in self.marks:
                system.remove_file(path)
        if selection.cut is not None:
            # In a folder of its own, since a store is planned in a draft beside its name.
            shutil.rmtree(draft / CUT, ignore_errors=True)
            with stop_when_unreachable():
                selection.cut.make(FolderFiles(self.draft), draft / CUT / STORE)
            return draft / CUT / STORE
        if is_new:
            _write_documents(self.draft, selection)
        return self.draft

    def _has(self, name: str) -> bool:
        path = confined(self.draft, name)
        if _is_whole(path if path.is_file() else self.target / name, self.marks[name]):
            return True
        system.remove_file(path)
        return False

    def _fetch(self, name: str) -> None:
        mark = self.marks[name]
        try:
            self._fetch_from(name, name, mark)
        except Corrupt:
            is_kept = self.source.read(mark.kept_name, 0, 1) is not None
            if not (self.selection.sealed and is_kept):
                raise
            # The source is about to have another version, or its publication was stopped.
            self._fetch_from(mark.kept_name, name, mark)

    def _fetch_from(self, place: str, name: str, mark: FileMark) -> None:
        """Fetch a file from its place, or from where it is kept for earlier versions."""
        key = hashlib.sha256(f"{name} {mark.sha256}".encode()).hexdigest()
        part = self.parts / key
        path = confined(self.draft, name)
        for _ in range(2):  # the wrong bytes may be those that an earlier pull left
            self._append(place, mark, part)
            if _is_whole(part, mark):
                path.parent.mkdir(parents=True, exist_ok=True)
                system.replace_file(part, path)
                return
            system.remove_file(part)
        raise not_as_listed(name, self.source.location)

    def _append(self, name: str, mark: FileMark, part: Path) -> None:
        with part.open("ab") as stream:
            start = stream.tell()
            if start > mark.n_bytes:
                start = 0
                stream.truncate(start)
            self.advance(start)
            while start < mark.n_bytes:
                data = self._read(name, mark, start)
                stream.write(data.data)
                self.advance(len(data))
                start += len(data)
            stream.flush()
            system.sync_file(stream.fileno())

    def _read(self, name: str, mark: FileMark, start: int) -> Bytes:
        """Return the next bytes of a file, all the rest if the server cannot send parts."""
        n_bytes = PIECE_BYTES
        for attempt in range(TRIES):
            if self.stopped:
                break
            stop = min(start + n_bytes, mark.n_bytes)
            try:
                # A plain request without a range, if the piece is the whole file.
                is_whole = stop - start == mark.n_bytes
                piece = self.source.read(name, start, None if is_whole else stop)
            except NoRanges:
                piece = self.source.read(name)
                stop = mark.n_bytes
                piece = piece and Piece(piece.data[start:], piece.total)
            except Unreachable:
                if attempt == TRIES - 1:
                    raise
                # Smaller pieces get through where a connection breaks again and again.
                n_bytes = max(n_bytes // 8, MIN_PIECE_BYTES)
                time.sleep(PAUSE_S)
                continue
            if piece is not None and (piece.total, len(piece.data)) == (
                mark.n_bytes,
                stop - start,
            ):
                return piece.data
            got = (
                f": expected {mark.n_bytes} bytes, got {piece.total}"
                if piece
                else " is missing"
            )
            hint = "obygaze store verify, of the store it is fetched from"
            raise Corrupt(name + got, where=self.source.location, hint=hint)
        raise Stopped("the transfer was stopped", where=name, hint=AGAIN)


def _existing(target: Path, selection: FileSelection) -> bool | None:
    """Return whether the copy to add to is sealed; None where there is nothing yet."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return None
    hint = "another name, then obygaze store merge"
    if not (target / Plan.FILE).is_file():
        problem = "this exists and is not a store"
        raise AlreadyThere(problem, where=str(target), hint="choose another name")
    is_sealed = existing_copy(FolderFiles(target), selection, hint)
    if is_sealed is False:
        refuse_other_blocks(target, selection)
    return is_sealed


def _is_whole(path: Path, mark: FileMark) -> bool:
    try:
        status = path.lstat()  # a link is replaced, never followed
        is_same_size = stat.S_ISREG(status.st_mode) and status.st_size == mark.n_bytes
        return is_same_size and sha256_file(path) == mark.sha256
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def _kept_draft(target: Path) -> Iterator[Path]:
    """Yield the hidden folder of one transfer; it is kept if the transfer is interrupted."""
    start = f".{short_name(target)}~"
    target.parent.mkdir(parents=True, exist_ok=True)
    held = _abandoned_draft(target, start)
    if held is None:
        held = hold_new(target.parent, start, ".pull", mode=system.PRIVATE_MODE)
    is_finished = False
    try:
        with stop_when_lost(held, target):
            yield held.path
        is_finished = True
    except KeyboardInterrupt as interrupt:
        interrupt.add_note("what has arrived is kept")
        interrupt.add_note(AGAIN)
        raise
    finally:
        held.release(expire=not is_finished)


def _abandoned_draft(target: Path, start: str) -> HeldFolder | None:
    """Return the draft of ended transfers that has the most files, and remove the others."""
    abandoned = _take_over_all(target, start)
    abandoned.sort(key=lambda held: sum(1 for _ in held.path.rglob("*")))
    chosen = abandoned.pop() if abandoned else None
    for held in abandoned:
        shutil.rmtree(held.path, ignore_errors=True)
        held.release()
    if chosen is not None:
        _copy_parts(chosen.path / PARTS)
    return chosen


def _copy_parts(parts: Path) -> None:
    """Replace each part by a copy.

    A process of another machine that was stopped may have the old one open, and go on to write.
    """
    if not parts.is_dir():
        return
    copy = parts / COPY
    system.remove_file(copy)
    for part in sorted(parts.iterdir()):
        shutil.copyfile(part, copy)
        system.replace_file(copy, part)


def _take_over_all(target: Path, start: str) -> list[HeldFolder]:
    """Hold all drafts of ended transfers; an error where one is not ended, on this machine."""
    abandoned: list[HeldFolder] = []
    for left in sorted(target.parent.iterdir()):
        match = _TAG.fullmatch(left.name.removeprefix(start))
        if match is None or not left.name.startswith(start) or not _is_own(left):
            continue
        try:
            opened = take_over(left, match)
            if opened is None:
                continue
            draft = target.with_name(f"{start}{new_tag(target.parent)}.pull")
            try:
                system.rename_folder(left, draft)
            except OSError:
                opened.close()
                raise
            abandoned.append(HeldFolder(draft, opened))
        except FileNotFoundError:  # another process resumes it
            continue
        except BlockingIOError as error:
            for held in abandoned:
                held.release(expire=True)
            raise AlreadyThere(
                "another process is fetching this store",
                where=str(target),
                hint="wait until it has finished",
            ) from error
    return abandoned


def _is_own(draft: Path) -> bool:
    """Return whether a folder is a draft that nobody but this user can have written to."""
    try:
        status = draft.lstat()
        if not (stat.S_ISDIR(status.st_mode) and system.is_private(status)):
            return False
        return {path.name for path in draft.iterdir()} <= {STORE, PARTS, CUT}
    except OSError:
        return False


def _write_documents(draft: Path, selection: FileSelection) -> None:
    if not selection.sealed:  # so that the extraction can be resumed
        (draft / "staging").mkdir(exist_ok=True)
        (draft / "commits").mkdir(exist_ok=True)
    for name, data in selection.documents.items():
        write_atomic(confined(draft, name), data)


def _publish(draft: Path, target: Path) -> bool:
    """Rename the whole folder; return False where another process was first."""
    for folder, _, _ in os.walk(draft):
        sync_dir(Path(folder))
    is_ours = rename_new(draft, target)
    sync_dir(target.parent)
    return is_ours


def _extend(draft: Path, target: Path, selection: FileSelection) -> None:
    """Add files to a copy that is there."""
    with locked(target):
        is_sealed = _existing(target, selection)
        if is_sealed is None:
            raise Stopped(
                "this copy was removed meanwhile", where=str(target), hint=AGAIN
            )
        if not is_sealed:
            grow = seal_copy if selection.sealed else add_blocks
            grow(draft, target, selection)
        if selection.cut is None:
            move_files(draft, target)
        if selection.sealed and (target / Partial.FILE).exists():
            # A partial copy of an earlier version is whole now.
            system.remove_file(target / Partial.FILE)
            sync_dir(target)
    _add_licence(target, selection)


def _bring_up_to_date(draft: Path, target: Path, selection: FileSelection) -> None:
    """Make a copy of an earlier version the newest one, as whoever made that version did.

    Features that were withdrawn since are nowhere in it then.
    """
    seal = selection.documents[Seal.FILE]
    with prepared_version(target) as prepared:
        base = (target / Seal.FILE).read_bytes()
        earlier = Seal.from_bytes(base, str(target / Seal.FILE)).files
        keep_bytes(target, base, prepared.attempt)
        replaced: dict[str, FileMark] = {}
        for name, mark in selection.marks.items():
            path = confined(draft, name)
            if is_kept_name(name):
                if path.is_file():
                    (target / name).parent.mkdir(parents=True, exist_ok=True)
                    system.replace_file(path, target / name)
            elif path.is_file():
                prepared.put_file(name, mark, path)
                replaced[name] = mark
        plan = selection.documents[Plan.FILE]
        if (target / Plan.FILE).read_bytes() != plan:
            mark = FileMark.of(plan)
            prepared.put(Plan.FILE, mark, [plan])
            replaced[Plan.FILE] = mark
        for name in replaced:
            if name in earlier:
                keep_file(target, name, earlier[name], prepared.attempt)
        sync_kept(target)
        prepared.publish(base, seal)
    _remove_withdrawn(target)
    _add_licence(target, selection)


def _remove_withdrawn(target: Path) -> None:
    """Remove what a copy has kept of versions with features that were withdrawn since."""
    files = FolderFiles(target)
    seal = read_seal(files)
    first = first_to_send(files, seal)
    if first == 1:
        return
    needed = kept_marks(files, seal, first)
    for name in files.names(KEPT_FOLDER) or ():
        kept_name = f"{KEPT_FOLDER}/{name}"
        if is_kept_name(kept_name) and kept_name not in needed:
            system.remove_file(target / kept_name)


def _add_licence(target: Path, selection: FileSelection) -> None:
    """Add what was stated later about the licence to a copy that is there."""
    with locked(target):
        licence = licence_to_add(FolderFiles(target), selection, "another name")
        if licence is not None:
            write_atomic(target / LicenceHistory.FILE, licence)

"""Find what else of a workspace has withdrawn clips: stores, exports, runs, models, pages.

What names a withdrawn clip is listed, whether or not the store that it was made of still exists,
and so is a run or a model that names a store which had the clip: it may have been trained on it.
The list may have too much: whoever reads it decides. A withdrawal never takes more than its clips.
"""

import os
import shlex
import warnings
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from obygaze_features.core import own_results
from obygaze_features.core.errors import ObygazeError, ObygazeWarning
from obygaze_features.core.leftovers import hidden_of
from obygaze_features.core.own_results import PAGE_DATA, added_to, made_by_obygaze
from obygaze_features.core.workspace import Workspace, toml_of
from obygaze_features.manifest.same_clip import (
    OTHER,
    SAME,
    UNKNOWN,
    Identity,
    Sameness,
)
from obygaze_features.store.exporting import EXPORTED_TABLE
from obygaze_features.store.identity import identity_of
from obygaze_features.store.importing.reader import FOREIGN_DAMAGE
from obygaze_features.store.layout import (
    BEFORE,
    BLOCKS,
    CARD,
    CLIPS_CSV,
    FILMS_CSV,
    NEXT,
    PLAN_JSON,
    ROWS_CSV,
    STORE_JSON,
    ZARR,
)
from obygaze_features.store.named_clips import (
    EXPORT_ENDINGS,
    clips_in_export,
    clips_in_page,
    clips_in_report,
    clips_in_table,
    has_scores,
    is_report,
    read_origin,
)
from obygaze_features.store.placing import next_of, seal_at
from obygaze_features.store.reading import Store, open_store
from obygaze_features.store.records import Replaced
from obygaze_features.store.rows import WITHDRAWN
from obygaze_features.store.withdrawals import Withdrawals

# Tables of a store, or of one that is being made, in which the ids stand.
_TABLES = (ROWS_CSV, CLIPS_CSV, FILMS_CSV)
_OURS = (STORE_JSON, PLAN_JSON, ZARR, BLOCKS)
_SKIPPED = (".git", "__pycache__")
# The file that marks an environment of Python, whose thousands of folders have no features.
_ENVIRONMENT = "pyvenv.cfg"
EARLIER = "store that was replaced"
STORE = "store"
EXPORT = "file of features"
SCORES = "table of scores"
PAGE = "exported page"
REPORT = "report"
RUN = "run"
MODEL = "model"
IMPORTED = "imported file or folder"
MANIFEST = "manifest with scores"
MODEL_JSON = "model.json"
# The file that says what a folder is, and the table with its clips.
_FILE_OF_FOLDER = {RUN: "run.json", MODEL: MODEL_JSON, PAGE: PAGE_DATA}
_TABLE_OF_FOLDER = {RUN: "predictions.csv", MODEL: "training-clips.csv"}
TABLES_OF_RUN = "tables"
BY_IDS = "known by its ids alone"
OTHERS = "the same ids, with other films or times: look at it"
UNREADABLE = "it cannot be read: look at it"
WINDOWS = "windows of its film, some of which may show it: look at it"
ORIGINAL = "features of the store are from it: look at it"
NO_SEAL = "nothing says that obygaze wrote all of it: look at it"
FROM_STORE = "computed from a store that had them: look at it"
NOT_LOOKED_INTO = (
    "archives (.zip, .tar) are not looked into, nor are models and runs that were pushed or copied"
    " elsewhere, and a table of scores does not name its model: look at yours"
)
OF_ANOTHER_PLACE = (
    "a store that you pulled from elsewhere is pulled again instead, where its owner has withdrawn"
    " them, too: obygaze store pull ADDRESS refuses a copy that was changed here"
)
_LOOKED_AT_FIRST = (OTHERS, UNREADABLE, WINDOWS, ORIGINAL, NO_SEAL, FROM_STORE)
# By what is known of its clips, the surest first; None is said of windows of a film.
_REMARKS = {SAME: "", UNKNOWN: BY_IDS, OTHER: OTHERS, None: WINDOWS}


class Copy(NamedTuple):
    """What still has features of withdrawn clips, or was made with them.

    Args:
        path: The file or folder.
        kind: What it is: a store, a store that was replaced, an export, a run or a model.
        withdrawal: The line that withdraws the clips from it, of a store that has others too.
        remark: Why it may have none of them.
    """

    path: Path
    kind: str
    withdrawal: str = ""
    remark: str = ""

    @property
    def command(self) -> str:
        """The line that withdraws or removes it; of a link, also what it leads to.

        "" where a person looks first: only what obygaze wrote, and can write again, has a line.
        """
        if self.remark in _LOOKED_AT_FIRST:
            return ""
        if self.withdrawal:
            return self.withdrawal
        paths = [self.path]
        if self.path.is_symlink():
            paths.append(self.path.resolve())
        return f"rm -r {shlex.join(map(str, paths))}"

    def to_json(self) -> dict[str, str]:
        """Return what it is, and the line that removes it."""
        return {
            "kind": self.kind,
            "name": self.path.name,
            "path": str(self.path),
            "command": self.command,
            "remark": self.remark,
        }

    def __str__(self) -> str:
        remark = f"  ({self.remark})" if self.remark else ""
        return f"{self.kind}: {self.command or self.path}{remark}"


def text_of_copies(copies: Sequence[Copy]) -> list[str]:
    """Return the lines that list where withdrawn features still are."""
    if not copies:
        return []
    lines = [f"  {copy}" for copy in copies]
    if any(copy.withdrawal for copy in copies):
        lines.append(OF_ANOTHER_PLACE)
    return ["the withdrawn features are still in:", *lines, NOT_LOOKED_INTO]


def find_copies(
    store: Store, changes: Sequence[Replaced], workspace: Workspace
) -> list[Copy]:
    """Return what else of a workspace has clips that were withdrawn from a store.

    The stores that this one replaced come first. A store outside the workspace is looked for beside
    the store too.

    Args:
        store: The store from which they were withdrawn.
        changes: What was withdrawn: the films and clips that these changes name.
        workspace: The workspace.
    """
    with warnings.catch_warnings():
        # How a person's other tables were read is no part of the answer.
        warnings.simplefilter("ignore", ObygazeWarning)
        return _copies(store, changes, workspace)


def _copies(
    store: Store, changes: Sequence[Replaced], workspace: Workspace
) -> list[Copy]:
    """Return what `find_copies` returns."""
    withdrawals = Withdrawals.of([store]).by(changes)
    authors = {change.author for change in changes}
    author = authors.pop() if len(authors) == 1 else ""
    home = Path(store.location)
    copies = []
    seen = {home.resolve()}
    for hidden in (*hidden_of(home), *hidden_of(next_of(home))):
        # Killed while it was built or removed: nobody knows any more what it has.
        if hidden.state != "running" and hidden.n_bytes:
            copies.append(Copy(hidden.path, "what an interrupted command has left"))
        seen.add(hidden.path.resolve())
    roots = {workspace.root.resolve(): workspace.root}
    roots.setdefault(home.parent.resolve(), home.parent)
    others = []
    # A result that names one of them was made of a store that had the clips.
    seals = _seals_with_clips(store)
    seals.update(origin.seal for origin in store.record.origins)
    seals_without_clips = {store.seal}
    originals = set()
    if store.recipe.is_unknown:
        originals = {origin.place for origin in store.record.origins}
    for root in roots.values():
        for path, kind in _candidates(root, originals):
            place = path.resolve()
            if place in seen:
                continue
            seen.add(place)
            if kind != STORE:
                others.append((path, kind))
                continue
            copy = _copy_of_store(path, withdrawals, author)
            seals |= _seals_before(path, withdrawals)
            if copy is None:
                seals_without_clips.add(seal_at(path))
            else:
                if not copy.remark:
                    seals.add(seal_at(path))
                if not (copy.remark or copy.withdrawal) and _holds_more(path):
                    copy = copy._replace(remark=NO_SEAL)
                copies.append(copy)
    seals -= {"", *seals_without_clips}
    for path, kind in others:
        remark = _remark_on(path, kind, withdrawals, seals)
        if remark in ("", BY_IDS) and not _says_who_wrote_it(path, kind):
            remark = NO_SEAL
        if remark is None and path.name in originals:
            # It may have other names for its clips than the store.
            remark = ORIGINAL
        if remark is not None:
            copies.append(Copy(path, kind, remark=remark))
    earlier = f"{home.name}{BEFORE}"
    return sorted(
        copies, key=lambda copy: (not copy.path.name.startswith(earlier), copy.kind)
    )


def _candidates(root: Path, originals: Set[str]) -> Iterator[tuple[Path, str]]:
    """Yield what may have features of clips, or come from them, with its kind.

    Args:
        root: The folder in which to look.
        originals: The names of files and folders of which the store was imported.
    """
    for folder, folders, files in os.walk(root):
        path = Path(folder)
        folders[:] = [name for name in folders if name not in _SKIPPED]
        if _ENVIRONMENT in files:
            folders.clear()
            continue
        if _is_store(path):
            folders.clear()
            yield path, STORE
            continue
        for name in folders:
            # A store on another disk; `os.walk` does not follow links.
            if (path / name).is_symlink() and _is_store(path / name):
                yield path / name, STORE
        kinds = [kind for kind, name in _FILE_OF_FOLDER.items() if name in files]
        if (path / EXPORTED_TABLE).is_file():
            folders.remove(Path(EXPORTED_TABLE).parts[0])
            yield path, EXPORT
        elif path.name in originals and path != root:
            yield path, IMPORTED
        if kinds:
            if kinds[0] == RUN and made_by_obygaze(path / _FILE_OF_FOLDER[RUN]):
                # Tables of its report, which are removed with it.
                folders[:] = [name for name in folders if name != TABLES_OF_RUN]
            yield path, kinds[0]
            continue
        for name in files:
            if name.endswith(EXPORT_ENDINGS):
                yield path / name, EXPORT
            elif name in originals:
                yield path / name, IMPORTED
            elif has_scores(path / name):
                is_manifest = toml_of(path / name).name in files
                yield path / name, MANIFEST if is_manifest else SCORES
            elif is_report(path / name):
                yield path / name, REPORT


def _is_store(folder: Path) -> bool:
    """Return whether a folder is a store, or one that is being made, or what is left of one.

    A folder of a user may have a table films.csv, too.
    """
    is_ours = any((folder / name).exists() for name in _OURS)
    return is_ours and any((folder / name).is_file() for name in _TABLES)


# --- Stores ---


def _copy_of_store(path: Path, withdrawals: Withdrawals, author: str) -> Copy | None:
    """Return a store, or one that is being made, if it has features of withdrawn clips.

    The author is who withdrew them; "" if it is not known.
    """
    kind = EARLIER if BEFORE in path.name else STORE
    if (path / STORE_JSON).is_file():
        with suppress(ObygazeError, OSError):
            return _copy_of_finished(open_store(path), path, kind, withdrawals, author)
    # It is not finished, or damaged: what its table names, it may have.
    tables = [path / name for name in _TABLES if (path / name).is_file()]
    if not tables:
        # Another process moves or removes it at this moment.
        return Copy(path, kind, remark=UNREADABLE)
    remark = _remark_on(tables[0], SCORES, withdrawals, set())
    is_ours = (path / STORE_JSON).is_file() or (path / PLAN_JSON).is_file()
    if remark in ("", BY_IDS) and not is_ours:
        remark = NO_SEAL
    return None if remark is None else Copy(path, kind, remark=remark)


def _seals_with_clips(store: Store) -> set[str]:
    """Return the seals of the earlier stores that a store replaced, up to its last withdrawal."""
    seals: set[str] = set()
    of_earlier: list[str] = []
    for entry in store.record.replaces:
        of_earlier.append(entry.seal)
        if entry.withdrawn:
            seals.update(of_earlier)
    return seals


def _seals_before(path: Path, withdrawals: Withdrawals) -> set[str]:
    """Return the seals of what another store was before the same clips were withdrawn from it."""
    with suppress(ObygazeError, OSError):
        store = open_store(path)
        rows = store.rows if store.record.rows.withdrawn else []
        for row in rows:
            if row.status == WITHDRAWN and withdrawals.reason(row, store.record):
                return _seals_with_clips(store)
    return set()


def _holds_more(path: Path) -> bool:
    """Return whether a finished store holds a file that obygaze did not write."""
    with suppress(ObygazeError, OSError):
        names = {*open_store(path).record.files, STORE_JSON, CARD}
        return bool(added_to(path, names))
    return False


def _copy_of_finished(
    store: Store, path: Path, kind: str, withdrawals: Withdrawals, author: str
) -> Copy | None:
    names_of_reason: dict[str, dict[str, None]] = {}
    has_same_ids = False
    may_show = False
    n_withdrawn = 0
    for row in store.rows:
        if not row.is_ok:
            continue
        identity = identity_of(row, store.record)
        found = withdrawals.find(identity, row.movie_id)
        if found.reason:
            n_withdrawn += 1
            of_film = withdrawals.reason_of_film.get(row.movie_id)
            name = row.clip_id if of_film is None else row.movie_id
            _, _, reason = (of_film or found.reason).partition(": ")
            names_of_reason.setdefault(reason, {})[name] = None
        has_same_ids |= found.sameness is OTHER
        may_show |= withdrawals.may_show(identity, row.movie_id)
    if not n_withdrawn and has_same_ids:
        return Copy(path, kind, remark=OTHERS)
    if not n_withdrawn:
        return Copy(path, kind, remark=WINDOWS) if may_show else None
    is_unchanging = BEFORE in path.name or path.name.endswith(NEXT)
    if is_unchanging or path.is_symlink() or path.name.startswith("."):
        return Copy(path, kind)
    if n_withdrawn == store.record.rows.ok:
        return Copy(path, kind)
    lines = []
    for reason, names in names_of_reason.items():
        # A word without a slash would be the name of a store of the workspace.
        words = ["obygaze", "store", "subset", f"{path.parent}/{path.name}"]
        for name in names:
            words += ["--without", name]
        words += ["--reason", reason or "withdrawn"]
        words += ["--author", author] if author else []
        lines.append(shlex.join(words))
    return Copy(path, kind, " && ".join(lines))


# --- What was made of stores ---


def _remark_on(
    path: Path, kind: str, withdrawals: Withdrawals, seals: set[str]
) -> str | None:
    """Return why a file or folder may have nothing of withdrawn clips; None if it has nothing.

    It is "" for what certainly has something.
    """
    if kind == IMPORTED:
        return ORIGINAL
    try:
        if kind in (SCORES, MANIFEST):
            return _remark_on_clips(clips_in_table(path), withdrawals)
        if kind == PAGE:
            return _remark_on_clips(clips_in_page(path), withdrawals)
        if kind == EXPORT:
            return _remark_on_export(path, withdrawals, seals)
        return _remark_on_result(path, kind, withdrawals, seals)
    except (*FOREIGN_DAMAGE, ObygazeError):
        return UNREADABLE


def _remark_on_clips(clips: Iterable[Identity], withdrawals: Withdrawals) -> str | None:
    """Return the surest remark on some clips; see `_remark_on`."""
    found: set[Sameness | None] = set()
    for clip in clips:
        sameness = withdrawals.find(clip).sameness
        if sameness is not None or withdrawals.may_show(clip):
            found.add(sameness)
        if sameness is SAME:
            break
    return next((text for known, text in _REMARKS.items() if known in found), None)


def _remark_on_export(
    path: Path, withdrawals: Withdrawals, seals: set[str]
) -> str | None:
    remark = _remark_on_clips(clips_in_export(_table_of_export(path)), withdrawals)
    if remark != BY_IDS:
        return remark
    origin = read_origin(_table_of_export(path))
    return "" if origin is not None and origin.seal in seals else BY_IDS


def _table_of_export(path: Path) -> Path:
    return path / EXPORTED_TABLE if path.is_dir() else path


def _says_who_wrote_it(path: Path, kind: str) -> bool:
    """Return whether obygaze wrote all of a file or folder; tables never say it."""
    if kind == EXPORT:
        is_ours = read_origin(_table_of_export(path)) is not None
        return is_ours and not added_to(path, (EXPORTED_TABLE, CARD))
    if kind == RUN:
        return not own_results.RUN.refusal(path)
    if kind == PAGE:
        return not own_results.PAGE.refusal(path)
    if kind == REPORT:
        return not own_results.REPORT.refusal(path)
    return kind == MODEL and not own_results.MODEL.refusal(path)


def _remark_on_result(
    path: Path, kind: str, withdrawals: Withdrawals, seals: set[str]
) -> str | None:
    """Return the remark on a report, a run or a model; see `_remark_on`."""
    document_path = path if kind == REPORT else path / _FILE_OF_FOLDER[kind]
    document = document_path.read_bytes()
    names_a_seal = any(seal.encode() in document for seal in seals)
    clips = None
    if kind == REPORT:
        clips = clips_in_report(path)
    elif (path / _TABLE_OF_FOLDER[kind]).is_file():
        clips = clips_in_table(path / _TABLE_OF_FOLDER[kind])
    if clips is not None:
        remark = _remark_on_clips(clips, withdrawals)
        if not names_a_seal:
            return remark
        # A run names the clips that it tested, and not those of its training; a report, some.
        return {BY_IDS: "", None: FROM_STORE}.get(remark, remark)
    if names_a_seal:
        return ""
    with suppress(msgspec.DecodeError):
        films = msgspec.json.decode(document, type=_Model).training.films
        if any(film in withdrawals.reason_of_film for film in films):
            return BY_IDS
    return None


class _Training(msgspec.Struct):
    films: tuple[str, ...] = ()


class _Model(msgspec.Struct):
    """What model.json says of the films that a model was trained on."""

    training: _Training = msgspec.field(default_factory=_Training)

"""LIRIS-ACCEDE as MediaEval 2015 used it: 10,900 excerpts, joined by name and checked by id.

The classes come from the affect files alone: ranking values are on another scale. The official
split comes from the shots files alone; the `set` of the sets files is another split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_features.core.schema_check import Violations, raise_together
from obygaze_features.manifest.adapters.accede_films import Excerpt, read_films
from obygaze_features.manifest.adapters.common import ClipReader, ImportedManifest, source_of
from obygaze_features.manifest.model import FOLD_PREFIX, Header, Manifest
from obygaze_features.manifest.tables import numbered_lines, read_table, whole_number

FOLD = FOLD_PREFIX + "mediaeval2015"
TEST, DEV = "0", "1"
UNKNOWN_FILM = "unknown"
RANKING = {
    **{"valenceRank": "valence_rank", "arousalRank": "arousal_rank"},
    **{"valenceValue": "valence_value", "arousalValue": "arousal_value"},
    **{"valenceVariance": "valence_variance", "arousalVariance": "arousal_variance"},
}
SUBTASKS = {
    "valence": ("valence_class",),
    "arousal": ("arousal_class",),
    "violence": ("violence",),
}
CITATION = (
    "M. Sjoberg et al. The MediaEval 2015 Affective Impact of Movies Task. MediaEval 2015. "
    "Y. Baveye, E. Dellandrea, C. Chamaret, L. Chen. LIRIS-ACCEDE: A Video Database for Affective "
    "Content Analysis. IEEE Transactions on Affective Computing, 2015."
)
NOTES = (
    f"{FOLD} is the official split of the shots files: 0 is test, 1 is development.",
    "set is the split of LIRIS-ACCEDE itself: 0 is test, 1 is learning, 2 is validation.",
    "start_frame and end_frame, of the description files, count in the film, not in the video.",
    "Classes are -1, 0 or 1, from the affect files; ranks, values and variances are no classes.",
)
_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9]{2,4})?")


@dataclass
class _Gathered:
    """What the files read so far say of each excerpt, by the stem of its name."""

    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, dict[str, str]] = field(default_factory=dict)
    id_of: dict[tuple[str, str], str] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    films: dict[str, Excerpt] = field(default_factory=dict)
    first_line: dict[str, tuple[Violations, int]] = field(default_factory=dict)

    def note(
        self, wrong: Violations, line: int, family: str, ids: tuple[str, str], **values: str
    ) -> None:
        """Add a row; its id must be the one that the same family of files gave the name before."""
        id_, name = ids
        if not _NAME.fullmatch(name):
            wrong.add(line, "name", f"{name!r} is not the name of an excerpt")
            return
        if whole_number(id_) is None:
            wrong.add(line, "id", f"{id_!r} is not a whole number")
        stem = PurePosixPath(name).stem
        known = self.id_of.setdefault((family, stem), id_)
        if known != id_:
            wrong.add(line, "id", f"{name} is {id_!r} here and {known!r} elsewhere")
        row = self.values.setdefault(stem, {})
        for column in sorted(values.keys() & row.keys()):
            wrong.add(line, "name", f"{name} has a {column} already")
        row |= values
        # Some files leave the extension out; where one has it, that is the file to look for.
        if "." in name or stem not in self.names:
            self.names[stem] = name
        self.first_line.setdefault(stem, (wrong, line))
        self.columns += [column for column in values if column not in self.columns]


def read(
    files: Path | Sequence[Path], *, subtask: str | None = None, name: str = "liris-accede"
) -> ImportedManifest:
    """The manifest of the annotation files, or of the folders that hold them.

    With a `subtask` (valence, arousal, violence) only its classes are kept; without one all are.
    """
    if subtask is not None and subtask not in SUBTASKS:
        raise FixUsage(f"{subtask!r} is not a subtask", hint=f"one of {', '.join(SUBTASKS)}")
    paths = _annotation_files([files] if isinstance(files, Path) else files)
    sources = tuple(source_of(path) for path in paths)
    gathered, wrong = _Gathered(), [Violations(path) for path in paths]
    for path, violations in zip(paths, wrong, strict=True):
        _reader_of(path)(path, violations, gathered)
    header = Header("liris-accede", {}, citation=CITATION, notes=NOTES, sources=sources)
    columns = tuple(column for column in gathered.columns if _is_kept(column, subtask))
    manifest = _manifest(gathered, columns, name, header)
    raise_together("these are not the files of LIRIS-ACCEDE", *wrong)
    if subtask is not None and SUBTASKS[subtask][0] not in columns:
        raise NotFound(
            f"no file has classes for {subtask}",
            where=", ".join(str(path) for path in paths),
            hint="the affect and violence files of MEDIAEVAL-annotations.zip",
        )
    return ImportedManifest(manifest, tuple(_warnings(manifest)))


def _manifest(gathered: _Gathered, columns: tuple[str, ...], name: str, header: Header) -> Manifest:
    clips = []
    readers: dict[int, ClipReader] = {}
    for stem in sorted(gathered.values):
        wrong, line = gathered.first_line[stem]
        reader = readers.setdefault(id(wrong), ClipReader((), columns, wrong))
        film = gathered.films.get(stem)
        values = {key: value for key, value in gathered.values[stem].items() if key in columns}
        cells = {
            "clip_id": stem,
            "movie_id": film.movie_id if film else UNKNOWN_FILM,
            "video": gathered.names[stem],
        }
        clips.append(reader.clip(line, {**values, **cells}))
    return Manifest(name, header, tuple(clips), columns)


def _is_kept(column: str, subtask: str | None) -> bool:
    classes = {name for names in SUBTASKS.values() for name in names}
    return subtask is None or column not in classes or column in SUBTASKS[subtask]


def _warnings(manifest: Manifest) -> Iterable[str]:
    films_unknown = sum(clip.movie_id == UNKNOWN_FILM for clip in manifest)
    if films_unknown:
        yield (
            f"the film of {films_unknown} of {len(manifest)} excerpts is not known, so they cannot"
            " be split by film: give ACCEDEdescription.xml and MEDIAEVALdescription.xml too"
        )
    lacking: dict[int, list[str]] = {}
    for column in manifest.columns:
        lacking.setdefault(sum(not clip.extra[column] for clip in manifest), []).append(column)
    for empty, columns in sorted(lacking.items()):
        if empty:
            yield f"{empty} of {len(manifest)} excerpts have no {', '.join(columns)}"
    if FOLD not in manifest.columns:
        yield "no shots-devset-nl.txt or shots-testset-nl.txt, so the official split is not known"


def _annotation_files(given: Sequence[Path]) -> list[Path]:
    """The files to read, in an order that does not depend on how they were given."""
    paths: set[Path] = set()
    for path in given:
        if not path.exists():
            raise NotFound("no such file or folder", where=str(path))
        if path.is_dir():
            inside = {file for file in path.rglob("*") if file.is_file() and _kind(file)}
            if not inside:
                known = ", ".join(name for name, _ in _READERS)
                raise NotFound(f"none of the annotation files is here ({known})", where=str(path))
            paths |= inside
        elif not _kind(path):
            known = ", ".join(name for name, _ in _READERS)
            raise FixInput(f"not a file of LIRIS-ACCEDE by its name ({known})", where=str(path))
        else:
            paths.add(path)
    if not paths:
        raise FixUsage("no files were given")
    by_name: dict[str, Path] = {}
    for path in sorted(paths):
        twin = by_name.setdefault(path.name, path)
        if twin != path:
            raise FixInput(f"two files are called {path.name}", where=f"{twin}, {path}")
    return [by_name[name] for name, _ in _READERS if name in by_name]


def _kind(path: Path) -> str:
    return next((name for name, _ in _READERS if name == path.name), "")


def _reader_of(path: Path) -> Callable[[Path, Violations, _Gathered], None]:
    return next(reader for name, reader in _READERS if name == path.name)


def _family(path: Path) -> str:
    return "MEDIAEVAL" if path.name.startswith("MEDIAEVAL") else "ACCEDE"


def _ranking(path: Path, wrong: Violations, gathered: _Gathered) -> None:
    table = read_table(
        path, required=("id", "name", *RANKING), delimiter="\t", skip_blank=True, violations=wrong
    )
    for row in table.rows:
        for column in RANKING:
            if not _NUMBER.fullmatch(row[column]):
                wrong.add(row.line, column, f"{row[column]!r} is not a number")
        values = {target: row[column] for column, target in RANKING.items()}
        gathered.note(wrong, row.line, _family(path), (row["id"], row["name"]), **values)


def _sets(path: Path, wrong: Violations, gathered: _Gathered) -> None:
    _read_classes(path, wrong, gathered, {"set": "set"}, ("0", "1", "2"))


def _affect(path: Path, wrong: Violations, gathered: _Gathered) -> None:
    columns = {"valenceClass": "valence_class", "arousalClass": "arousal_class"}
    _read_classes(path, wrong, gathered, columns, ("-1", "0", "1"))


def _read_classes(
    path: Path,
    wrong: Violations,
    gathered: _Gathered,
    columns: Mapping[str, str],
    allowed: Sequence[str],
) -> None:
    table = read_table(
        path, required=("id", "name", *columns), delimiter="\t", skip_blank=True, violations=wrong
    )
    for row in table.rows:
        for column in columns:
            _check_class(row.line, column, row[column], allowed, wrong)
        values = {target: row[column] for column, target in columns.items()}
        gathered.note(wrong, row.line, _family(path), (row["id"], row["name"]), **values)


def _check_class(
    line: int, column: str, value: str, allowed: Sequence[str], wrong: Violations
) -> None:
    if value not in allowed:
        wrong.add(line, column, f"{value!r} is not one of {', '.join(allowed)}")


def _violence(path: Path, wrong: Violations, gathered: _Gathered) -> None:
    """The class is the third column, whatever its name."""
    table = read_table(
        path, required=("id", "name"), delimiter="\t", skip_blank=True, violations=wrong
    )
    if not wrong and (len(table.columns) < 3 or table.columns[:2] != ("id", "name")):
        wrong.add(1, None, f"id, name and the class were expected, not {', '.join(table.columns)}")
        return
    for row in table.rows:
        value = row[table.columns[2]]
        _check_class(row.line, table.columns[2], value, ("0", "1"), wrong)
        gathered.note(wrong, row.line, _family(path), (row["id"], row["name"]), violence=value)


def _shots(path: Path, wrong: Violations, gathered: _Gathered) -> None:
    """No header: the MediaEval id and the name, with a tab between them."""
    fold = DEV if "devset" in path.name else TEST
    for line, text in numbered_lines(path, wrong):
        if not text.strip():
            continue
        cells = text.split("\t")
        if len(cells) != 2:
            wrong.add(line, None, f"{len(cells)} cells, an id and a name were expected")
            continue
        id_, name = (cell.strip() for cell in cells)
        gathered.note(wrong, line, "shots", (id_, name), mediaeval_id=id_, **{FOLD: fold})


def _description(path: Path, wrong: Violations, gathered: _Gathered) -> None:
    for excerpt in read_films(path, wrong):
        family, ids = _family(path), (excerpt.id, excerpt.name)
        frames = {"start_frame": excerpt.start_frame, "end_frame": excerpt.end_frame}
        gathered.note(wrong, excerpt.line, family, ids, **frames)
        gathered.films[PurePosixPath(excerpt.name).stem] = excerpt


_READERS: tuple[tuple[str, Callable[[Path, Violations, _Gathered], None]], ...] = (
    ("ACCEDEranking.txt", _ranking),
    ("ACCEDEsets.txt", _sets),
    ("MEDIAEVALsets.txt", _sets),
    ("ACCEDEaffect.txt", _affect),
    ("MEDIAEVALaffect.txt", _affect),
    ("ACCEDEviolence.txt", _violence),
    ("MEDIAEVALviolence.txt", _violence),
    ("shots-devset-nl.txt", _shots),
    ("shots-testset-nl.txt", _shots),
    ("ACCEDEdescription.xml", _description),
    ("MEDIAEVALdescription.xml", _description),
)

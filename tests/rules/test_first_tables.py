"""A table that does not fit gives a mapping that reads it, once its lines with `?` are filled in.

Drawn are the names and the order of the columns, how times are written, the words of labels and
concepts, the file. Who fills in the draft knows what each column is, and writes nothing else.
"""

from __future__ import annotations

import csv
import io
import re
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.workbooks import write_workbook

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.adapters.csv_table import read

FILMS = ["L'Été", "Müller & Söhne", "-nzD", "Alba", "Ça va", "Mektoub, My Love"]
HEADERS = [
    "Film",
    "Nr",
    "Von",
    "Bis",
    "Urteil",
    "Gründe",
    "Wer",
    "Graf",
    "concepts",
]
CONCEPTS = {"Look": "Look", "corps": "Body", "lumière": "visual", "voix off": "audio"}
LABELS = ["ja", "nein", "vielleicht", ""]
ROLES = ["film", "number", "start", "end", "label", "concepts", "graph"]


@dataclass
class Drawn:
    """A table as a person means it."""

    header_of: dict[str, str]
    clips: list[dict[str, Any]]
    form: str
    separator: str
    kind: str

    def time(self, seconds: int) -> Any:
        """Return a time as the person writes it."""
        if self.form == "s":
            return str(seconds)
        if self.form == "s,":
            return f"{seconds},5"
        if self.form == "excel":
            # Typed as m:ss, kept as h:mm.
            return timedelta(minutes=seconds)
        minutes, rest = divmod(seconds, 60)
        return (
            f"{minutes}:{rest:02d}"
            if self.form == "m:ss"
            else f"0:{minutes:02d}:{rest:02d}"
        )

    def write(self, folder: Path) -> Path:
        """Write the table."""
        rows: list[list[Any]] = [list(self.header_of.values())]
        for clip in self.clips:
            cells = {
                **clip,
                "start": self.time(clip["start"]),
                "end": self.time(clip["end"]),
                "concepts": self.separator.join(clip["concepts"]),
            }
            rows.append([cells[role] for role in self.header_of])
        if self.kind == "xlsx":
            return write_workbook(folder / "t.xlsx", {"A": rows})
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=self.kind).writerows(rows)
        path = folder / "t.csv"
        path.write_bytes(text.getvalue().encode("utf-8-sig"))
        return path

    def answer(self, line: str) -> str:
        """Return a line of the draft, filled in where it asks for something."""
        asked, _, _ = line.partition("  #")
        headers = {name: role for role, name in self.header_of.items()}
        if asked == 'id = "?"':
            return f'id = "{{movie_id}}-{{{self.header_of["number"]}:02d}}"'
        if asked == 'times = "?"':
            return 'times = "m:ss"'
        if asked == 'separator = "?"':
            return f'separator = "{self.separator}"'
        if asked.startswith('separator = "'):
            return f'separator = "{self.separator}"'
        column = re.fullmatch(r'(?:\?|[a-z_]+) = "(.*)"', asked)
        if column is not None and column[1] in headers:
            role = headers[column[1]]
            targets = {"film": "movie_id", "start": "start_s", "end": "end_s"}
            targets |= {"concepts": "concepts", "label": "own", "number": "shot"}
            targets |= {"graph": "graph"}
            target = targets[role]
            # Other names than those of a manifest stay.
            return (
                line
                if target in ("own", "shot", "graph") and asked[0] == "?"
                else f'{target} = "{column[1]}"'
            )
        word = re.fullmatch(r'(?:# )?"(.*)" = "\?"', asked)
        if word is not None and word[1] in CONCEPTS and "concepts" in self.header_of:
            return f'"{word[1]}" = "{CONCEPTS[word[1]]}"'
        return "" if word is not None and line[0] != "#" else line


@st.composite
def tables(draw: st.DrawFn) -> Drawn:
    """Draw a table."""
    roles = draw(st.permutations(ROLES))
    if draw(st.booleans()):
        roles.remove("concepts")
    names = draw(st.permutations([name for name in HEADERS if name != "concepts"]))
    header_of = dict(zip(roles, names, strict=False))
    if "concepts" in header_of and draw(st.booleans()):
        header_of["concepts"] = "concepts"
    if draw(st.booleans()):
        header_of["number"] = "clip_id"
    if draw(st.booleans()):
        header_of["label"] = "level"
    films = draw(st.lists(st.sampled_from(FILMS), min_size=2, max_size=4, unique=True))
    clips = []
    for film in films:
        for number in range(1, draw(st.integers(3, 5))):
            start = 7 * number
            clip = {
                "film": film,
                "number": number,
                # As ObyGaze12 has it: -1 where there is no graph.
                "graph": len(clips) if number > 1 else -1,
                "start": start,
                "end": start + 7,
                "label": draw(st.sampled_from(LABELS)),
                "concepts": draw(
                    st.lists(st.sampled_from(list(CONCEPTS)), max_size=3, unique=True)
                ),
            }
            clips.append(clip)
    # Each word stands somewhere, and so does the sign between two of them.
    clips[0]["concepts"] = list(CONCEPTS)
    kind = draw(st.sampled_from([",", ";", "\t", "xlsx"]))
    form = draw(
        st.sampled_from(["s", "m:ss", "h:mm:ss", "excel" if kind == "xlsx" else "s"])
    )
    if kind in (";", "\t") and form == "s" and draw(st.booleans()):
        form = "s,"
    separator = draw(st.sampled_from(["|", ";", ","]))
    return Drawn(header_of, clips, form, separator, kind)


@settings(
    max_examples=30,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(drawn=tables())
def test_the_mapping_of_a_table_that_does_not_fit_reads_it(
    tmp_path: Path, drawn: Drawn
) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as place:
        table = drawn.write(Path(place))
        draft = Path(place, "draft.toml")
        with pytest.raises(FixInput):
            read(table, write_mapping=draft)
        lines = draft.read_text("utf-8").splitlines()
        # A comma in the title of one film makes no concepts of all titles.
        assert not [line for line in lines if line.startswith('# "My Love" = ')]
        # A column of numbers is not one of times with errors.
        assert not [line for line in lines if "is no time" in line]
        filled = "\n".join(map(drawn.answer, lines))
        draft.write_text(filled + "\n", "utf-8")
        if "concepts" not in drawn.header_of.values() and "concepts" in drawn.header_of:
            # Their words are asked for once it is said where they are.
            second = Path(place, "second.toml")
            with pytest.raises(FixInput):
                read(table, mapping=draft, write_mapping=second)
            lines = second.read_text("utf-8").splitlines()
            filled = "\n".join(map(drawn.answer, lines))
            draft = second
            draft.write_text(filled + "\n", "utf-8")
        try:
            manifest = read(table, mapping=draft).manifest
        except FixInput as error:
            raise AssertionError(f"{filled}\n{error.details}\n{error}") from error
    more = 0.5 if drawn.form == "s," else 0
    label = drawn.header_of["label"]
    for clip, meant in zip(manifest, drawn.clips, strict=True):
        assert (clip.extra.get("movie_title") or clip.movie_id) == meant["film"]
        assert clip.clip_id == f"{clip.movie_id}-{meant['number']:02d}"
        assert (clip.start_s, clip.end_s) == (
            meant["start"] + more,
            meant["end"] + more,
        )
        assert clip.extra.get("own", clip.extra.get(label)) == meant["label"]
        if "concepts" in drawn.header_of:
            words = [CONCEPTS[word] for word in meant["concepts"]]
            own = ("visual", "audio")
            names = [
                word if name in own else name
                for word, name in zip(meant["concepts"], words, strict=True)
            ]
            assert list(clip.concepts) == names
            assert manifest.header.concepts["lumière"] == "visual"
            assert manifest.header.concepts["voix off"] == "audio"

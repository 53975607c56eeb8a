import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner

from obygaze_features.core.commands import Session
from obygaze_features.core.console import Console, Progress
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.function_commands import make_command
from obygaze_features.core.options import PYTHON_ONLY, Bar, Command, Option
from obygaze_features.core.workspace import Workspace


@dataclass(frozen=True)
class Called:
    values: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return self.values


def copy_clips(
    stores: Sequence[str],
    target: str | Path,
    form: Literal["npz", "csv"],
    *,
    columns: Mapping[str, str] | None = None,
    offsets: Mapping[str, float] | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    clips: str | Path | None = None,
    films: Sequence[str] | None = None,
    scale: float | None = None,
    draws: int = 10,
    licence: str = "",
    seal: bool = True,
    mask: complex | None = None,
    progress: Progress | None = None,
) -> Called:
    """Copy clips.

    Args:
        stores: From where.
        target: Where to.
        form: The format.
        columns: New names.
        offsets: Shifts.
        pairs: Pairs of words.
        clips: A file of ids.
        films: Only these.
        scale: A factor.
        draws: How many.
        licence: The licence.
        seal: Close it.
        mask: Which rows.
        progress: Counts bytes.
    """
    values = dict(locals())
    del values["mask"]
    assert isinstance(values.pop("progress"), Progress)
    assert clips is None or isinstance(clips, Path)
    values["clips"] = clips and str(clips)
    values["pairs"] = [list(pair) for pair in pairs]
    values["films"] = None if films is None else list(films)
    return Called(values)


COPY = Command(
    f"{__name__}:copy_clips",
    {
        "target": Option("-o --output"),
        "columns": Option("--map", metavar="NEW=OLD"),
        "offsets": Option(metavar="FILM=SECONDS"),
        "clips": Option(exists="file"),
        "films": Option("--film", separator=","),
        "draws": Option(minimum=1),
        "mask": PYTHON_ONLY,
        "progress": Bar("copy", "B"),
    },
)
PLAIN = {
    **{"stores": ["a"], "target": "t", "form": "npz", "columns": None},
    **{"offsets": None, "pairs": [], "clips": None, "films": None, "scale": None},
    **{"draws": 10, "licence": "", "seal": True},
}


def typed(*words: str) -> Any:
    session = Session(Workspace(Path("there")), Console(as_json=True))
    return CliRunner().invoke(make_command(COPY, "copy"), [*words], obj=session)


def values(*words: str) -> dict[str, Any]:
    done = typed("a", "npz", "-o", "t", *words)
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    del document["json_version"]
    return document


def test_only_what_has_no_default_must_be_typed() -> None:
    assert values() == PLAIN
    for words in (("a", "npz"), ("a", "csw", "-o", "t")):
        assert typed(*words).exit_code == 2


def test_the_help_shows_a_default_unless_it_is_empty() -> None:
    shown = typed("--help").output
    assert "[default: 10" in shown
    assert '[default: ""]' not in shown


def test_every_kind_of_parameter_is_typed(tmp_path: Path) -> None:
    ids = tmp_path / "ids.txt"
    ids.touch()
    options = ["--map", "clip_id=id", "--map", "x=y", "--offsets", "tt1=-2.5"]
    options += ["--pairs", "a", "b", "--pairs", "c", "d", "--clips", str(ids)]
    options += ["--film", "m,n", "--scale", "2", "--draws", "3", "--no-seal"]
    assert values(*options) == {
        **PLAIN,
        "columns": {"clip_id": "id", "x": "y"},
        "offsets": {"tt1": -2.5},
        "pairs": [["a", "b"], ["c", "d"]],
        "clips": str(ids),
        "films": ["m", "n"],
        "scale": 2.0,
        "draws": 3,
        "seal": False,
    }
    assert values("--film", ",")["films"] == [], "an empty list is not None"


@pytest.mark.parametrize(
    "words",
    [
        *(("--draws", value) for value in ("0", "-1", "1e3", "0.1", "", "x")),
        *(("--scale", value) for value in ("nan", "inf", "1e999", "1/0", " ")),
        ("--clips", "none.txt"),
    ],
)
def test_values_outside_the_type_are_refused(words: tuple[str, ...]) -> None:
    assert typed("a", *words, "npz", "-o", "t").exit_code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--map", "x"), "--map must be of the form NAME=VALUE, got 'x'"),
        (("--map", "x=1", "--map", "x=2"), "--map names 'x' twice"),
        (("--offsets", "a=b"), "--offsets must be FILM=SECONDS: could not convert"),
    ],
)
def test_wrong_words_of_a_mapping_are_a_usage_error(words, told) -> None:
    error = typed("a", "npz", "-o", "t", *words).exception
    assert isinstance(error, FixUsage)
    assert error.message.startswith(told)

"""Commands made from functions: what a person types, and what the function gets."""

from __future__ import annotations

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
from obygaze_features.core.function_commands import (
    command_of,
)
from obygaze_features.core.options import PYTHON_ONLY, Bar, Command, Option
from obygaze_features.core.workspace import Workspace


@dataclass(frozen=True)
class Counted:
    """What the function was called with."""

    values: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return self.values

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.values.items())

    def write(
        self,
        *,
        output: str | Path | None = None,
        force: bool = False,
    ) -> list[Path]:
        """Write the result.

        Args:
            output: The file to write.
            force: Replace it.
        """
        if output is None:
            return []
        path = Path(output)
        path.write_text(f"{self} force={force}", encoding="utf-8")
        return [path]


def count_clips(
    store: str | Path,
    manifest: str | None = None,
    *,
    tail: Literal["two_sided", "less"] = "two_sided",
    pairs: Sequence[tuple[str, str]] = (),
    runs: Sequence[str] = (),
    draws: int = 10,
    scale: float | None = None,
    drop_missing: bool = False,
    workspace: str | Path | None = None,
) -> Counted:
    """Count clips in a store.

    Args:
        store: The store.
        manifest: Its manifest.
        tail: The tail.
        pairs: Pairs of words.
        runs: Some runs.
        draws: How many.
        scale: A factor.
        drop_missing: Leave out what is missing.
        workspace: The workspace.
    """
    return Counted(
        {
            "store": store,
            "manifest": manifest,
            "tail": tail,
            "pairs": [list(pair) for pair in pairs],
            "runs": list(runs),
            "draws": draws,
            "scale": scale,
            "drop_missing": drop_missing,
            "workspace": str(workspace),
        }
    )


PLAIN = {
    "store": "s",
    "manifest": None,
    "tail": "two_sided",
    "pairs": [],
    "runs": [],
    "draws": 10,
    "scale": None,
    "drop_missing": False,
    "workspace": "there",
}


def typed(*words: str, as_json: bool = True) -> Any:
    options = {
        "runs": Option("--run", metavar="RUN"),
        "draws": Option(least=1),
        "output": Option("-o"),
    }
    entry = Command(
        f"{__name__}:count_clips", options, then=f"{__name__}:Counted.write"
    )
    command = command_of(entry, "count")
    session = Session(Workspace(Path("there")), Console(as_json=as_json))
    return CliRunner().invoke(command, [*words], obj=session)


def values(*words: str) -> dict[str, Any]:
    done = typed(*words)
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    document.pop("json_version", None)
    return document


def test_only_what_has_no_default_must_be_typed() -> None:
    assert values("s") == PLAIN
    assert typed().exit_code == 2


def test_the_help_shows_a_default_unless_it_is_empty() -> None:
    assert "[default: 10" in typed("--help").output
    assert '[default: ""]' not in copied("--help").output


def test_every_kind_of_parameter_is_typed() -> None:
    inputs = ("s", "m", "--tail", "two_sided", "--draws", "3", "--scale", "2")
    repeated = ("--pairs", "a", "b", "--pairs", "c", "d", "--run", "x", "--run", "y")
    assert values(*inputs, *repeated, "--drop-missing") == {
        **PLAIN,
        "manifest": "m",
        "pairs": [["a", "b"], ["c", "d"]],
        "runs": ["x", "y"],
        "draws": 3,
        "scale": 2.0,
        "drop_missing": True,
    }


@pytest.mark.parametrize(
    "words",
    [("--draws", "0"), ("--scale", "nan"), ("--tail", "x")],
)
def test_values_outside_the_type_are_refused(words: tuple[str, str]) -> None:
    assert typed("s", *words).exit_code == 2


def copy_clips(
    stores: Sequence[str],
    target: str | Path,
    form: Literal["npz", "csv"],
    *,
    columns: Mapping[str, str] | None = None,
    offsets: Mapping[str, float] | None = None,
    clips: str | Path | None = None,
    folder: Path | None = None,
    films: Sequence[str] | None = None,
    licence: str = "",
    seal: bool = True,
    depth: int = 0,
    mask: complex | None = None,
    progress: Progress | None = None,
) -> Counted:
    """Copy clips.

    Args:
        stores: From where.
        target: Where to.
        form: The format.
        columns: New names.
        offsets: Shifts.
        clips: A file of ids.
        folder: A folder.
        films: Only these.
        licence: The licence.
        seal: Close it.
        depth: How deep.
        mask: Which rows.
        progress: Counts bytes.
    """
    values = dict(locals())
    values.pop("mask")
    shown = values.pop("progress")
    assert isinstance(shown, Progress)
    for name in ("clips", "folder"):
        path = values[name]
        assert path is None or isinstance(path, Path)
        values[name] = path and str(path)
    return Counted(values)


COPY = Command(
    f"{__name__}:copy_clips",
    {
        "target": Option("-o --output"),
        "columns": Option("--map", metavar="NEW=OLD"),
        "offsets": Option(metavar="FILM=SECONDS"),
        "clips": Option(exists="file"),
        "depth": Option(group="Depth"),
        "mask": PYTHON_ONLY,
        "progress": Bar("copy", "B"),
    },
)


def copied(*words: str) -> Any:
    session = Session(Workspace(Path("there")), Console(as_json=True))
    return CliRunner().invoke(command_of(COPY, "copy"), [*words], obj=session)


COPIED = {
    "stores": ["a", "b"],
    "target": "t",
    "form": "npz",
    "columns": None,
    "offsets": None,
    "clips": None,
    "folder": None,
    "films": None,
    "licence": "",
    "seal": True,
    "depth": 0,
}


def test_mappings_paths_and_the_other_flag_of_a_switch_are_typed(
    tmp_path: Path,
) -> None:
    ids = tmp_path / "ids.txt"
    ids.touch()
    options = ["--map", "clip_id=id", "--map", "x=y", "--offsets", "tt1=-2.5"]
    options += ["--clips", str(ids), "--folder", "f", "--films", "m", "--no-seal"]
    done = copied("a", "b", "npz", "--output", "t", *options)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {
        "json_version": 1,
        **COPIED,
        "columns": {"clip_id": "id", "x": "y"},
        "offsets": {"tt1": -2.5},
        "clips": str(ids),
        "folder": "f",
        "films": ["m"],
        "seal": False,
    }


def test_wrong_words_of_a_mapping_are_a_usage_error_with_the_help_to_read() -> None:
    for words, what in [
        (("--map", "x"), "--map must be of the form NAME=VALUE, got 'x'"),
        (("--map", "x=1", "--map", "x=2"), "--map names 'x' twice"),
        (("--offsets", "a=b"), "--offsets must be FILM=SECONDS: could not convert"),
    ]:
        error = copied("a", "npz", "-o", "t", *words).exception
        assert isinstance(error, FixUsage)
        assert error.message.startswith(what)
        assert error.hint == "copy --help"


def test_a_file_that_must_exist_is_a_usage_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path):
        assert copied("a", "npz", "-o", "t", "--clips", str(path)).exit_code == 2


def choose(*, names: Sequence[str] | None = None) -> Counted:
    """Choose names.

    Args:
        names: The names. The default is all.
    """
    return Counted({"names": None if names is None else list(names)})


def test_an_empty_list_is_not_the_same_as_none() -> None:
    entry = Command(f"{__name__}:choose", {"names": Option(separator=",")})
    command = command_of(entry, "choose")
    session = Session(Workspace(Path("there")), Console())
    assert CliRunner().invoke(command, [], obj=session).stdout == "names=None\n"
    empty = CliRunner().invoke(command, ["--names", ","], obj=session)
    assert empty.stdout == "names=[]\n"

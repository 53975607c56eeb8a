"""Commands made from functions: what a person types, and what the function gets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import pytest
from click.testing import CliRunner

from obygaze_features.core.commands import Session
from obygaze_features.core.console import Console
from obygaze_features.core.function_commands import Option, command_of, parse_docstring
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
        output: Annotated[str | Path | None, Option("-o")] = None,
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
    runs: Annotated[Sequence[str], Option("--run", metavar="RUN")] = (),
    draws: Annotated[int, Option(least=1)] = 10,
    scale: float | None = None,
    drop_missing: bool = False,
    workspace: str | Path | None = None,
) -> Counted:
    """Count clips in a store.

    A second paragraph.

    Args:
        store: The store.
        manifest: Its manifest.
        tail: The tail, of which there are two,
            on two lines.
        pairs: Pairs of words.
        runs: Some runs.
        draws: How many.
        scale: A factor.
        drop_missing: Leave out what is missing.
        workspace: The workspace.

    Example:
        >>> count_clips("s")

    Commands:
        obygaze count s
        obygaze count s --tail less
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
    command = command_of(count_clips, "count", then=Counted.write)
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


def test_every_kind_of_parameter_is_typed() -> None:
    inputs = ("s", "m", "--tail", "two-sided", "--draws", "3", "--scale", "2")
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


def test_the_method_of_the_result_gets_its_own_options(tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    done = typed("s", "-o", str(path), "--force", as_json=False)
    assert done.exit_code == 0, done.output
    assert path.read_text("utf-8").endswith("force=True")
    assert f"wrote {path}" in done.stderr


def test_the_help_is_the_docstring() -> None:
    text = " ".join(typed("--help").output.split())
    assert "Count clips in a store. A second paragraph." in text
    assert (
        "--tail [two_sided|less] The tail, of which there are two, on two lines."
        in text
    )
    assert "Arguments: STORE The store. [MANIFEST] Its manifest. Options:" in text
    assert "--run RUN Some runs. Repeatable." in text
    assert "Examples: obygaze count s obygaze count s --tail less" in text
    assert ">>>" not in text and "workspace" not in text.lower()
    assert text.index("Options:") < text.index("Results:") < text.index("-o")


def test_a_parameter_without_a_description_is_an_error() -> None:
    def count(*, n: int = 1) -> Counted:
        """Count."""
        raise NotImplementedError

    with pytest.raises(TypeError, match="does not describe 'n'"):
        command_of(count, "count")


def test_a_parameter_of_the_function_and_of_the_method_is_an_error() -> None:
    def count(*, force: bool = False) -> Counted:
        """Count.

        Args:
            force: Count anyway.
        """
        raise NotImplementedError

    with pytest.raises(TypeError, match="both take 'force'"):
        command_of(count, "count", then=Counted.write)


def test_a_type_that_no_word_can_be_is_an_error() -> None:
    def count(*, n: complex) -> Counted:
        """Count.

        Args:
            n: A number of the plane.
        """
        raise NotImplementedError

    with pytest.raises(TypeError, match="no command line value"):
        command_of(count, "count")


def test_a_docstring_in_parts() -> None:
    parts = parse_docstring(count_clips)
    assert parts.about == "Count clips in a store.\n\nA second paragraph."
    assert parts.commands == "obygaze count s\nobygaze count s --tail less"
    assert parts.parameters["tail"] == "The tail, of which there are two, on two lines."
    assert isinstance(command_of(count_clips, "count"), click.Command)

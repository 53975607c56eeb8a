"""The demo, which takes half a minute, made once for all tests that look at it or go on from it."""

from pathlib import Path

from support.cli import run_obygaze
from support.once import made_once


def demo() -> Path:
    """Return a folder with the demo in `demo`, and what was printed as stdout and stderr.

    What is printed names the folder in which it was made.
    """
    return made_once("demo", _make)


def _make(folder: Path) -> None:
    done = run_obygaze("-C", folder, "demo", "--json").ok()
    (folder / "stdout").write_text(done.stdout, encoding="utf-8")
    (folder / "stderr").write_text(done.stderr, encoding="utf-8")

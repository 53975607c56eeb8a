"""How many modules a clip passes: the functions that run from a table to a report, in their order.

    python -m benchmarks.trace

Three walks: opening a small made-up store and reading the vectors of one clip; everything from
reading the table of clips to the page of a report; and everything from a clip of a small film to
its sealed block, without what the processes do that decode. A move is a call that goes from one
module to another; a return is a move to a module that was already seen.
"""

import io
import shlex
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import click
import numpy as np

from obygaze_features.core.console import table

ROOT = str(Path(__file__).resolve().parent.parent)
PACKAGES = ("obygaze_features", "obygaze_models", "obygaze")


@dataclass
class Walk:
    """The functions that ran, by module, and the moves between modules."""

    functions: set[tuple[str, str]] = field(default_factory=set)
    modules: dict[str, None] = field(default_factory=dict)
    n_moves: int = 0
    n_returns: int = 0
    current: str = ""

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Take notice of a call, as `sys.setprofile` reports it."""
        if event != "call":
            return
        module = module_of(frame.f_code.co_filename)
        if not module or frame.f_code.co_name == "<module>":
            return
        self.functions.add((module, frame.f_code.co_qualname))
        if module == self.current:
            return
        self.n_moves += 1
        self.n_returns += module in self.modules
        self.modules.setdefault(module)
        self.current = module


def module_of(file_name: str) -> str:
    """Return the name of a module of the program; "" for any other."""
    path = file_name.removeprefix(f"{ROOT}/").removesuffix(".py").replace("/", ".")
    return path if path.partition(".")[0] in PACKAGES else ""


def walk(function: Callable[[], object]) -> Walk:
    """Return what runs while a function runs."""
    walked = Walk()
    threading.setprofile(walked.note)
    sys.setprofile(walked.note)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return walked


def write_inputs(folder: Path) -> None:
    """Write a table of 72 made-up clips, and their vectors."""
    levels = (("EN", ""), ("HN", "Posture"), ("S", "Look|Body"))
    lines = ["clip,film,level,why"]
    clips = []
    vectors = []
    for film in ("alba", "brug", "cirk", "dune", "echo", "fado"):
        for number in range(1, 13):
            clip = f"{film}-{number:03d}"
            lines.append(",".join((clip, film, *levels[number % 3])))
            clips.append(clip)
            vectors.append([(number * (i + 3)) % 7 for i in range(4)])
    (folder / "clips.csv").write_text("\n".join(lines), encoding="utf-8")
    x = np.array(vectors, dtype=np.float32)
    np.savez(folder / "vectors.npz", clip_id=clips, x=x)


def whole_way(folder: Path) -> None:
    """Go from the table and the vectors to a report, as commands in one process."""
    from obygaze.cli import run_line

    columns = (
        "--map clip_id=clip --map movie_id=film --map level=level --map concepts=why"
    )
    for line in (
        f"manifest import csv {folder}/clips.csv -o films {columns}",
        f"store import npz {folder}/vectors.npz -o mine",
        """run honest --manifest films --store x=mine --set 'grid.models=["ridge"]' -o r""",
        "report r",
    ):
        words = shlex.split(line)
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            code = run_line(["-C", str(folder), "-q", *words])
        if code:
            raise SystemExit(f"{' '.join(words)}: exit {code}")


def one_clip(folder: Path) -> None:
    """Open the store and read the vectors of one clip."""
    import obygaze as og

    store = og.open_store("mine", workspace=folder)
    store.matrix("clip", clips=["alba-001"])


def write_film(folder: Path) -> None:
    """Write a film of 16 grey pictures, and the manifest whose only clip it is."""
    import av

    from obygaze.cli import run_line

    (folder / "films").mkdir()
    with av.open(str(folder / "films" / "alba.mp4"), "w") as file:
        stream = file.add_stream("mpeg4", rate=25)
        stream.width = 64
        stream.height = 48
        stream.pix_fmt = "yuv420p"
        for number in range(16):
            picture = np.full((48, 64, 3), 10 * number, np.uint8)
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        file.mux(stream.encode())
    line = f"manifest import folder {folder}/films -o one"
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        code = run_line(["-C", str(folder), "-q", *shlex.split(line)])
    if code:
        raise SystemExit(f"{line}: exit {code}")


def from_clip_to_block(folder: Path, store: str) -> None:
    """Extract the clip into a store of this name."""
    import obygaze as og

    og.extract("one", "descriptors", stores={"descriptors": store}, workspace=folder)


@click.command(help=__doc__)
@click.option(
    "--list", "listing", is_flag=True, help="Name the modules and the functions, too."
)
def main(listing: bool) -> None:
    """Print how many functions and modules each walk passes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        walks = {"from the table to the report": walk(lambda: whole_way(folder))}
        one_clip(folder)  # lazy imports are no part of the walk
        walks["open to matrix, one clip"] = walk(lambda: one_clip(folder))
        write_film(folder)
        from_clip_to_block(folder, "first")  # neither are they of this one
        walks["from a clip to its block"] = walk(
            lambda: from_clip_to_block(folder, "second")
        )
    rows = [
        (name, len(w.functions), len(w.modules), w.n_moves, w.n_returns)
        for name, w in walks.items()
    ]
    click.echo(table(("walk", "functions", "modules", "moves", "returns"), rows))
    if listing:
        for name, walked in walks.items():
            click.echo(f"\n{name}")
            for module in walked.modules:
                names = sorted(
                    name for where, name in walked.functions if where == module
                )
                click.echo(f"  {module}: {', '.join(names)}")


if __name__ == "__main__":
    main()

"""Mutate files of every kind that obygaze reads, and look for anything but success or an error.

`python -m support.fuzz 500000 [SEED]` (from tests/) runs that many inputs in this process and
prints counts by kind of file. A finding is an exception that the command would call a bug, more
than 1 GB of memory, or more than 30 s. It is printed with its seed, and its files are kept.
"""

import faulthandler
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from obygaze_features.core.console import printable
from obygaze_features.core.errors import ObygazeError

Tree = dict[str, bytes]
MAX_SECONDS, MAX_BYTES = 30, 1_000_000_000
ODD_NUMBERS = (0, 1, -1, 2, 63, 64, 2**31, 2**63, 2**64, -(2**63), 10**400)
ODD_NUMBERS += (0.5, -0.0, 1e308, -1e308, 1e-320, float("nan"), float("inf"))
ODD_TEXTS = ("", " ", "x", "0", "-1", "1e999", "NaN", "99999999999", "data")
ODD_TEXTS += ("\0", "a\0b", "\ud800", "é\ud83d", "\u202e", "\x1b[2J", "\n", "\r\n")
ODD_TEXTS += ("../x", "/etc/passwd", "a/../..", ".", "..", "C:\\x", "a\\b")
ODD_TEXTS += ("=1+1", "%s%n", "{x}", "<b>", "$(x)", "'", '"', ",")
ODD_TEXTS += ("x" * 300, "x" * 70_000, "é" * 200, "9" * 400, "9" * 5000)
ODD_LISTS = ([], [[]], [None], [1, 2], ["x"], ["x", "x"], [-1], [10**400], [0] * 1000)
ODD_TABLES = ({}, {"": 1}, {"kind": "ridge"}, {"x": {"y": {"z": []}}})
ODD: tuple[Any, ...] = (
    *(None, True, False),
    *(*ODD_NUMBERS, *ODD_TEXTS, *ODD_LISTS, *ODD_TABLES),
)
ODD_BYTES = (b"", b"\0", b"\xff", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b'"')
ODD_BYTES += (b"{}", b"[]", b"null")
KEYS = ("", "x", "sha256", "version", "format", "name", "kind", "0", "-1", "\0")
KEYS += ("\ud800", "__class__")


@dataclass(frozen=True)
class Target:
    """A kind of input: its files, as variants, how they are changed, and what reads them.

    `repaired` adapts checksums to the changed files, as an enemy would.
    """

    name: str
    variants: Sequence[Tree]
    read: Callable[[Tree, Path], None]
    weight: int = 1
    repaired: Callable[[Tree, random.Random], Tree] = lambda tree, draw: tree


@dataclass
class Findings:
    """How many inputs were read, by kind and result, and the first input of each finding."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[int, Tree, str]] = field(default_factory=dict)

    def add(self, what: str, number: int, tree: Tree, lines: str) -> None:
        self.counts["findings"] += 1
        self.first.setdefault(what, (number, tree, lines))


def campaign(
    targets: Sequence[Target], n_inputs: int, seed: int, *, say: bool = False
) -> Findings:
    found = Findings()
    names = [target for target in targets for _ in range(target.weight)]
    with tempfile.TemporaryDirectory(dir=_fast_folder()) as folder, _quiet():
        for number in range(n_inputs):
            draw = random.Random(f"{seed} {number}")
            one(draw.choice(names), draw, Path(folder), number, found)
            if say and number % 1000 == 999:
                print(f"{number + 1} inputs, {dict(found.counts)}", flush=True)
    return found


def one(target, draw, folder: Path, number: int, found: Findings) -> None:
    tree = target.repaired(changed(draw.choice(target.variants), draw), draw)
    n_before = _peak_bytes()
    # The code of a library hangs.
    faulthandler.dump_traceback_later(20 * MAX_SECONDS, exit=True)
    # Of the processor, not of a busy machine.
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    try:
        result = _result_of(target, tree, folder)
        found.counts[f"{target.name}: {result}"] += 1
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        found.add(_place(target, error), number, tree, traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
    grown = _peak_bytes() - n_before
    if grown > MAX_BYTES:
        found.add(f"{target.name}: more than 1 GB", number, tree, f"{grown:,} bytes")


def _result_of(target: Target, tree: Tree, folder: Path) -> str:
    """Read an input; return what came of it, or raise what the command would call a bug."""
    try:
        target.read(tree, folder)
    except ObygazeError as error:
        # Half a pair of a sign can be printed as an escape only.
        "\n".join(map(printable, (str(error), *error.details))).encode("utf-8")
        return type(error).__name__
    except OSError as error:
        if error.errno is None:
            raise
        return "OSError"
    return "read"


def _place(target: Target, error: BaseException) -> str:
    """Return what was raised, and the last line of obygaze that was running."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/obygaze" in frame.filename]
    place = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "?"
    return f"{target.name}: {type(error).__name__} at {place}"


def written(files: Tree, folder: Path) -> Path:
    """Write files into an emptied folder; names that lead out of it are left out."""
    place = folder / "input"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, data in files.items():
        with suppress(OSError):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
    return place


def do_all(*works: Callable[[], object]) -> None:
    """Do all, so that an error of one does not hide those of the others."""
    errors: list[ObygazeError] = []
    for work in works:
        try:
            work()
        except ObygazeError as error:
            errors.append(error)
    if errors:
        raise errors[0]


class _TooLong(Exception):
    pass


@contextmanager
def _quiet() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TooLong(f"more than {MAX_SECONDS} s")

    before = signal.signal(signal.SIGPROF, stop)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.signal(signal.SIGPROF, before)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _fast_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def changed(tree: Tree, draw: random.Random) -> Tree:
    tree = dict(tree)
    for _ in range(draw.choice((1, 1, 2, 3))):
        names = sorted(tree)
        if not names:
            break
        name = draw.choice(names)
        if draw.random() < 0.04:
            _change_files(tree, name, draw)
        else:
            tree[name] = _changed_file(name, tree[name], draw)
    return tree


def _change_files(tree: Tree, name: str, draw: random.Random) -> None:
    what = draw.randrange(3)
    if what == 0:
        del tree[name]
    elif what == 1:
        tree[name] = tree[draw.choice(sorted(tree))]
    else:
        folder = name.rpartition("/")[0]
        tree[f"{folder}/x{draw.randrange(9)}".lstrip("/")] = draw.choice(ODD_BYTES)


def _changed_file(name: str, data: bytes, draw: random.Random) -> bytes:
    kind = Path(name).suffix if draw.random() > 0.2 else ""
    if kind == ".json":
        return changed_json(data, draw)
    if kind == ".toml":
        return changed_cells(data, draw, "=", TOML_ODD)
    if kind == ".csv":
        return changed_cells(data, draw, ",", ODD_CELLS)
    return changed_bytes(data, draw)


def changed_bytes(data: bytes, draw: random.Random) -> bytes:
    """Flip, replace, insert, remove or repeat bytes; half of the time near the start or end."""
    if not data:
        return draw.choice(ODD_BYTES)
    size, near = len(data), min(len(data), 200)
    places = (
        draw.randrange(size),
        draw.randrange(near),
        size - 1 - draw.randrange(near),
    )
    at = draw.choice(places)
    length = draw.choice((1, 1, 2, 4, 8, 64))
    own = data[at : at + length]
    news = [bytes([data[at] ^ 1 << draw.randrange(8)]), bytes([draw.randrange(256)])]
    news += [draw.choice(ODD_BYTES), own + own, bytes(length), b"\xff" * length]
    news += [draw.choice((0, 1, 2**31, 2**32 - 1, 10**9)).to_bytes(4, "little")]
    news += [draw.choice((0, 2**40, 2**63, 2**64 - 1)).to_bytes(8, "little")]
    new = draw.choice(news)
    if draw.random() < 0.1:
        return data[:at]
    return data[:at] + new + data[at + len(draw.choice((own, own, new))) :]


def changed_json(data: bytes, draw: random.Random) -> bytes:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return changed_bytes(data, draw)
    return json.dumps(changed_value(value, draw)).encode()


def changed_value(value: Any, draw: random.Random) -> Any:
    if draw.random() < 0.02:
        return draw.choice(ODD)
    place: Any = value
    while isinstance(place, dict | list) and place:
        key = draw.choice([*place] if isinstance(place, dict) else range(len(place)))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or draw.random() < 0.2:
            _change_place(place, key, draw)
            return value
        place = inner
    return draw.choice(ODD)


def _change_place(place: Any, key: Any, draw: random.Random) -> None:
    old, what = place[key], draw.randrange(6)
    if what == 0:
        del place[key]
    elif what == 1 and isinstance(place, dict):
        kept = place.pop(key) if draw.random() < 0.5 else draw.choice(ODD)
        place[draw.choice(KEYS)] = kept
    elif what == 1:
        place.insert(key, old)
    elif what == 2:
        place[key] = draw.choice(
            [*place.values()] if isinstance(place, dict) else place
        )
    elif what == 3 and isinstance(old, str) and old:
        at = draw.randrange(len(old))
        sign = draw.choice(("", "\0", "\ud800", "x", "0", "/", " "))
        place[key] = old[:at] + sign + old[at + 1 :]
    elif what == 3 and isinstance(old, int | float):
        others = (old + 1, old - 1, -old, old * 10, old * 10**9, str(old), [old])
        place[key] = draw.choice(others)
    else:
        place[key] = draw.choice(ODD)


TOML_ODD = ("0", "-1", "1", "0.5", "inf", "nan", "true", "1e400", "9" * 400)
TOML_ODD += ("9223372036854775808", "1979-05-27", "[]", "[1]", "[[]]", "[0, -1, 1.5]")
TOML_ODD += ('""', '"x"', '["x"]', '["x", "x"]', '["", ""]', '"\\u0000"', '"\\u202E"')
TOML_ODD += ('"../x"', '"' + "x" * 300 + '"', '"not (", "', "'''a\nb'''", '"["')
TOML_ODD += ("{}", "{x = 1}", '{"" = ""}', '[{kind = "ridge"}]')
TOML_ODD += ('"EN or not (S"', '"clip"', '["ridge"]')


ODD_CELLS = [str(odd).encode("utf-8", "replace").decode() for odd in ODD]


def changed_cells(data, draw: random.Random, sign: str, odd: Sequence[str]) -> bytes:
    """Change a cell, a line or the order of lines of a text with a sign between cells."""
    rows = [line.split(sign) for line in data.decode("utf-8", "replace").split("\n")]
    row, what = draw.choice(rows), draw.randrange(6)
    at = draw.randrange(len(row))
    if what < 3:
        new = draw.choice(odd)
        cells = (new, new, row[at] + new, '"', f'"{new}', row[at][1:], f'"{new}"')
        row[at] = draw.choice(cells)
    elif what == 3:
        row[at : at + 1] = draw.choice(([], [row[at]] * 2))
    elif what == 4:
        rows.insert(draw.randrange(len(rows)), row)
    else:
        rows.remove(row)
    return "\n".join(map(sign.join, rows)).encode("utf-8", "replace")


def main() -> None:
    from support.fuzz_targets import all_targets

    given = [*map(int, sys.argv[1:3])]
    n_inputs, seed = given + [500_000, 1][len(given) :]
    wanted = sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        targets = all_targets(Path(folder))
        targets = [one for one in targets if not wanted or one.name in wanted]
        found = campaign(targets, n_inputs, seed, say=True)
    for what, (number, tree, lines) in found.first.items():
        print(f"\n== {what}, input {number} of seed {seed}\n{lines}")
        kept = Path(tempfile.mkdtemp(prefix="obygaze-fuzz-"))
        for index, (name, data) in enumerate(tree.items()):
            (kept / f"{index}-{Path(name).name or 'x'}").write_bytes(data)
        print(f"its files: {kept}")
    for name, count in sorted(found.counts.items()):
        print(f"{count:8,}  {name}")
    print(f"{len(found.first)} findings, {_peak_bytes():,} bytes at most")
    sys.exit(bool(found.first))


if __name__ == "__main__":
    main()

"""What made each row of a store: the program and its version, the device, the precision, packages.

None of this is in the recipe. It says whether rows that should be the same may differ.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, NamedTuple, Self

from obygaze_features.core.console import count
from obygaze_features.core.outside import one_line

# The packages whose versions can change the numbers; those of others are recorded too.
COMPUTING_PACKAGES = ("av", "torch", "transformers")


class Kind(NamedTuple):
    """What must be the same for all rows of a store, unless a mixture is allowed."""

    program: str
    device: str
    precision: str

    def __str__(self) -> str:
        return one_line(f"{self.program} on {self.device}, {self.precision}")


@dataclass(frozen=True, order=True)
class Maker:
    """What made some rows.

    Args:
        program: The name and the version of the software.
        device: The kind of the device: cpu or cuda.
        device_name: The model of the device.
        precision: The number format of the computation.
        host: The name of the machine; in a seal, its number.
        versions: Names and versions of packages.
    """

    program: str
    device: str
    device_name: str = ""
    precision: str = ""
    host: str = ""
    versions: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> Kind:
        """What must be the same for all rows of a store."""
        return Kind(self.program, self.device, self.precision)

    def to_json(self) -> dict[str, Any]:
        """Return the maker as in markers and in the seal."""
        return {**vars(self), "versions": dict(self.versions)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return a maker as read; keys of later versions are ignored."""
        words = {name: value.get(name, "") for name in cls.__dataclass_fields__}
        versions = value.get("versions", {})
        pairs = sorted((name, version) for name, version in versions.items())
        words["versions"] = ""
        texts = [*words.values(), *chain.from_iterable(pairs)]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a maker of rows has values that are not text")
        return cls(**{**words, "versions": tuple(pairs)})


class MadeRows(NamedTuple):
    """Consecutive rows that one maker made: the first row, and the row after the last."""

    first: int
    after: int
    maker: Maker


@dataclass(frozen=True)
class Makers:
    """What made the rows of a block or of a store, as runs of rows in ascending order.

    Rows in no run were made by software that does not record it.
    """

    runs: tuple[MadeRows, ...] = ()

    def __post_init__(self) -> None:
        bounds = [(run.first, run.after) for run in self.runs]
        is_ascending = all(
            earlier[1] <= later[0] for earlier, later in pairwise(bounds)
        )
        if not is_ascending or any(not 0 <= first < after for first, after in bounds):
            raise ValueError("makers do not list each row once")

    def __bool__(self) -> bool:
        return bool(self.runs)

    @classmethod
    def of_rows(cls, first: int, makers: Sequence[Maker | None]) -> Self:
        """Return the makers of consecutive rows, of which the first has this number."""
        runs = (
            MadeRows(row, row + 1, m)
            for row, m in enumerate(makers, first)
            if m is not None
        )
        return cls(_joined(runs))

    @classmethod
    def of_parts(cls, parts: Iterable["Makers"]) -> Self:
        """Return the makers of several blocks, in the order of their rows."""
        return cls(_joined(chain.from_iterable(part.runs for part in parts)))

    def of_row(self, row: int) -> Maker | None:
        """Return what made a row; None if it was not recorded."""
        index = bisect_right(self.runs, row, key=lambda run: run.first) - 1
        if index < 0 or row >= self.runs[index].after:
            return None
        return self.runs[index].maker

    def between(self, first: int, after: int) -> "Makers":
        """Return the makers of the rows from `first` to the one before `after`."""
        cut = (
            run._replace(first=max(run.first, first), after=min(run.after, after))
            for run in self.runs
        )
        return Makers(tuple(run for run in cut if run.first < run.after))

    def with_rows(self, makers: Mapping[int, Maker | None]) -> "Makers":
        """Return the same with other makers of some rows; None where it is not known."""
        runs: list[MadeRows] = []
        first = 0
        for row in sorted(makers):
            runs += self.between(first, row).runs
            maker = makers[row]
            if maker is not None:
                runs.append(MadeRows(row, row + 1, maker))
            first = row + 1
        last = max((run.after for run in self.runs), default=0)
        runs += self.between(first, max(first, last)).runs
        return Makers(_joined(runs))

    def clips(self, not_ok: Iterable[int] = ()) -> dict[Maker, int]:
        """Return how many rows each maker made, without those that are not ok."""
        counts: Counter[Maker] = Counter()
        for run in self.runs:
            counts[run.maker] += run.after - run.first
        for row in not_ok:
            maker = self.of_row(row)
            if maker is not None:
                counts[maker] -= 1
        return {maker: n for maker, n in counts.items() if n > 0}

    def with_numbered_hosts(self) -> "Makers":
        """Return the same with a number in place of the name of each machine."""
        numbers: dict[str, str] = {}
        runs = []
        for run in self.runs:
            host = run.maker.host
            number = numbers.setdefault(host, str(len(numbers) + 1)) if host else ""
            runs.append(run._replace(maker=replace(run.maker, host=number)))
        return Makers(tuple(runs))

    def to_json(self) -> list[dict[str, Any]]:
        """Return each maker with the runs of its rows, in the order of their first rows."""
        rows_of: dict[Maker, list[list[int]]] = {}
        for run in self.runs:
            rows_of.setdefault(run.maker, []).append([run.first, run.after])
        return [{**maker.to_json(), "rows": rows} for maker, rows in rows_of.items()]

    @classmethod
    def from_json(cls, value: Sequence[Mapping[str, Any]]) -> Self:
        """Return makers as read; a row in two runs is an error."""
        runs = []
        for item in value:
            maker = Maker.from_json(item)
            for first, after in item["rows"]:
                if not (type(first) is type(after) is int):
                    raise ValueError(f"{first!r} is not a row")
                runs.append(MadeRows(first, after, maker))
        return cls(tuple(sorted(runs, key=lambda run: run[:2])))


def _joined(runs: Iterable[MadeRows]) -> tuple[MadeRows, ...]:
    """Return runs in which neighbours of one maker are one run."""
    joined: list[MadeRows] = []
    for run in runs:
        last = joined[-1] if joined else None
        if last is not None and last.after == run.first and last.maker == run.maker:
            joined[-1] = last._replace(after=run.after)
        else:
            joined.append(run)
    return tuple(joined)


@dataclass(frozen=True)
class MadeBy:
    """How the clips with features of a store were made.

    Args:
        clips: How many clips each maker made.
        unrecorded: How many clips are of software that does not record it.
        versions: Versions of packages that are known of the store as a whole.
    """

    clips: Mapping[Maker, int]
    unrecorded: int
    versions: Mapping[str, Sequence[str]]

    @property
    def kinds(self) -> list[Kind]:
        """The different programs, devices and precisions."""
        return sorted({maker.kind for maker in self.clips})

    @property
    def groups(self) -> dict[Maker, tuple[int, int]]:
        """By maker without its host, how many clips it made, and on how many machines."""
        clips: Counter[Maker] = Counter()
        hosts: dict[Maker, set[str]] = {}
        for maker, n in self.clips.items():
            group = replace(maker, host="")
            clips[group] += n
            hosts.setdefault(group, set()).add(maker.host)
        return {
            group: (clips[group], len(hosts[group] - {""})) for group in sorted(clips)
        }

    def versions_of(self, package: str) -> list[str]:
        """Return the versions of a package with which the clips were made."""
        versions = set(self.versions.get(package, ()))
        for maker in self.clips:
            for name, version in maker.versions:
                if name == package:
                    versions.add(version)
        return sorted(versions)

    def lines(self) -> list[str]:
        """Return a line for each group of clips: what made them."""
        lines = []
        for group, (n_clips, n_hosts) in self.groups.items():
            device = (
                f"{group.device} ({group.device_name})"
                if group.device_name
                else group.device
            )
            packages = "".join(
                f", {name} {version}" for name, version in group.versions
            )
            machines = f", on {count(n_hosts, 'machine')}" if n_hosts > 1 else ""
            words = (
                f"{group.program} on {device}, {group.precision}{packages}{machines}"
            )
            lines.append(one_line(f"{count(n_clips, 'clip')}: {words}"))
        if self.unrecorded:
            known_versions = [
                f"{name} {' and '.join(all_)}" for name, all_ in self.versions.items()
            ]
            packages = ""
            if known_versions and not lines:
                packages = f" ({', '.join(known_versions)})"
            lines.append(
                one_line(f"{count(self.unrecorded, 'clip')}: not recorded{packages}")
            )
        return lines

    def warnings(self) -> list[str]:
        """Return what is a mixture: clips that may differ more than clips of one run do."""
        mixtures = []
        kinds = self.kinds
        if len(kinds) > 1:
            names = "; ".join(map(str, kinds))
            mixtures.append(
                f"its clips were made in {len(kinds)} different ways: {names}"
            )
        for package in COMPUTING_PACKAGES:
            versions = self.versions_of(package)
            if len(versions) > 1:
                names = one_line(", ".join(versions))
                mixtures.append(
                    f"its clips were made with {len(versions)} versions of {package}: {names}"
                )
        if self.clips and self.unrecorded:
            mixtures.append(
                f"{count(self.unrecorded, 'clip')}: what made them was not recorded"
            )
        return mixtures

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain JSON."""
        groups = [
            {**group.to_json(), "clips": n_clips, "machines": n_hosts}
            for group, (n_clips, n_hosts) in self.groups.items()
        ]
        for group in groups:
            del group["host"]
        return {
            "made_by": groups,
            "made_by_unknown": self.unrecorded,
            "mixed": len(self.kinds) > 1,
            "versions": {
                name: list(versions) for name, versions in self.versions.items()
            },
        }

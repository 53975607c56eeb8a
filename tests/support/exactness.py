"""Count the pictures of files drawn anew that are right, refused and wrong, by kind of file.

Wrong pictures of a file in which FFmpeg reports nothing are listed as such: nothing can find them.

`python -m support.exactness --seed 49` (from the folder of tests) makes 200 files of each codec,
group, container, rate, cut and edit, and 100 that are damaged. Of the first, each picture is
compared with what another program shows that decodes the file in order; of the damaged ones, with
the pictures of the file before it was damaged.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from support.damage import (
    change_file,
    change_packets,
    drop_packets,
    flip_bits,
    remove_bytes,
    zero_bytes,
)
from support.generated_videos import (
    CODECS,
    CONTAINERS,
    N_PICTURES,
    Case,
    Tally,
    compare,
    draw,
    make,
)

DAMAGES = ("flip", "zero", "remove", "drop", "file-zero", "file-remove")


@dataclass
class DamagedTally:
    """What became of damaged files of one kind: counts of pictures, and of refusals."""

    n_files: int = 0
    n_right: int = 0
    n_refused: int = 0
    n_wrong: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        refused = ", ".join(f"{reason} {n}" for reason, n in self.refused.items())
        return (
            f"{self.n_files} files, {self.n_right} right, {self.n_refused} refused,"
            f" {self.n_wrong} wrong; refusals: {refused or 'none'}"
        )


def draw_damaged(n_files: int, seed: int) -> list[tuple[Case, str]]:
    """Return whole films and how each is damaged, drawn without replacement."""
    films = [
        Case(codec, group, container, "25", "whole", "none")
        for codec, (_, groups) in CODECS.items()
        for group, container in product(groups, CONTAINERS[codec])
    ]
    cases = list(product(films, DAMAGES))
    random.Random(seed).shuffle(cases)
    return cases[:n_files]


def damage(whole: Path, target: Path, how: str, seed: int) -> Path:
    """Copy a film with one kind of damage."""
    position = random.Random(seed).randrange(2, N_PICTURES - 6)
    if how == "drop":
        return drop_packets(whole, target, {position})
    if how.startswith("file-"):
        change = zero_bytes if how == "file-zero" else remove_bytes
        return change_file(whole, target, change, seed=seed)
    change = {"flip": flip_bits, "zero": zero_bytes, "remove": remove_bytes}[how]
    return change_packets(whole, target, {position}, change, seed=seed)


def judge(
    path: Path, known: set[bytes], tally: DamagedTally, at_a_time: int = 14
) -> int:
    """Count the pictures of a damaged file, of which some are asked at a time; return the wrong."""
    from obygaze_features.video import PictureView, decode_views
    from obygaze_features.video.container import BadVideo
    from obygaze_features.video.film import probe

    tally.n_files += 1
    wrong = 0
    try:
        n_frames = probe(path, decode=True).index.frames
        for first in range(0, n_frames, at_a_time):
            ranks = list(range(first, min(first + at_a_time, n_frames)))
            view = PictureView(len(ranks))
            try:
                (clip,) = decode_views(path, [view], ranks=ranks).values()
            except BadVideo as error:
                tally.n_refused += len(ranks)
                tally.refused[error.reason] += 1
                continue
            is_known = np.array(
                [picture.tobytes() in known for picture in clip.pictures]
            )
            tally.n_refused += int(clip.substituted.sum())
            tally.n_right += int((is_known & ~clip.substituted).sum())
            wrong += int((~is_known & ~clip.substituted).sum())
    except BadVideo as error:
        tally.refused[error.reason] += 1
    tally.n_wrong += wrong
    return wrong


def is_reported(path: Path) -> bool:
    """Return whether FFmpeg reports anything of a file when it decodes it in order."""
    from obygaze_features.video.container import BadVideo
    from obygaze_features.video.film import open_film

    try:
        with open_film(path) as source:
            outcome = source.run(source.whole, lambda _, __: None)
            return outcome.has_reports or source.film.broken
    except BadVideo:
        return True


def said_of(path: Path) -> str:
    """Return whether FFmpeg reports anything of a file, in words."""
    return "reported" if is_reported(path) else "FFmpeg reports nothing"


def pictures_of(path: Path) -> set[bytes]:
    """Return all pictures of a whole film; none where the container lost what decoding needs."""
    from obygaze_features.video import PictureView, decode_clip
    from obygaze_features.video.container import BadVideo
    from obygaze_features.video.film import probe

    try:
        n_frames = probe(path).index.frames
        return {x.tobytes() for x in decode_clip(path, PictureView(n_frames)).pictures}
    except BadVideo:
        return set()


def count_damaged(
    n_files: int, seed: int, folder: Path
) -> tuple[dict[str, DamagedTally], list[str]]:
    """Return the counts by kind of damage, and a line for each file with wrong pictures."""
    import av

    tallies = {how: DamagedTally() for how in DAMAGES}
    wrong: list[str] = []
    for number, (case, how) in enumerate(draw_damaged(n_files, seed)):
        whole = make(case, folder)
        if whole is None:
            continue
        target = folder / f"{number}-{how}.{case.container}"
        try:
            path = damage(whole, target, how, seed + number)
        except (av.FFmpegError, ValueError, OverflowError):
            continue
        known = pictures_of(whole)
        if not known:
            continue
        n_wrong = judge(path, known, tallies[how])
        if n_wrong:
            wrong.append(f"{case} {how}: {n_wrong} wrong, {said_of(path)}")
    return tallies, wrong


def main() -> None:
    """Make the files and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=49)
    parser.add_argument("--intact", type=int, default=200)
    parser.add_argument("--damaged", type=int, default=100)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tallies: dict[str, Tally] = {}
        for case in draw(chosen.intact, chosen.seed):
            path = make(case, folder)
            if path is None:
                continue
            tally = tallies.setdefault(case.codec, Tally())
            n_before = len(tally.wrong)
            compare(case, path, folder, None, tally)
            of_file = tally.wrong[n_before:]
            tally.wrong[n_before:] = [f"{line}, {said_of(path)}" for line in of_file]
        for codec, tally in tallies.items():
            print(f"{codec:8} {tally}")
            for line in tally.wrong:
                print(f"    {line}")
        damaged, wrong = count_damaged(chosen.damaged, chosen.seed, folder)
        for how, counts in damaged.items():
            print(f"{how:12} {counts}")
        for line in wrong:
            print(f"    {line}")


if __name__ == "__main__":
    main()

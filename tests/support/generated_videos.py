"""Hundreds of small video files, drawn from codecs, groups, containers, rates, cuts and edits.

Each picture has its number in its pixels. A file is compared with what another program reads of it
that decodes it once, in order: each picture that `decode_clip` returns is the one at its time and
rank, or is marked, or the file is refused with a reason.
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from support.videos import encode_video, read_number, read_numbers, remux

N_PICTURES = 56
SIZE = (128, 96)
X264 = {"preset": "veryfast", "sc_threshold": "0"}
X265 = "log-level=none:pools=1:frame-threads=1:scenecut=0"
AV1 = {"g": "16", "preset": "8", "crf": "5", "svtav1-params": "lp=1"}
H264 = {
    "closed": X264 | {"g": "16", "bf": "0"},
    "reordered": X264 | {"g": "16", "x264-params": "bframes=3:b-adapt=0"},
    "pyramid": X264 | {"g": "24"},
    "open": X264 | {"g": "16", "x264-params": "open-gop=1:bframes=3:b-adapt=0"},
    "refresh": X264 | {"g": "16", "x264-params": "intra-refresh=1:bframes=0"},
}
H264["pyramid"]["x264-params"] = "bframes=7:b-adapt=0:b-pyramid=normal"
HEVC = {
    "closed": {"x265-params": f"{X265}:keyint=16:open-gop=0:bframes=4"},
    "open": {"x265-params": f"{X265}:keyint=16:min-keyint=16:bframes=4"},
}
WITH_B = {"g": "12", "bf": "2"}
WITHOUT_B = {"no-b": {"g": "12", "b": "800k"}}
MPEG2 = {"no-b": {"g": "12", "bf": "0"}, "open": WITH_B}
MPEG2["closed"] = WITH_B | {"flags": "+cgop", "sc_threshold": "1000000000"}
VP9 = {
    "plain": {"g": "16", "deadline": "realtime", "cpu-used": "8"},
    "hidden": {"g": "24", "lag-in-frames": "20", "auto-alt-ref": "1"},
}
# Each codec with its encoder, and the options of each kind of group.
CODECS: dict[str, tuple[str, dict[str, dict[str, str]]]] = {
    "h264": ("libx264", H264),
    "hevc": ("libx265", HEVC),
    "mpeg1": ("mpeg1video", {"open": WITH_B}),
    "mpeg2": ("mpeg2video", MPEG2),
    "mpeg4": ("mpeg4", WITHOUT_B | {"b": WITH_B | {"b": "800k"}}),
    "msmpeg4": ("msmpeg4", WITHOUT_B),
    "wmv2": ("wmv2", WITHOUT_B),
    "flv1": ("flv", WITHOUT_B),
    "vp8": ("libvpx", {"groups": {"g": "16", "b": "400k", "deadline": "realtime"}}),
    "vp9": ("libvpx-vp9", VP9),
    "av1": ("libsvtav1", {"groups": AV1}),
    "mjpeg": ("mjpeg", {"keys": {"q": "4"}}),
    "ffv1": ("ffv1", {"keys": {}}),
    "prores": ("prores_ks", {"keys": {}}),
}
PIXELS = {"mjpeg": "yuvj420p", "prores": "yuv422p10le"}
CONTAINERS = {
    "h264": ("mp4", "mov", "mkv", "ts", "flv", "avi", "h264", "nut"),
    "hevc": ("mp4", "mkv", "ts", "hevc", "flv"),
    "mpeg1": ("mpg", "mkv", "ts", "avi", "mp4"),
    "mpeg2": ("mpg", "ts", "mkv", "mp4", "avi", "m2v", "vob", "mxf"),
    "mpeg4": ("avi", "mp4", "mkv", "mov", "ts", "m4v", "nut"),
    "msmpeg4": ("avi", "mkv", "asf"),
    "wmv2": ("asf", "avi"),
    "flv1": ("flv", "avi"),
    "vp8": ("webm", "avi", "ivf"),
    "vp9": ("webm", "mp4", "ivf", "mkv"),
    "av1": ("mp4", "mkv", "ivf", "webm", "obu"),
    "mjpeg": ("avi", "mov", "mkv", "mjpeg"),
    "ffv1": ("mkv", "avi", "nut"),
    "prores": ("mov", "mkv"),
}
FORMATS = {"m2v": "mpeg2video", "vob": "vob"}
# The container that a codec is encoded to first.
PLAIN = {"flv1": "flv", "wmv2": "avi"}
# The lengths of pictures in seconds, of which each file takes as many as it has pictures.
RATES: dict[str, tuple[Fraction, ...]] = {
    "25": (Fraction(1, 25),),
    "ntsc": (Fraction(1001, 24000),),
    "uneven": tuple(Fraction(n, 1000) for n in (20, 33, 40, 80, 33, 180, 41)),
}
# Where a copy begins: at the first packet, at the second key frame, before it and after it.
CUTS = ("whole", "key", "before-key", "after-key", "end")
EDITS = ("none", "late", "at-zero", "negative", "truncated", "twice", "wrap", "again")


@dataclass(frozen=True)
class Case:
    codec: str
    group: str
    container: str
    rate: str
    cut: str
    edit: str

    def __str__(self) -> str:
        return "-".join(vars(self).values())

    @property
    def is_intact(self) -> bool:
        """Whether nothing of the film is missing, and its clock runs on."""
        return self.cut in ("whole", "end") and self.edit in ("none", "late", "again")


@dataclass
class Tally:
    """What became of the files: how many pictures are right, marked or wrong, and which failed."""

    n_files: int = 0
    n_right: int = 0
    n_marked: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def all_cases() -> Iterator[Case]:
    for codec, (_, groups) in CODECS.items():
        for group, container, rate, cut, edit in product(
            groups, CONTAINERS[codec], RATES, CUTS, EDITS
        ):
            joins = container in ("ts", "mpg")
            if container in ("h264", "m2v"):
                # Without times nothing says that a stream goes on in the middle of a group, or
                # with pictures that are shown before its first key frame.
                joins = cut in ("whole", "end")
            wraps = container == "ts"
            if (edit == "twice" and not joins) or (edit == "wrap" and not wraps):
                continue
            yield Case(codec, group, container, rate, cut, edit)


def draw(n_files: int, seed: int) -> list[Case]:
    """Return as many cases of each codec, group and container, drawn without replacement."""
    cases: dict[tuple[str, ...], list[Case]] = {}
    for case in all_cases():
        cases.setdefault((case.codec, case.group, case.container), []).append(case)
    generator = random.Random(seed)
    for several in cases.values():
        generator.shuffle(several)
    drawn: list[Case] = []
    while len(drawn) < n_files:
        for several in cases.values():
            if several:
                drawn.append(several.pop())
    return drawn[:n_files]


def make(case: Case, folder: Path) -> Path | None:
    import av

    try:
        return _make(case, folder)
    except (av.FFmpegError, ValueError, OverflowError):
        return None


def _make(case: Case, folder: Path) -> Path:
    numbers, plain = _plain(case.codec, case.group, folder)
    first, stop = _range_of(plain, case.cut)
    target = folder / f"{case}.{case.container}"
    _copy(case, plain, target, range(first, stop), numbers)
    if case.edit == "truncated":
        target.write_bytes(target.read_bytes()[: target.stat().st_size * 7 // 10])
    if case.edit == "twice":
        target.write_bytes(target.read_bytes() * 2)
    if case.edit == "again":
        # Through another container, as after several programs.
        other = folder / f"{case}-other.mkv"
        remux(target, other, lambda _, packet: packet)
        format = FORMATS.get(case.container)
        remux(other, target, lambda _, packet: packet, format=format)
    return target


def _plain(codec: str, group: str, folder: Path) -> tuple[list[int], Path]:
    import av

    encoder, groups = CODECS[codec]
    plain = folder / f"{codec}-{group}.{PLAIN.get(codec, 'mkv')}"
    if not plain.exists():
        facts = {"numbers": range(N_PICTURES), "size": SIZE, "options": groups[group]}
        encode_video(plain, encoder, pix_fmt=PIXELS.get(codec, "yuv420p"), **facts)
    numbers: list[int] = []
    with av.open(str(plain)) as container:
        stream = container.streams.video[0]
        for position, packet in enumerate(container.demux(stream)):
            packet.pts = packet.dts = position
            for frame in packet.decode():
                numbers += [-1] * (frame.pts + 1 - len(numbers))
                numbers[frame.pts] = read_number(frame.to_ndarray(format="rgb24"))
    shown_numbers = sorted(number for number in numbers if number >= 0)
    assert shown_numbers == list(range(N_PICTURES)), (codec, group, numbers)
    return numbers, plain


def _copy(case: Case, source, target: Path, kept: range, numbers: list[int]) -> None:
    import av

    steps = RATES[case.rate]
    times = [Fraction(0)]
    for number in range(N_PICTURES):
        times.append(times[-1] + steps[number % len(steps)])
    # How many pictures are stored before one that is shown earlier.
    delay = max(position - number for position, number in enumerate(numbers))
    offset = {"late": Fraction(18, 5), "wrap": Fraction(95442)}
    shift = (offset | {"negative": Fraction(-2, 5)}).get(case.edit, Fraction(0))
    if case.edit == "at-zero":
        shift = -times[numbers[kept.start]]
    clock = Fraction(1, 90000)
    options = {}
    if case.edit in ("at-zero", "negative"):
        options = {"avoid_negative_ts": "disabled"}
    written: dict[str, Any] = {"format": FORMATS.get(case.container)}
    with (
        av.open(str(source)) as old,
        av.open(str(target), "w", options=options, **written) as new,
    ):
        stream = old.streams.video[0]
        copy = new.add_stream_from_template(stream, opaque=True)
        packets = [packet for packet in old.demux(stream) if packet.size]
        to_units = None
        if (case.codec, case.container) == ("h264", "avi"):
            to_units = av.BitStreamFilterContext("h264_mp4toannexb", stream)
        for position in kept:
            packet = packets[position]
            early = max(0, delay - position)
            decoded_at = times[max(0, position - delay)] - early * steps[0]
            packet.time_base = clock
            packet.pts = round((times[numbers[position]] + shift) / clock)
            packet.dts = round((decoded_at + shift) / clock)
            for written in to_units.filter(packet) if to_units else [packet]:
                written.stream = copy
                new.mux(written)


def _range_of(plain: Path, cut: str) -> tuple[int, int]:
    import av

    with av.open(str(plain)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    keys = [number for number, packet in enumerate(packets) if packet.is_keyframe]
    key = keys[1] if len(keys) > 1 else 0
    firsts = {"key": key, "before-key": max(key - 3, 0), "after-key": key + 1}
    return firsts.get(cut, 0), len(packets) - 5 * (cut == "end")


@dataclass(frozen=True)
class Shown:
    """What another program shows of a file: numbers in the order of decoding, and their times."""

    numbers: list[int]
    times_s: list[float | None]

    @property
    def has_times(self) -> bool:
        """Whether each picture has a time, later than the one before."""
        times = self.times_s
        if any(time is None for time in times):
            return False
        return all(a < b for a, b in pairwise(times))


def shown(path: Path) -> Shown:
    import av

    numbers: list[int] = []
    times_s: list[float | None] = []
    try:
        container = av.open(str(path))
    except av.FFmpegError:
        return Shown([], [])
    with container:
        start_s = (container.start_time or 0) / 1e6
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets)
            except (StopIteration, av.FFmpegError):
                break
            with suppress(av.FFmpegError):
                for frame in packet.decode():
                    numbers.append(read_number(frame.to_ndarray(format="rgb24")))
                    times_s.append(None if frame.time is None else frame.time - start_s)
    return Shown(numbers, times_s)


def compare(case: Case, path: Path, indexes: Path | None, tally: Tally) -> None:
    from obygaze_features.video import PictureView, decode_views
    from obygaze_features.video.container import BadVideo
    from obygaze_features.video.film import probe

    truth = shown(path)
    tally.n_files += 1
    is_intact = case.is_intact and len(truth.numbers) > 0
    try:
        index = probe(path).index
    except BadVideo as error:
        tally.refused[error.reason] += 1
        if is_intact:
            tally.wrong.append(f"{case}: an intact file is refused: {error}")
        return
    length_s = index.duration_s
    parts: list[tuple[float | None, float | None]] = [(None, None)]
    parts += [(length_s * 0.2, length_s * 0.5), (length_s * 0.45, length_s * 0.9)]
    parts += [(0.0, length_s * 0.3)]
    for start_s, end_s in parts:
        count = index.frames if start_s is None else 7
        where = f"{case} {start_s or 0:.3f}-{end_s or length_s:.3f}"
        part: Any = {"start_s": start_s, "end_s": end_s, "indexes": indexes}
        try:
            (clip,) = decode_views(path, [PictureView(count)], **part).values()
        except BadVideo as error:
            tally.refused[error.reason] += 1
            if is_intact:
                tally.wrong.append(f"{where}: an intact file is refused: {error}")
            continue
        numbers = read_numbers(clip.pictures)
        marked = clip.substituted.tolist()
        tally.n_marked += sum(marked)
        if is_intact and any(marked):
            tally.wrong.append(f"{where}: {sum(marked)} of an intact file are marked")
        for row, number in enumerate(numbers):
            if marked[row]:
                continue
            # In a damaged film without times, what is lost is not always counted.
            rank = None if clip.damaged else int(clip.index[row])
            time_s = float(clip.time_s[row]) if index.timed else None
            problem = _problem(truth, number, rank, time_s)
            if problem:
                tally.wrong.append(f"{where}: row {row}: {problem}")
            else:
                tally.n_right += 1
        if not any(marked) and not clip.damaged:
            expected = _expected(truth, index.timed, start_s, end_s, count)
            if expected is not None and expected != numbers:
                tally.wrong.append(f"{where}: expected {expected}, got {numbers}")


def _problem(truth: Shown, number: int, rank: int | None, time_s: float | None) -> str:
    """Return how a picture differs from what another program shows; empty if it does not.

    It has a time, or else a rank.
    """
    if number < 0:
        return "a picture that cannot be read"
    if number not in truth.numbers:
        return f"picture {number} is shown by no other program"
    places = [at for at, other in enumerate(truth.numbers) if other == number]
    if time_s is not None and truth.has_times:
        times = [truth.times_s[at] for at in places]
        if not any(abs(time_s - time) < 2e-3 for time in times if time is not None):
            return f"picture {number} is said to be at {time_s:.3f}, is at {times}"
    if time_s is None and rank is not None and rank not in places:
        return f"picture {number} has rank {rank}, is {places}"
    return ""


def _expected(
    truth: Shown, timed: bool, start_s: float | None, end_s: float | None, count: int
) -> list[int] | None:
    """Return the numbers that the rule asks for; None if times are not reliable."""
    inside = truth.numbers
    if start_s is None:
        return [inside[i * len(inside) // count] for i in range(count)]
    if not timed or not truth.has_times or end_s is None:
        return None
    inside = [
        number
        for number, time in zip(truth.numbers, truth.times_s, strict=True)
        if time is not None and start_s - 1e-6 <= time < end_s - 1e-6
    ]
    if not inside:
        return None
    return [inside[i * len(inside) // count] for i in range(count)]

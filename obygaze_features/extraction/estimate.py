"""Estimate what a plan needs, and find what is missing, before anything runs."""

import math
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from obygaze_features.backbones.base import Backbone, Card
from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.hub import find_weights
from obygaze_features.core.console import count, few, human, table
from obygaze_features.core.errors import FixUsage, InstallExtra, NotFound, ObygazeError
from obygaze_features.core.machine import duration, time_runs, usable_cores
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.decoding import (
    Jobs,
    KeptPictures,
    decode_rows,
    find_kept_pictures,
)
from obygaze_features.extraction.plan import ExtractPlan, Target
from obygaze_features.extraction.recipes import chosen_arrays, load_target, view_of
from obygaze_features.extraction.run import Resources
from obygaze_features.extraction.shared_machine import has_cuda, idle_gpus
from obygaze_features.extraction.status import (
    levels_to_extract,
    new_clips,
    words_of_new_clips,
    words_of_new_levels,
)
from obygaze_features.store.format.records import Plan, Seal
from obygaze_features.store.format.schema import RowStatus
from obygaze_features.store.read.reader import open_store
from obygaze_features.store.write.create import BLOCK_ROWS
from obygaze_features.store.write.growth import DRAFT_OF_LEVELS
from obygaze_features.video.decoded_clip import View
from obygaze_features.video.film import kept_end_s
from obygaze_features.video.index import overshoot
from obygaze_features.video.pool import DecodePool

N_PROBED = 3
# The states of weights that cannot be loaded.
UNAVAILABLE = ("not cached", "not found", "unusable")
# The pictures of a clip if none could be decoded: 32 of 224 x 224.
TYPICAL_CLIP_BYTES = 32 * 224 * 224 * 3
# A process that decodes 1920 x 1080.
DECODER_BYTES = 150_000_000
# The weights of a typical model, in single precision.
TYPICAL_WEIGHT_BYTES = 4 * 200_000_000
# The memory of Python and its libraries.
FLOOR_BYTES = 150_000_000
FLOOR_WITH_TORCH_BYTES = 700_000_000


@dataclass(frozen=True)
class StoreEstimate:
    """The size and progress of one store of a plan, and the status of its backbone's weights.

    `forward_s` is the time to prepare and compute one clip, None if it was not measured, and
    `activation_bytes` the memory of computing it. `disk` is the number of the disk that the store
    is on, and `disk_free_bytes` what is free there. `new_clips` are clips of the plan that a sealed
    store does not have, `new_levels` such arrays, and `share_of_new` is the share of the plan's
    clips that are still to be extracted for it, None for a store that is not sealed. `withdrawn`
    tells of withdrawn clips.
    """

    store: str
    backbone: str
    arrays: Mapping[str, int]
    blocks: int
    blocks_done: int
    files: int
    n_bytes: int
    gflop_a_clip: float
    weights: str
    weight_bytes: int = 0
    activation_bytes: int = 0
    why: str = ""
    forward_s: float | None = None
    disk: int = 0
    disk_free_bytes: int = 0
    new_clips: int = 0
    new_levels: tuple[str, ...] = ()
    withdrawn: str = ""
    share_of_new: float | None = None

    @property
    def share_left(self) -> float:
        """Return the share of clips that a sealed store lacks, else of blocks to be committed."""
        if self.share_of_new is not None:
            return self.share_of_new
        return 1 - self.blocks_done / self.blocks


@dataclass(frozen=True)
class CostEstimate:
    """What a plan needs; `decode_s` is the time of a few clips, None if none could be decoded.

    `free_bytes` is what is free on the disk of a store; of several disks, on the fullest one.
    """

    clips: int
    with_video: int
    not_found: Sequence[str]
    stores: Sequence[StoreEstimate]
    decode_s: float | None
    unreadable: Mapping[str, str]
    peak_bytes: int
    free_bytes: int
    workers: int
    device: str = "cpu"
    idle_gpus: Sequence[str] = ()
    without_torch: Sequence[str] = ()
    too_long: Mapping[str, str] = field(default_factory=dict)
    untried_device: str = ""

    def hours(self) -> dict[str, float | None]:
        """Return the hours to decode, to compute and in all, of what is left; None if unknown.

        A GPU computes while the cores decode; without one, both use the same cores. Several GPUs
        share the clips; several processes of a CPU also share its cores.
        """
        unfinished = [store for store in self.stores if store.share_left]
        decode = forward = together = None
        if self.decode_s is not None:
            share = max((store.share_left for store in unfinished), default=0.0)
            decode = self.decode_s * self.with_video * share / self.workers / 3600
        if all(store.forward_s is not None for store in unfinished):
            seconds_a_clip = sum(
                (store.forward_s or 0) * store.share_left for store in unfinished
            )
            n_gpus = self.device.count("cuda") or 1
            forward = seconds_a_clip * self.with_video / 3600 / n_gpus
        if decode is not None and forward is not None:
            at_the_same_time = "cuda" in self.device
            slower = max(decode, forward)
            together = slower if at_the_same_time else decode + forward
        return {"decode_hours": decode, "forward_hours": forward, "hours": together}

    @property
    def obstacles(self) -> list[str]:
        """Return a message for each thing that would fail or stay missing."""
        messages = []
        if self.not_found:
            names = few(self.not_found)
            messages.append(
                f"{len(self.not_found)} videos of the manifest are missing: {names}"
            )
        for name, why in self.unreadable.items():
            messages.append(f"{name} cannot be decoded: {why}")
        if self.too_long:
            first, why = next(iter(self.too_long.items()))
            n_clips = count(len(self.too_long), "clip")
            messages.append(
                f"{n_clips} of the films tried here end too long after their film"
                f" (times are in seconds), such as {first}: {why}"
            )
        if self.with_video < self.clips:
            n_without = self.clips - self.with_video
            messages.append(f"{n_without} clips have no video: their rows stay missing")
        messages += self._full_disks()
        for store in self.stores:
            if store.weights in UNAVAILABLE or store.why:
                messages.append(_weights_message(store))
        if self.without_torch:
            install = 'torch is not installed here: pip install "obygaze[extract]"'
            messages.append(f"{few(self.without_torch)}: {install}")
        return messages

    def _full_disks(self) -> list[str]:
        """Return a message for each disk that has not enough space for its stores."""
        stores_of_disk: dict[int, list[StoreEstimate]] = {}
        for store in self.stores:
            stores_of_disk.setdefault(store.disk, []).append(store)
        messages = []
        for stores in stores_of_disk.values():
            needed = sum(store.n_bytes * store.share_left for store in stores)
            free = stores[0].disk_free_bytes
            if needed > free:
                names = few([Path(store.store).name for store in stores])
                messages.append(
                    f"{human(needed)} of disk needed, {human(free)} free: {names}"
                )
        return messages

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as one JSON document."""
        return {**asdict(self), **self.hours(), "obstacles": self.obstacles}

    def __str__(self) -> str:
        pace = "no clip was decoded to measure the time"
        hours = self.hours()
        if self.decode_s is not None:
            pace = (
                f"decoding takes about {self.decode_s:.2f} s a clip,"
                f" {duration_of_hours(hours['decode_hours'])} with {self.workers} workers"
            )
        if hours["hours"] is not None:
            pace += (
                f"; about {duration_of_hours(hours['hours'])} in all on {self.device}"
            )
        rows = [_cells(store) for store in self.stores]
        names = "store backbone arrays blocks done files size"
        headers = (*names.split(), "GFLOP a clip", "forward a clip", "weights")
        lines = [
            f"{self.clips} clips, {self.with_video} with video; {pace}",
            f"peak memory about {human(self.peak_bytes)}, {human(self.free_bytes)} disk free",
            "",
            table(headers, rows),
        ]
        lines += [f"  ! {message}" for message in self.obstacles]
        for store in self.stores:
            if store.new_clips:
                words = words_of_new_clips(
                    store.store, store.new_clips, are_extracted=not store.share_left
                )
                lines.append(f"  {words}")
            if store.new_levels:
                lines.append(f"  {words_of_new_levels(store.store, store.new_levels)}")
            if store.withdrawn:
                lines.append(f"  {store.withdrawn}")
        if self.untried_device:
            lines.append(
                f"  {self.untried_device} could not be tried here: this machine has no CUDA device"
            )
        for device in self.idle_gpus:
            lines.append(f"  {device} is idle: use --device {device}")
        return "\n".join(lines)


def duration_of_hours(hours: float | None) -> str:
    """Return hours as `40 s`, `12 min` or `2.5 hours`."""
    seconds = (hours or 0.0) * 3600
    if seconds < 60:
        return f"{max(1, math.ceil(seconds))} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.3g} hours"


def _weights_message(store: StoreEstimate) -> str:
    """Return why the weights of a store's backbone cannot be used."""
    message = f"{store.backbone}: weights {store.weights}"
    if store.why:
        return f"{message}: {store.why}"
    if store.weights == "not cached":
        return f"{message}; obygaze backbones fetch {store.backbone}"
    return message


def _cells(store: StoreEstimate) -> tuple[object, ...]:
    """Return the row of a store in the table of the estimate."""
    gflop = f"{store.gflop_a_clip:.3g}" if store.gflop_a_clip else None
    forward = None if store.forward_s is None else duration(store.forward_s)
    return (
        Path(store.store).name,
        store.backbone,
        " ".join(store.arrays),
        store.blocks,
        store.blocks_done,
        store.files,
        human(store.n_bytes),
        gflop,
        forward,
        store.weights,
    )


def estimate(
    plan: ExtractPlan,
    shares: Sequence[Resources],
    *,
    n_probed: int = N_PROBED,
    timed: bool = True,
) -> CostEstimate:
    """Estimate what a plan needs; decodes a few clips, writes nothing.

    Args:
        plan: The plan.
        shares: What each process of the run may use; one for each device.
        n_probed: Clips to decode, to measure the time.
        timed: Also measure a forward pass of each backbone whose weights are on this machine.
    """
    workspace = Workspace(Path(plan.workspace))
    device = shares[0].device
    cards = [find_card(target.backbone, workspace) for target in plan.targets]
    stores = []
    views = []
    for target, card in zip(plan.targets, cards, strict=True):
        weights = _weights_of(target, card)
        stores.append(_store(plan, target, weights))
        views.append(view_of(weights.card, target))
    rows_with_video = [row for row, clip in enumerate(plan.rows) if clip.video]
    kept_pictures = find_kept_pictures(plan, rows_with_video, views, changed=True)
    readable = _readable_rows(plan, rows_with_video, views, kept_pictures)
    missing = [row for row in rows_with_video if row not in readable]
    probed = spread_over_films(plan, sorted(readable), n_probed)
    jobs = [(row, tuple(dict.fromkeys(views))) for row in probed]
    # A plan may be made on a machine without the GPU that it is for.
    is_untried = device != "cpu" and not has_cuda()
    seconds, unreadable, clip_bytes = _probe(plan, jobs, kept_pictures)
    too_long = _too_long(plan, probed)
    if timed and not is_untried:
        stores = [
            _timed(store, target, workspace, shares[0])
            for store, target in zip(stores, plan.targets, strict=True)
        ]
    unused_gpus: Sequence[str] = ()
    if device == "cpu" and any(store.weight_bytes for store in stores):
        unused_gpus = idle_gpus()
    without_torch: Sequence[str] = ()
    if not find_spec("torch"):
        without_torch = [card.label for card in cards if card.family.needs_torch]
    peaks = [_peak_bytes(plan, stores, clip_bytes, share) for share in shares]
    return CostEstimate(
        clips=len(plan.rows),
        with_video=len(rows_with_video),
        not_found=[plan.rows[row].clip_id for row in missing],
        stores=stores,
        decode_s=seconds,
        unreadable=unreadable,
        peak_bytes=sum(peaks),
        free_bytes=min(store.disk_free_bytes for store in stores),
        workers=sum(share.workers for share in shares),
        device=",".join(share.device for share in shares),
        idle_gpus=unused_gpus,
        without_torch=without_torch,
        too_long=too_long,
        untried_device=device if is_untried else "",
    )


def _readable_rows(
    plan: ExtractPlan,
    rows_with_video: Sequence[int],
    views: Sequence[View],
    kept_pictures: Mapping[View, KeptPictures],
) -> set[int]:
    """Return the rows whose pictures are kept for all views, or whose video exists."""
    # Each file is checked once: a million checks take long on a network disk.
    rows_kept = [
        kept_pictures[view].rows if view in kept_pictures else frozenset()
        for view in views
    ]
    readable = set(frozenset.intersection(*rows_kept))
    for row in rows_with_video:
        if Path(plan.rows[row].video).is_file():
            readable.add(row)
    return readable


def spread_over_films(plan: ExtractPlan, rows: Sequence[int], n_rows: int) -> list[int]:
    """Return some of the rows of a plan, of each film one before a second one of any film."""
    rows_of_film: dict[str, list[int]] = {}
    for row in rows:
        rows_of_film.setdefault(plan.rows[row].movie_id, []).append(row)
    if not rows_of_film or n_rows < 1:
        return []
    films = list(rows_of_film.values())
    step = max(1, len(films) // n_rows)
    chosen_films = films[::step][:n_rows]
    n_of_film = math.ceil(n_rows / len(chosen_films))
    spread = []
    for rows_of_one in chosen_films:
        step = max(1, len(rows_of_one) // n_of_film)
        first = rows_of_one[::step]
        others = sorted(set(rows_of_one).difference(first))
        spread.append(first + others)
    chosen: list[int] = []
    for turn in range(max(map(len, spread))):
        chosen += [ordered[turn] for ordered in spread if turn < len(ordered)]
        if len(chosen) >= n_rows:
            break
    return sorted(chosen[:n_rows])


def _too_long(plan: ExtractPlan, probed: Sequence[int]) -> dict[str, str]:
    """Return the clips that end too long after their film, of the films of probed rows.

    The length of a film is known there if it holds several clips, since its index is kept.
    """
    indexes = Workspace(Path(plan.workspace)).folder("indexes")
    videos = {plan.rows[row].video for row in probed} & plan.shared_films
    end_of_film = {
        video: kept_end_s(Path(video), indexes)
        for video in sorted(videos)
        if Path(video).is_file()
    }
    reasons = dict[str, str]()
    for clip in plan.rows:
        film_end_s = end_of_film.get(clip.video)
        if film_end_s is None:
            continue
        reason = overshoot(film_end_s, clip.start_s, clip.end_s)
        if reason is not None:
            reasons[clip.clip_id] = reason
    return reasons


def _timed(
    store: StoreEstimate, target: Target, workspace: Workspace, share: Resources
) -> StoreEstimate:
    """Return the estimate of a store with the time of a clip, or the reason why there is none."""
    if store.weights in UNAVAILABLE or not store.share_left:
        return store
    try:
        model = load_target(target, workspace, share.device)
        batch = _batch(share, model.activation_bytes)
        forward = forward_runs(model, [batch], rounds=1)[-1]
    except FixUsage:
        raise
    except ObygazeError as error:
        why = "; ".join([error.message, *map(str.strip, error.details)])
        return replace(store, why=store.why or why)
    return replace(store, forward_s=forward["median_s"] / batch)


def _batch(share: Resources, clip_bytes: int) -> int:
    """Return the clips computed at once; a GPU, which may be of another machine, has the memory."""
    return share.batch_of(clip_bytes, None if share.device == "cpu" else sys.maxsize)


@dataclass(frozen=True)
class _Weights:
    """The weights of a backbone: their status, their size, and the card with their sizes."""

    card: Card
    status: str
    n_bytes: int = 0
    why: str = ""


def _weights_of(target: Target, card: Card) -> _Weights:
    """Return the status of the weights of a target; these are read if they are here."""
    if not card.family.needs_weights:
        return _Weights(card, "none needed")
    is_local = target.weights is not None
    n_bytes = 0
    try:
        files = find_weights(card, target.weights)
        n_bytes = files.n_bytes
        # Without the library the checkpoint cannot be read: use the sizes of the card.
        with suppress(InstallExtra):
            if is_local:
                card = card.family.inspect(card, files)
    except NotFound:
        status = "not found" if is_local else "not cached"
        return _Weights(card, status, n_bytes)
    except ObygazeError as error:
        why = "; ".join([f"{error.message} ({error.where})", *error.details])
        return _Weights(card, "unusable", n_bytes, why)
    return _Weights(card, "local" if is_local else "cached", n_bytes)


def _store(plan: ExtractPlan, target: Target, weights: _Weights) -> StoreEstimate:
    """Return the estimate of a store."""
    card = weights.card
    weight_bytes = weights.n_bytes
    if card.family.needs_torch and not weight_bytes:
        weight_bytes = TYPICAL_WEIGHT_BYTES
    block_rows = min(target.block_rows or BLOCK_ROWS, len(plan.rows))
    blocks = -(-len(plan.rows) // block_rows)
    chosen = chosen_arrays(card, target.arrays)
    folder = Path(target.store)
    arrays = {name: array.n_bytes for name, array in chosen.items()}
    blocks_done = sum(1 for _ in (folder / "commits").glob("block-*.json"))
    n_new = 0
    new_levels: tuple[str, ...] = ()
    share_of_new = None
    if (folder / Seal.FILE).exists():
        sealed_store = open_store(folder)
        sealed_plan = sealed_store.plan
        block_rows = min(sealed_plan.block_rows, len(plan.rows))
        blocks = blocks_done = sealed_plan.n_blocks
        share_of_new = 0.0
        new = new_clips(plan, target.store)
        if new is not None:
            n_new = new.clips
            blocks += new.blocks
            blocks_done += new.blocks_done
            share_of_work_left = 1 - new.blocks_done / new.blocks
            share_of_new = share_of_work_left * n_new / len(plan.rows)
        new_levels = levels_to_extract(target, sealed_store)
        if new_levels:
            n_done = _levels_done(folder / DRAFT_OF_LEVELS)
            n_with_features = sealed_store.status().counts.get("ok", 0)
            blocks_of_levels = max(1, -(-n_with_features // block_rows))
            blocks += blocks_of_levels
            blocks_done += n_done
            share_of_clips = n_with_features / len(plan.rows)
            share_of_new += max(0.0, 1 - n_done / blocks_of_levels) * share_of_clips
    has_mask = card.family.takes_mask
    # The two times of each frame, and whether it is real.
    times = (2 * 8 + has_mask) * card.geometry.frames
    on_disk = folder
    while not on_disk.exists():
        on_disk = on_disk.parent
    return StoreEstimate(
        store=target.store,
        backbone=card.label,
        arrays=arrays,
        blocks=blocks,
        blocks_done=blocks_done,
        # Each block has a file for each array, two for the times, and a marker.
        files=blocks * (len(arrays) + has_mask + 3) + len(arrays) + has_mask + 10,
        # The last block takes the space of a full one.
        n_bytes=blocks * block_rows * (sum(arrays.values()) + times),
        gflop_a_clip=card.gflop,
        weights=weights.status,
        weight_bytes=weight_bytes,
        activation_bytes=card.family.activation_bytes(
            card.geometry, target.dtype, card.input.attention
        ),
        why=weights.why,
        disk=on_disk.stat().st_dev,
        disk_free_bytes=shutil.disk_usage(on_disk).free,
        new_clips=n_new,
        new_levels=new_levels,
        withdrawn=withdrawn_note(plan, target, card),
        share_of_new=share_of_new,
    )


def _levels_done(draft: Path) -> int:
    """Return the number of blocks that are extracted of further levels of a sealed store."""
    return sum(1 for _ in (draft / "commits").glob("block-*.json"))


def withdrawn_note(plan: ExtractPlan, target: Target, card: Card) -> str:
    """Return that clips were withdrawn from this store, or from others of the same backbone.

    The clips of a store that exists stay withdrawn; a new store would have them again.
    """
    if (Path(target.store) / Plan.FILE).is_file():
        n_withdrawn = open_store(target.store).status().counts.get("withdrawn", 0)
        if not n_withdrawn:
            return ""
        clips = count(n_withdrawn, "clip")
        stay = "stays" if n_withdrawn == 1 else "stay"
        return f"{clips} withdrawn from {Path(target.store).name} {stay} withdrawn"
    workspace = Workspace(Path(plan.workspace))
    names_of_clip: dict[str, list[str]] = {}
    for name in workspace.names("stores"):
        # A store that cannot be read is an error where it is used.
        with suppress(ObygazeError):
            for clip in _withdrawn_clips(workspace.existing_store(name), card):
                names_of_clip.setdefault(clip, []).append(name)
    planned = [clip for clip, _ in plan.ids() if clip in names_of_clip]
    if not planned:
        return ""
    names = sorted({name for clip in planned for name in names_of_clip[clip]})
    verb = "was" if len(planned) == 1 else "were"
    return (
        f"{count(len(planned), 'clip')} ({few(planned)}) {verb} withdrawn from {few(names)},"
        f" and would be extracted again into the new store {Path(target.store).name}"
    )


def _withdrawn_clips(location: str, card: Card) -> list[str]:
    """Return the clips that were withdrawn from a store, if it is of this backbone."""
    store = open_store(location)
    if store.recipe.title != card.name:
        return []
    return [
        str(store.clip_ids[row])
        for row, status in store.status().status_of_row.items()
        if status.is_withdrawn
    ]


def _probe(
    plan: ExtractPlan,
    jobs: Jobs,
    kept_pictures: Mapping[View, KeptPictures],
) -> tuple[float | None, dict[str, str], int]:
    """Decode a few clips; return seconds a clip, reasons of failures, and bytes of frames."""
    seconds: list[float] = []
    sizes: list[int] = []
    unreadable: dict[str, str] = {}
    with DecodePool(1, timeout_s=plan.timeout_s) as pool:
        for decoded in decode_rows(
            plan, jobs, pool, ahead=1, kept_pictures=kept_pictures
        ):
            failures: list[RowStatus] = []
            # Views may share their pictures.
            sizes_of_pictures: dict[int, int] = {}
            for clip in decoded.clips.values():
                if isinstance(clip, RowStatus):
                    failures.append(clip)
                else:
                    sizes_of_pictures[id(clip.shared_pictures)] = (
                        clip.shared_pictures.nbytes
                    )
            if failures:
                unreadable[plan.rows[decoded.row].clip_id] = failures[0].message
                continue
            seconds.append(decoded.seconds)
            sizes.append(sum(sizes_of_pictures.values()))
    mean = sum(seconds) / len(seconds) if seconds else None
    return mean, unreadable, max(sizes, default=TYPICAL_CLIP_BYTES)


def _peak_bytes(
    plan: ExtractPlan,
    stores: Sequence[StoreEstimate],
    clip_bytes: int,
    share: Resources,
) -> int:
    """Return the peak memory: decoders, pictures, clips on the CPU, two blocks a store, weights.

    The backbones of a run on the CPU share its threads.
    """
    batches = [_batch(share, store.activation_bytes) for store in stores]
    # Each backbone holds the frames of a batch that waits, and of two on their way to a GPU.
    n_clips_waiting = share.ahead(batches) + 1 + 3 * sum(batches)
    n_bytes = n_clips_waiting * clip_bytes
    n_bytes += share.workers * DECODER_BYTES
    if share.device == "cpu":
        n_bytes += max(
            batch * store.activation_bytes
            for batch, store in zip(batches, stores, strict=True)
        )
    for target, store in zip(plan.targets, stores, strict=True):
        block_rows = target.block_rows or BLOCK_ROWS
        n_bytes += 2 * block_rows * sum(store.arrays.values())
    weights = sum(store.weight_bytes for store in stores)
    floor = FLOOR_WITH_TORCH_BYTES if weights else FLOOR_BYTES
    return floor + n_bytes + weights


def forward_runs(
    model: Backbone, batches: Sequence[int], rounds: int = 3
) -> list[dict[str, Any]]:
    """Return the times to prepare random frames of one clip, and to compute clips at once.

    The decoder has resized the frames. On a CPU, the clips of a batch are computed in threads, one
    a core.
    """
    import numpy as np

    from obygaze_features.extraction.compute import (
        clip_of_levels,
        clip_threads,
        computer_for,
    )
    from obygaze_features.extraction.recipes import arrays_of, chosen_arrays

    random = np.random.default_rng(0)
    clip = clip_of_levels(
        model, lambda shape, dtype: random.integers(0, 256, shape, dtype)
    )
    resized = clip.shared_pictures
    prepare = partial(model.normalise, resized)
    measurements = [_measure("prepare frames", prepare, 1, resized.nbytes, rounds)]
    specs = [
        spec
        for spec in arrays_of(model, chosen_arrays(model, ()))
        if spec.is_feature_array
    ]
    with clip_threads(usable_cores()) as pool:
        computer = computer_for(model, specs, pool)
        for batch in batches:
            work = partial(computer.compute_all, [clip] * batch)
            name = f"forward, batch {batch}"
            measurements.append(_measure(name, work, batch, rounds=rounds))
    return measurements


def _measure(
    name: str,
    work: Callable[[], object],
    n_clips: int,
    n_bytes: int | None = None,
    rounds: int = 3,
) -> dict[str, Any]:
    runs = time_runs(work, rounds, max_s=30.0)
    median_s = max(runs.median_s, 1e-6)
    return {
        "name": name,
        "runs": runs._asdict(),
        "n_clips": n_clips,
        "n_bytes": n_bytes,
        "median_s": runs.median_s,
        "median_cpu_s": runs.median_cpu_s,
        "clips_per_s": n_clips / median_s,
        "bytes_per_s": None if n_bytes is None else n_bytes / median_s,
    }

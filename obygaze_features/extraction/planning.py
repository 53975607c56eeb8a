"""Choose what to extract, and estimate what it costs.

Nothing here is slow to import: a run catches signals before it imports what computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from obygaze_features.core.commands import named_values
from obygaze_features.core.console import silent
from obygaze_features.core.errors import FixUsage, Mismatch, NotFound
from obygaze_features.core.machine import MAX_WORKERS, usable_cores
from obygaze_features.core.options import ADVANCED, Option
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.extraction.plan import (
    ExtractPlan,
    Target,
    make_plan,
    read_plan_file,
    write_plan,
)
from obygaze_features.manifest.io import read_manifest
from obygaze_features.manifest.model import Manifest

if TYPE_CHECKING:
    from obygaze_features.extraction.estimate import CostEstimate
    from obygaze_features.extraction.run import Resources

FEATURES = "Features"
MACHINE = "Machine"

# The parameters of everything that extracts. None is what was not given: a plan that was read from
# a file has its own settings, and none of them may be given again.
Source: TypeAlias = PathLike | Manifest | ExtractPlan
Backbones: TypeAlias = Annotated[
    str | Sequence[str],
    Option("-b --backbone", metavar="NAME", group=FEATURES, is_repeated=True),
]
Arrays: TypeAlias = Annotated[
    Sequence[str], Option(metavar="A,B", separator=",", group=FEATURES)
]
Weights: TypeAlias = Annotated[
    Sequence[str] | Mapping[str, PathLike],
    Option(metavar="[NAME=]PATH", group=FEATURES, is_repeated=True),
]
Stores: TypeAlias = Annotated[
    Mapping[str, PathLike] | None,
    Option("--store", metavar="NAME=STORE", group=FEATURES),
]
Precision: TypeAlias = Annotated[
    Literal["float32", "bfloat16", "float16"] | None,
    Option(group=ADVANCED, shown_default="float32"),
]
BlockClips: TypeAlias = Annotated[int | None, Option(least=1, group=ADVANCED)]
Terms: TypeAlias = Annotated[str, Option(group=ADVANCED)]
Timeout: TypeAlias = Annotated[
    float | None, Option(group=ADVANCED, shown_default="300.0")
]
Device: TypeAlias = Annotated[str, Option(group=MACHINE)]
PlanDevice: TypeAlias = Annotated[
    str | None,
    Option("--device", group=MACHINE, shown_default="that of the plan, or cpu"),
]
Workers: TypeAlias = Annotated[
    int | None,
    Option(least=1, most=MAX_WORKERS, group=MACHINE, shown_default="(cores)"),
]
Batch: TypeAlias = Annotated[int | None, Option(least=1, group=MACHINE)]


# Which of them are settings of each target, and the names of the others in a plan.
_OF_TARGETS = {
    "dtype": "dtype",
    "block_clips": "block_rows",
}
_OF_PLAN = {
    "timeout": "timeout_s",
    "licence": "licence",
}


def chosen_plan(
    manifest: Source,
    backbones: str | Sequence[str] = (),
    *,
    workspace: PathLike | None = None,
    **settings: Any,
) -> ExtractPlan:
    """Return a plan as it is or from its file, or that of a manifest, backbones and settings.

    Args:
        manifest: The clips, or the plan.
        backbones: The names of backbones.
        workspace: The workspace, if it is not the current one.
        settings: Those of `plan_extraction` about features.
    """
    names = [backbones] if isinstance(backbones, str) else list(backbones)
    given_settings = {"backbones": names, **settings}
    given_settings = {
        name: value for name, value in given_settings.items() if is_given(value)
    }
    if isinstance(manifest, ExtractPlan):
        plan = manifest
        path = "PLAN"
    elif not isinstance(manifest, Manifest) and fspath(manifest).endswith(".json"):
        plan = read_plan_of(Path(manifest), workspace)
        path = fspath(manifest)
    else:
        return _new_plan(manifest, given_settings, Workspace.of(workspace))
    for target in plan.targets:
        _refuse_other_code(plan, target, path)
    return _with_timeout(plan, given_settings, path)


def read_plan_of(path: Path, workspace: PathLike | None = None) -> ExtractPlan:
    """Return the plan in a file; an error if it belongs to another workspace or to a missing one.

    The paths of a plan are absolute, so that workers may start in any folder: in a workspace that
    was moved or copied, it would extract into the old one.
    """
    plan = read_plan_file(path)
    folder = Path(plan.workspace)
    chosen = Workspace.of(workspace).root
    again = _again(plan, str(path))
    if not folder.is_dir():
        raise NotFound(
            f"the workspace of the plan does not exist: {folder}",
            where=str(path),
            hint=f"if it was moved, write the plan again there: obygaze {again}",
        )
    is_typed = chosen != Path()
    if is_typed and folder.is_absolute() and folder.resolve() != chosen.resolve():
        raise FixUsage(
            f"the plan is of the workspace {folder}, not of {chosen}",
            where=str(path),
            hint=f"write a plan for the other one: obygaze -C {chosen} {again}",
        )
    return plan


def _again(plan: ExtractPlan, path: str) -> str:
    """Return the command that writes a plan again."""
    return f"extract plan {plan.manifest} -b BACKBONE -o {path} --force"


def _refuse_other_code(plan: ExtractPlan, target: Target, path: str) -> None:
    """Raise an error unless a backbone of one's own has the code that it had in the plan."""
    from obygaze_features.extraction.recipes import version_of_code

    code = version_of_code(target.backbone)
    if code != target.code:
        raise Mismatch(
            f"the code of the backbone {target.backbone} is not the code of the plan:"
            f" {target.code or 'none'} in the plan, {code or 'none'} now",
            where=path,
            hint=f"read the code, then write the plan again: obygaze {_again(plan, path)}",
        )


def is_given(value: Any) -> bool:
    """Return whether a setting was given: None, False and what is empty were not."""
    if isinstance(value, bool | str | Sequence | Mapping):
        return bool(value)
    return value is not None


def _with_timeout(
    plan: ExtractPlan, given_settings: Mapping[str, Any], path: str
) -> ExtractPlan:
    """Return a plan with the given time limit, in which alone machines may differ."""
    fixed = [name for name in given_settings if name != "timeout"]
    if fixed:
        from obygaze_features.core.function_commands import flags_of

        flags = flags_of(plan_extraction)
        names = ", ".join(flags.get(name, f"--{name}") for name in fixed)
        raise FixUsage(
            f"{names} cannot be used with a plan file, which has its own settings",
            hint=f"write a new plan: obygaze extract plan MANIFEST ... -o {path}",
        )
    return (
        replace(plan, timeout_s=given_settings["timeout"]) if given_settings else plan
    )


def _new_plan(
    manifest: PathLike | Manifest,
    given_settings: Mapping[str, Any],
    workspace: Workspace,
) -> ExtractPlan:
    """Return the plan of a manifest and settings."""
    from obygaze_features.extraction.recipes import targets_for

    clips = read_manifest(manifest, workspace=workspace)
    backbones = given_settings.get("backbones", [])
    stores = given_settings.get("stores", {})
    of_targets = {
        _OF_TARGETS[name]: given_settings[name]
        for name in _OF_TARGETS
        if name in given_settings
    }
    of_plan = {
        _OF_PLAN[name]: given_settings[name]
        for name in _OF_PLAN
        if name in given_settings
    }
    targets = targets_for(
        clips,
        backbones,
        workspace,
        stores={name: fspath(store) for name, store in stores.items()},
        weights=_weights_by_name(given_settings.get("weights", {}), backbones),
        arrays=tuple(given_settings.get("arrays", ())),
        **of_targets,
    )
    return make_plan(clips, targets, workspace=workspace.root, **of_plan)


def _weights_by_name(
    weights: Mapping[str, PathLike] | Sequence[str], backbones: Sequence[str]
) -> dict[str, str]:
    """Return the weights by the names of backbones; of a single one, PATH alone is enough."""
    if isinstance(weights, Mapping):
        return {name: fspath(path) for name, path in weights.items()}
    words = [weights] if isinstance(weights, str) else list(weights)
    if len(backbones) == len(words) == 1:
        (name,) = backbones
        (word,) = words
        is_path = "=" not in word or Path(word).exists()
        if is_path and not word.startswith(f"{name}="):
            return {name: word}
    return named_values(words, "--weights")


def resources_of(workers: int | None, batch: int | None) -> Resources:
    """Return what may be used of this machine; by default all its cores."""
    from obygaze_features.extraction.run import Resources

    return Resources(workers=workers or usable_cores(), batch=batch)


def plan_extraction(
    manifest: Source,
    backbones: Backbones = (),
    *,
    arrays: Arrays = (),
    weights: Weights = (),
    stores: Stores = None,
    dtype: Precision = None,
    block_clips: BlockClips = None,
    timeout: Timeout = None,
    device: PlanDevice = None,
    workers: Workers = None,
    batch: Batch = None,
    probe: Annotated[int, Option(least=0)] = 3,
    out: Annotated[PathLike | None, Option("-o --output", metavar="PATH")] = None,
    force: bool = False,
    note: Callable[[str], object] = silent,
    workspace: PathLike | None = None,
) -> CostEstimate:
    """Estimate the cost of a run, and what is missing.

    A few clips are decoded, and one forward pass of each backbone is timed on --device if its
    weights are here. MANIFEST is a manifest's name, or the file of a plan. Nothing is written but
    the plan itself, with -o: its runs use the same device, unless they are given another.

    Args:
        manifest: The clips, linked to their videos (`obygaze manifest link`), or a plan.
        backbones: A backbone, or your own code (FILE.py:NAME).
        arrays: The arrays to store. [default: all but tokens]
        weights: File or folder of weights.
        stores: Store of a backbone. [default: MANIFEST.NAME]
        dtype: Compute in this precision.
        block_clips: Clips of a block, a power of two. [default: 64; tokens 16, windows 256]
        timeout: Seconds to decode one clip.
        device: cpu, cuda, several (cuda:0,cuda:1), or cuda:all.
        workers: Processes that decode or read.
        batch: Clips computed at once. [default: as many as fit]
        probe: Decode this many clips, and time each backbone; 0 times nothing.
        out: Write the plan to a file, for workers.
        force: Replace the output if it exists.
        note: Is called with the path of the plan.
        workspace: The workspace, if it is not the current one.

    Commands:
        obygaze extract plan obygaze12 -b xclip-b16-k600-zs -b vivit-b16x2-k400
        obygaze extract plan obygaze12 -b clip-b16 --arrays clip,pooled,tokens --json
        obygaze extract plan obygaze12 -b clip-b16 --device cuda:all -o plan.json
    """
    from obygaze_features.extraction.devices import devices_of
    from obygaze_features.extraction.estimate import estimate

    plan = chosen_plan(
        manifest,
        backbones,
        arrays=arrays,
        weights=weights,
        stores=stores,
        dtype=dtype,
        block_clips=block_clips,
        timeout=timeout,
        workspace=workspace,
    )
    plan = replace(plan, device=device or plan.device)
    shares = resources_of(workers, batch).shared_by(devices_of(plan.device))
    cost = estimate(plan, shares, n_probed=probe, timed=probe > 0)
    if out is not None:
        write_plan(plan, Path(out), force=force)
        note(f"wrote {out}")
    return cost

"""`obygaze bundle`: what a machine without a network needs to run a plan, in one folder."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import click

from obygaze_features import __version__
from obygaze_features.backbones.base import Card
from obygaze_features.backbones.cards import FRAMES, find_card
from obygaze_features.backbones.hub import find_weights, repository_folder
from obygaze_features.core.commands import Session, command
from obygaze_features.core.console import count
from obygaze_features.core.drafts import draft_beside
from obygaze_features.core.errors import AlreadyThere, FixUsage, ObygazeError
from obygaze_features.core.files import write_atomic, write_new
from obygaze_features.core.metadata import render
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import ExtractPlan, read_plan_file


def make_bundle(plan: ExtractPlan, folder: Path, pip: Sequence[str] = ()) -> list[ObygazeError]:
    """Write wheels, weights, plan and README, and return why weights are missing.

    The same call again adds what is missing: a checkpoint or the wheels are there whole or not.

    Args:
        plan: The plan to run on the node, which needs the films under the same paths.
        folder: A new folder, or an incomplete bundle of the same plan.
        pip: Options of pip, and further packages.
    """
    own = [t.backbone for t in plan.targets if ":" in t.backbone.removeprefix(FRAMES)]
    if own:
        hint = "make it a plugin (docs/plugins.md), and name the plugin's folder after --"
        raise FixUsage(f"own code cannot be bundled: {', '.join(own)}", hint=hint)
    workspace, missing = Workspace(Path(plan.workspace)), list[ObygazeError]()
    cards = [find_card(target.backbone, workspace) for target in plan.targets]
    _write_plan(plan, cards, folder)
    for path in workspace.folder("backbones").glob("*.toml"):
        write_new(folder / "backbones" / path.name, path.read_bytes())
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    readme = render("bundle.md", "obygaze_features.extraction", plan=plan, python=python)
    write_atomic(folder / "README.md", readme.encode())
    extra = "extract" if any(card.family.needs_torch for card in cards) else "video"
    _collect_wheels(folder / "wheels", [f"obygaze[{extra}]{_source()}", *pip])
    for card, target in zip(cards, plan.targets, strict=True):
        try:
            if card.family.needs_weights:
                _copy_weights(card, target.weights, folder)
        except ObygazeError as error:
            missing.append(error)
    return missing


def _write_plan(plan: ExtractPlan, cards: Sequence[Card], folder: Path) -> None:
    """Write the plan with its stores and weights in the current folder."""
    targets = tuple(
        replace(
            target,
            store=f"stores/{Path(target.store).name}",
            weights=target.weights and f"weights/{card.name}/{Path(target.weights).name}",
        )
        for card, target in zip(cards, plan.targets, strict=True)
    )
    data, path = replace(plan, targets=targets, workspace=".").to_bytes(), folder / "plan.json"
    is_new = not folder.exists() or not any(folder.iterdir())
    if not is_new and not (path.is_file() and path.read_bytes() == data):
        raise AlreadyThere("not a bundle of this plan", where=str(folder), hint="-o NEW_FOLDER")
    write_new(path, data)


def _copy_weights(card: Card, weights: str | None, folder: Path) -> None:
    """Copy a checkpoint, which is downloaded first if it is neither given nor in the cache."""
    find_weights(card, weights, download=True)
    source = Path(weights) if weights else repository_folder(card.checkpoint)
    parent = folder / "weights" / card.name if weights else folder / "huggingface" / "hub"
    if (parent / source.name).exists():
        return
    with draft_beside(parent / source.name) as draft:
        if source.is_file():
            shutil.copyfile(source, draft)
        else:  # in the cache, the names of files are links to their sha256
            shutil.copytree(source, draft, symlinks=True)
        draft.rename(parent / source.name)


def _source() -> str:
    """Return the rest of the requirement of the obygaze that runs: its version, or its source."""
    text = metadata.distribution("obygaze").read_text("direct_url.json")
    if text is None:
        return f"=={__version__}"
    found = json.loads(text)
    git = found.get("vcs_info")
    return f" @ git+{found['url']}@{git['commit_id']}" if git else f" @ {found['url']}"


def _collect_wheels(folder: Path, words: Sequence[str]) -> None:
    """Have pip download or build the wheels of packages and of all that they need."""
    if folder.exists():
        return
    with draft_beside(folder) as draft:
        call = [sys.executable, "-m", "pip", "wheel", "--wheel-dir", str(draft), *words]
        if subprocess.run(call, stdout=2, check=False).returncode:  # to stderr, like all progress
            what = "pip could not collect the packages; its lines above have the reason"
            raise ObygazeError(what, where=str(folder), hint="options of pip after --")
        draft.rename(folder)


@command("bundle")
@click.argument("plan", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("pip_words", nargs=-1, metavar="[-- PIP_OPTIONS...]")
@click.option("-o", "folder", type=click.Path(path_type=Path), required=True, help="A new folder.")
def bundle(session: Session, plan: Path, pip_words: tuple[str, ...], folder: Path) -> None:
    """Collect what a plan needs, for a node without a network.

    The folder holds packages, weights, the plan, and a README with the commands to type on the
    node. Options of pip and the names of further packages follow `--`. The same command again adds
    what is missing; remove the folder `wheels` to collect the packages again.

    Examples:
        obygaze bundle plan.json -o night
        obygaze bundle plan.json -o night -- -c constraints.txt ./my-plugin
        obygaze bundle plan.json -o night -- --index-url https://download.pytorch.org/whl/cu126
    """
    missing = make_bundle(read_plan_file(plan), folder, pip_words)
    if missing:
        hint = "the same command again, when the lines above are corrected"
        details = [line for error in missing for line in str(error).splitlines()]
        what = f"the bundle is not complete: {count(len(missing), 'checkpoint')} missing"
        raise ObygazeError(what, where=str(folder), hint=hint, details=details)
    session.console.show({"folder": str(folder)}, f"{folder}: complete; copy it to the node")

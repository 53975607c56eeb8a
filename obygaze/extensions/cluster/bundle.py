"""What a machine without a network needs to run a plan, in one folder."""

import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import obygaze_features
from obygaze_features.backbones.base import Card
from obygaze_features.backbones.cards import FRAMES, find_card, split_preset
from obygaze_features.backbones.hub import SMALL_FILES, find_weights, repository_folder
from obygaze_features.backbones.own import ModuleFamily
from obygaze_features.backbones.own_code import files_of_code, own_code
from obygaze_features.core import system
from obygaze_features.core.drafts import draft_beside
from obygaze_features.core.errors import AlreadyThere, FixUsage, NotFound, ObygazeError
from obygaze_features.core.files import write_atomic, write_new
from obygaze_features.core.metadata import render
from obygaze_features.core.workspace import Workspace
from obygaze_features.extraction.plan import ExtractPlan

# The file that says how the wheel of a checkout is built.
PROJECT = "pyproject.toml"
# The folder of own code in a bundle.
CODE = "code"


def make_bundle(
    plan: ExtractPlan, folder: Path, pip: Sequence[str] = ()
) -> list[ObygazeError]:
    """Write wheels, weights, plan and README, and return why weights are missing.

    The same call again adds what is missing: a checkpoint or the wheels are there whole or not.

    Args:
        plan: The plan to run on the node, which needs the films under the same paths.
        folder: A new folder, or an incomplete bundle of the same plan.
        pip: Options of pip, and further packages.
    """
    modules = []
    for target in plan.targets:
        name = target.backbone.removeprefix(FRAMES)
        if ":" in name and _code_file(name) is None:
            modules.append(target.backbone)
    if modules:
        raise FixUsage(
            f"a module of own code cannot be bundled: {', '.join(modules)}",
            hint="name it as FILE.py:FUNCTION, or make it a plugin (docs/plugins.md), whose folder"
            " is named after --",
        )
    workspace = Workspace(Path(plan.workspace))
    if not workspace.root.is_dir():
        raise NotFound(
            "the workspace of this plan is not there",
            where=str(plan.workspace),
            hint="make the plan again in the workspace: obygaze extract plan ... -o PLAN",
        )
    missing = list[ObygazeError]()
    cards = [find_card(target.backbone, workspace) for target in plan.targets]
    bundled = _bundled(plan, cards)
    files = _files_of_code(plan, cards, bundled)
    _write_plan(bundled, folder)
    for copy, source in files.items():
        _copy_once(source, folder / copy)
    card_files = list(workspace.folder("backbones").glob("*.toml"))
    for target in plan.targets:
        card_file = _card_file(target.backbone)
        if card_file is not None:
            card_files.append(card_file)
    for path in card_files:
        write_new(folder / "backbones" / path.name, path.read_bytes())
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    readme = render("bundle.md", "obygaze.extensions.cluster", plan=plan, python=python)
    write_atomic(folder / "README.md", readme.encode())
    for card, target, copied in zip(cards, plan.targets, bundled.targets, strict=True):
        try:
            if copied.weights is not None:
                _copy_weights(card, target.weights, folder / copied.weights)
            elif card.family.needs_weights:
                _copy_cached(card, folder)
        except ObygazeError as error:
            missing.append(error)
    if missing:
        return missing  # before packages are downloaded
    extra = "extract" if any(card.family.needs_torch for card in cards) else "video"
    with tempfile.TemporaryDirectory(prefix="obygaze-") as temporary:
        requirement = f"obygaze[{extra}]{_source(Path(temporary))}"
        _collect_wheels(folder / "wheels", [requirement, *pip])
    return missing


def _bundled(plan: ExtractPlan, cards: Sequence[Card]) -> ExtractPlan:
    """Return the plan with its stores, weights and cards in the current folder.

    Different stores and different weights keep different names, also where the last parts of their
    paths are equal.
    """
    stores = _Names()
    weights = _Names()
    folders_of_code = _Names()
    targets = []
    for card, target in zip(cards, plan.targets, strict=True):
        store = f"stores/{stores.name_of(target.store, Path(target.store).name)}"
        copied_weights = None
        if target.weights is not None:
            folder = weights.name_of(target.weights, card.name)
            copied_weights = f"weights/{folder}/{Path(target.weights).name}"
        backbone = target.backbone
        prefix = FRAMES if backbone.startswith(FRAMES) else ""
        name = backbone.removeprefix(FRAMES)
        code = _code_file(name)
        if code is not None:
            source = code.parent.resolve()
            folder = folders_of_code.name_of(str(source), source.name or "code")
            function = name.rpartition(":")[2]
            backbone = f"{prefix}{CODE}/{folder}/{code.name}:{function}"
        elif _card_file(backbone) is not None:
            backbone = f"{prefix}{find_card(name).label}"
        targets.append(
            replace(target, store=store, weights=copied_weights, backbone=backbone)
        )
    return replace(plan, targets=tuple(targets), workspace=".")


class _Names:
    """Gives each of several paths a name that no other path has."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}

    def name_of(self, path: str, wanted: str) -> str:
        """Return the wanted name, or one with a number if another path has that."""
        name = wanted
        for number in itertools.count(2):
            if self.paths.setdefault(name.casefold(), path) == path:
                break
            name = f"{wanted}-{number}"
        return name


def _code_file(name: str) -> Path | None:
    """Return the file of own code that a backbone names as FILE.py:FUNCTION."""
    source = name.rpartition(":")[0]
    return Path(source) if source.endswith(".py") else None


def _files_of_code(
    plan: ExtractPlan, cards: Sequence[Card], bundled: ExtractPlan
) -> dict[str, Path]:
    """Return the files of own code by their paths in the bundle.

    These are the files that it imports from its folder, and the files that its card names.
    """
    files: dict[str, Path] = {}
    for card, target, copied in zip(cards, plan.targets, bundled.targets, strict=True):
        name = target.backbone.removeprefix(FRAMES)
        code = _code_file(name)
        if code is None:
            continue
        main = code.resolve()
        namespace = own_code(main.parent, main, name.rpartition(":")[2])
        sources = {*namespace.files, *files_of_code(main, main.parent, namespace.has)}
        if isinstance(card.family, ModuleFamily):
            sources.update(path.resolve() for path in card.family.files or ())
        copied_name = copied.backbone.removeprefix(FRAMES)
        folder = Path(copied_name.rpartition(":")[0]).parent
        for source in sorted(sources):
            if not source.is_relative_to(main.parent):
                raise FixUsage(
                    f"{card.name} names a file outside of the folder of its code",
                    where=str(source),
                    hint=f"move it to {main.parent}, and correct module_card(files=[...])",
                )
            path = folder / source.relative_to(main.parent)
            files[path.as_posix()] = source
    return files


def _card_file(backbone: str) -> Path | None:
    """Return the file of a card that a plan names by its path."""
    name, _ = split_preset(backbone.removeprefix(FRAMES))
    return Path(name) if name.endswith(".toml") else None


def _write_plan(plan: ExtractPlan, folder: Path) -> None:
    data = plan.to_bytes()
    path = folder / "plan.json"
    is_new = not folder.exists() or not any(folder.iterdir())
    if not is_new and not (path.is_file() and path.read_bytes() == data):
        raise AlreadyThere(
            "not a bundle of this plan", where=str(folder), hint="-o NEW_FOLDER"
        )
    write_new(path, data)


def _copy_weights(card: Card, weights: str | None, copy: Path) -> None:
    """Copy weights that were given, with the settings that are beside a single file."""
    source = Path(weights or "")
    find_weights(card, source)
    if source.is_file():
        for name in (source.name, *SMALL_FILES):
            if (source.parent / name).is_file():
                _copy_once(source.parent / name, copy.with_name(name))
    else:
        _copy_once(source, copy)
    find_weights(card, copy)


def _copy_cached(card: Card, folder: Path) -> None:
    """Copy a checkpoint in the layout of the hub's cache, into which it is downloaded if it is not.

    In the cache, the names of files are links to their sha256.
    """
    find_weights(card, None, download=True)
    repository = repository_folder(card.checkpoint)
    _copy_once(repository, folder / "huggingface" / "hub" / repository.name, links=True)


def _copy_once(source: Path, copy: Path, *, links: bool = False) -> None:
    """Copy a file or folder that is not there yet; with `links`, keep those inside the folder."""
    if copy.exists():
        return
    with draft_beside(copy) as draft:
        if source.is_file():
            shutil.copyfile(source, draft)
        else:
            shutil.copytree(source, draft, symlinks=links)
        if links:
            _follow_links_outside(source, draft)
        system.rename_folder(draft, copy)


def _follow_links_outside(source: Path, copy: Path) -> None:
    """Replace the links of a copied folder that lead out of it with what they lead to."""
    root = source.resolve()
    for link in [path for path in copy.rglob("*") if path.is_symlink()]:
        original = source / link.relative_to(copy)
        is_inside = (
            original.resolve().is_relative_to(root)
            and not link.readlink().is_absolute()
        )
        if is_inside or not original.exists():
            continue
        link.unlink()
        if original.is_dir():
            shutil.copytree(original, link)
        else:
            shutil.copyfile(original, link)


def _source(copy: Path) -> str:
    """Return the rest of the requirement of the obygaze that runs: its version, or its source.

    A build writes into the folder of its source, so that a folder is copied into `copy` before.
    """
    # The code of a checkout may run although another folder was installed (PYTHONPATH).
    folder_of_code = Path(obygaze_features.__file__).parents[1]
    if (folder_of_code / PROJECT).is_file():
        return _copied_source(folder_of_code, copy)
    text = metadata.distribution("obygaze").read_text("direct_url.json")
    if text is None:
        return f"=={obygaze_features.__version__}"
    source = json.loads(text)
    git = source.get("vcs_info")
    if git:
        return f" @ git+{source['url']}@{git['commit_id']}"
    if "dir_info" in source:
        path_of_url = urlsplit(source["url"]).path
        return _copied_source(Path(url2pathname(path_of_url)), copy)
    return f" @ {source['url']}"


def _copied_source(checkout: Path, copy: Path) -> str:
    """Copy what a wheel is built of, and return the rest of the requirement."""
    if not (checkout / PROJECT).is_file():
        raise NotFound(
            "the folder that obygaze was installed from is not there any more",
            where=str(checkout),
            hint="install obygaze again",
        )
    for package in checkout.glob("obygaze*"):
        if (package / "__init__.py").is_file():
            without_caches = shutil.ignore_patterns("__pycache__")
            shutil.copytree(package, copy / package.name, ignore=without_caches)
    for name in (PROJECT, "README.md", "LICENSE"):
        shutil.copyfile(checkout / name, copy / name)
    return f" @ {copy.resolve().as_uri()}"


def _collect_wheels(folder: Path, words: Sequence[str]) -> None:
    """Have pip download or build the wheels of packages and of all that they need."""
    if folder.exists():
        return
    with draft_beside(folder) as draft:
        call = [sys.executable, "-m", "pip", "wheel", "--wheel-dir", str(draft), *words]
        # What pip prints goes to stderr, like all progress.
        done = subprocess.run(call, stdout=2, check=False)
        if done.returncode:
            raise ObygazeError(
                "pip could not collect the packages; its lines above have the reason",
                where=str(folder),
                hint="options of pip after --",
            )
        system.rename_folder(draft, folder)

"""Which backbones a run has, and the store of each: what a person names."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from obygaze_features.backbones.cards import find_card
from obygaze_features.core.commands import named_values
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.options import Option
from obygaze_features.core.schema_rules import near
from obygaze_features.core.workspace import PathLike, Workspace
from obygaze_features.manifest.model import Manifest
from obygaze_features.store.layout import check_store_name

FEATURES = "Features"
MACHINE = "Machine"


@dataclass(frozen=True)
class Target:
    """A backbone with its settings, and the store of its features (MANIFEST.NAME by default)."""

    backbone: str
    store: str = ""
    weights: str | None = None
    arrays: tuple[str, ...] = ()
    dtype: str = "float32"


# The parameters that `plan` and `run` share.
Backbones: TypeAlias = Annotated[
    str | Sequence[str | Target],
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
    Literal["float32", "bfloat16", "float16"], Option(group=FEATURES)
]
Device: TypeAlias = Annotated[str, Option(group=MACHINE)]


def chosen_targets(
    backbones: str | Sequence[str | Target],
    *,
    arrays: Sequence[str],
    weights: Sequence[str] | Mapping[str, PathLike],
    stores: Mapping[str, PathLike] | None,
    dtype: str,
) -> list[Target]:
    """Return the targets of backbones; `weights` and `stores` are by their names."""
    named = [backbones] if isinstance(backbones, str) else list(backbones)
    names = [name for name in named if isinstance(name, str)]
    weights_of = _weights_by_name(weights, names)
    stores_of = stores or {}
    for option, values in (("--store", stores_of), ("--weights", weights_of)):
        for name in sorted(values.keys() - set(names)):
            raise FixUsage(
                f"{option} names the backbone {name!r}, which -b does not",
                hint=f"add -b {name}, or correct the name{near(name, names)}",
            )
    targets: list[Target] = []
    for backbone in named:
        if isinstance(backbone, Target):
            targets.append(backbone)
            continue
        target = Target(
            backbone,
            store=os.fspath(stores_of.get(backbone, "")),
            weights=weights_of.get(backbone),
            arrays=tuple(arrays),
            dtype=dtype,
        )
        targets.append(target)
    return targets


def _weights_by_name(
    weights: Sequence[str] | Mapping[str, PathLike], names: Sequence[str]
) -> Mapping[str, str]:
    """Return the weights by the names of backbones; of a single one, PATH alone is enough."""
    if isinstance(weights, Mapping):
        return {name: os.fspath(path) for name, path in weights.items()}
    words = [weights] if isinstance(weights, str) else list(weights)
    if len(names) == len(words) == 1:
        is_path = "=" not in words[0] or Path(words[0]).exists()
        if is_path and not words[0].startswith(f"{names[0]}="):
            return {names[0]: words[0]}
    return named_values(words, "--weights")


def store_path(target: Target, manifest: Manifest, workspace: Workspace) -> Path:
    """Return the folder of a target's store: MANIFEST.NAME by default."""
    name = target.store
    if not name:
        label = find_card(target.backbone, workspace).label
        name = f"{manifest.name}.{label.replace('@', '-')}"
    folder = Path(workspace.store(name)).resolve()
    check_store_name(folder.name, str(folder))
    return folder

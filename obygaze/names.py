"""The names that a shell offers on Tab: manifests, stores, films, arrays, backbones, tasks ...

`LISTERS` has a function for each parameter that takes such names, by the name of the parameter; a
command whose parameter means something else stands before it, as in `train model`. Each function
takes the workspace and the values that were typed before, by parameter. What it imports, it imports
when it is called: the program starts without these modules.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from obygaze_features.core.workspace import Workspace

Typed = Mapping[str, Any]
Lister = Callable[[Workspace, Typed], Iterable[str]]


def _of_workspace(kind: str, workspace: Workspace, typed: Typed) -> Iterable[str]:
    """Return the names in one folder of the workspace."""
    return workspace.names(kind)


def _films(workspace: Workspace, typed: Typed) -> Iterable[str]:
    """Return the films of the manifest or of the store that was typed."""
    if typed.get("manifest"):
        from obygaze_features.manifest import read_manifest

        return read_manifest(typed["manifest"], workspace=workspace).films
    from obygaze_features.store import open_store

    store = open_store(_typed_store(typed), workspace=workspace)
    return sorted(set(map(str, store.movie_ids)))


def _clips(workspace: Workspace, typed: Typed) -> Iterable[str]:
    """Return the clips of the manifest or of the store that was typed."""
    if typed.get("manifest"):
        from obygaze_features.manifest import read_manifest

        manifest = read_manifest(typed["manifest"], workspace=workspace)
        return [clip.clip_id for clip in manifest.clips]
    from obygaze_features.store import open_store

    store = open_store(_typed_store(typed), workspace=workspace)
    return map(str, store.clip_ids)


def _concepts(workspace: Workspace, typed: Typed) -> Iterable[str]:
    """Return the concepts of the manifest that was typed."""
    from obygaze_features.manifest import read_manifest

    return read_manifest(typed["manifest"], workspace=workspace).header.concepts


def _arrays(workspace: Workspace, typed: Typed) -> Iterable[str]:
    """Return the arrays of the store that was typed."""
    from obygaze_features.store import open_store

    return open_store(_typed_store(typed), workspace=workspace).feature_arrays


def _backbones(workspace: Workspace, typed: Typed) -> Iterable[str]:
    """Return the backbones of the package, of plugins, and of the workspace."""
    from obygaze_features.backbones.cards import find_cards

    return [card.name for card in find_cards("*", workspace).cards]


def _arrays_of_backbones(workspace: Workspace, typed: Typed) -> Iterable[str]:
    """Return the arrays of the backbones that were typed."""
    from obygaze_features.backbones.cards import find_card

    arrays: dict[str, None] = {}
    for name in typed["backbones"]:
        arrays.update(dict.fromkeys(find_card(name, workspace).arrays))
    return arrays


def _model_kinds(workspace: Workspace, typed: Typed) -> Iterable[str]:
    """Return the kinds of models that can be trained."""
    from obygaze_models.models.registry import kind_names

    return kind_names()


def _protocols(workspace: Workspace, typed: Typed) -> Iterable[str]:
    """Return the protocols that have a name."""
    from obygaze_models.protocols.reading import protocol_names

    return protocol_names()


def _tasks(workspace: Workspace, typed: Typed) -> Iterable[str]:
    """Return the tasks of the protocol `honest`, which `--task` chooses from."""
    from obygaze_models.protocols.reading import load_protocol

    return load_protocol("honest").tasks


def _typed_store(typed: Typed) -> Any:
    """Return the store that was typed, whatever its parameter is called."""
    return typed.get("store") or typed["source"]


_MANIFESTS = partial(_of_workspace, "manifests")
_STORES = partial(_of_workspace, "stores")
_MODELS = partial(_of_workspace, "models")
_RUNS = partial(_of_workspace, "runs")

LISTERS: Mapping[str, Lister] = {
    "manifest": _MANIFESTS,
    "manifest check names": _MANIFESTS,
    "explain draw clips": _MANIFESTS,
    "explain model clips": _MANIFESTS,
    "store": _STORES,
    "stores": _STORES,
    "store diff first": _STORES,
    "store diff second": _STORES,
    "store pull source": _STORES,
    "audit pixels pictures": _STORES,
    "maps": _STORES,
    "film": _films,
    "films": _films,
    "clip": _clips,
    "clips": _clips,
    "manifest project clips": _MANIFESTS,
    "manifest agree clips": _MANIFESTS,
    "like": _clips,
    "concept": _concepts,
    "concepts": _concepts,
    "array": _arrays,
    "arrays": _arrays,
    "extract plan arrays": _arrays_of_backbones,
    "extract run arrays": _arrays_of_backbones,
    "backbone": _backbones,
    "backbones": _backbones,
    "backbones fetch names": _backbones,
    "backbones check name": _backbones,
    "backbones forward name": _backbones,
    "backbones show name": _backbones,
    "bench forward name": _backbones,
    "model": _MODELS,
    "models": _MODELS,
    "train model": _model_kinds,
    "explain concepts model": _model_kinds,
    "protocol": _protocols,
    "task": _tasks,
    "run": _RUNS,
    "report runs": _RUNS,
    "compare runs": _RUNS,
}

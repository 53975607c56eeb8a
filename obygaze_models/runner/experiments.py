"""`obygaze run`, `train` and `models test`: from the names of the inputs to a finished run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Union

from obygaze_features.core.console import (
    ProgressBars,
    count,
    few,
    progress_bars,
)
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.overwrite import is_made_by_obygaze
from obygaze_features.core.shell import shell_line, shell_word
from obygaze_features.core.untrusted_text import safe_text
from obygaze_features.core.user_code import is_user_code
from obygaze_features.core.user_code import trust as trust_code
from obygaze_features.core.workspace import (
    EXPECTED,
    PathLike,
    Workspace,
    is_url,
    last_part,
)
from obygaze_models.models.registry import DEFAULT_TASK, ESTIMATOR

if TYPE_CHECKING:
    from obygaze_features.manifest import Manifest
    from obygaze_features.store import Store
    from obygaze_models.models.estimator import AnyEstimator
    from obygaze_models.runner.files import Run
    from obygaze_models.runner.inputs import Inputs
    from obygaze_models.zoo import SavedModel
    from obygaze_models.zoo.saving import HasModel

# Store is imported for type checkers only, so that the commands start fast.
OneStore: TypeAlias = Union[PathLike, "Store"]
Stores: TypeAlias = OneStore | Sequence[OneStore] | Mapping[str, OneStore]


class Trained(NamedTuple):
    """The result of training one model: the run that evaluated it, and the saved model."""

    run: Run
    model: SavedModel

    def to_json(self) -> dict[str, Any]:
        """Return the results of the run, and the folder of the model."""
        return {**self.run.to_json(), "model": str(self.model.folder)}

    def __str__(self) -> str:
        lines = [str(self.run)]
        chosen = self.model.info.chosen_settings
        if chosen:
            lines.append(f"chosen settings: {safe_text(chosen, 'terminal')}")
        return "\n".join([*lines, f"model: {self.model.folder}"])

    @property
    def quiet_text(self) -> str:
        """Return the folders of the run and the model."""
        return f"{self.run.quiet_text}\n{self.model.folder}"


def run(
    protocol: PathLike = "honest",
    stores: PathLike
    | Store
    | Sequence[PathLike | Store]
    | Mapping[str, PathLike | Store]
    | None = None,
    manifest: PathLike | Manifest | None = None,
    *,
    tasks: Sequence[str] = (),
    changes: Sequence[str] = (),
    output: PathLike | None = None,
    n_jobs: int = 0,
    trust: Sequence[str] = (),
    force: bool = False,
    progress: bool | ProgressBars = False,
    workspace: PathLike | None = None,
) -> Run:
    """Run an experiment: train and test the models of a protocol.

    Args:
        protocol: The name of a protocol of obygaze, or a TOML file.
        stores: Features of the clips: a store, a list of stores, or a mapping of names to stores.
            The results of each store have its name.
        manifest: The manifest of the clips. The default is the manifest of the protocol, or the
            only manifest of the workspace.
        tasks: The labels to predict: tasks of the protocol, a column of yes and no, "mood=sad" for
            a value, "rating>=2" for a limit, or "harsh=violent == yes and rating>=2" for an
            expression with a name. All other labelled clips are negative; to leave some out,
            change data.where.
        changes: Changed keys of the protocol, such as "splits.scheme=none". `og.protocols.show`
            prints every key.
        output: The name of the run in the workspace, or a folder.
        n_jobs: Number of training processes.
        trust: User code that the protocol file names and that may run. Code that is named in
            `changes` may run without it.
        force: Replace the output if it exists.
        progress: Whether to show a progress bar on stderr, or a function that makes the bar.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> ridge = ["grid.models=['ridge']"]
        >>> found = og.run("honest", "mine", "films", changes=ridge, output="first")
        >>> set(found.results.query("against_model != ''")["model"])
        {'ridge'}
    """
    from obygaze_models.protocols.clips import with_view
    from obygaze_models.protocols.reading import load_protocol, require_each_once
    from obygaze_models.protocols.tasks import with_tasks

    require_each_once(changes)
    trust_code([*trust, *changes])
    asked = [tasks] if isinstance(tasks, str) else tasks
    chosen = load_protocol(os.fspath(protocol), changes, asked)
    named = manifest
    if named is None:
        named = chosen.data.manifest or None
    clips, path = resolve_manifest(named, workspace)
    named_stores = open_stores(stores, workspace)
    chosen = replace(chosen, data=with_view(chosen.data, clips, named_stores))
    chosen = with_tasks(chosen, asked, clips)
    # Imported late, so that a wrong name is reported before scikit-learn is imported.
    from obygaze_models.runner.inputs import gather
    from obygaze_models.runner.run import run_protocol

    inputs = gather(chosen, clips, path, named_stores)
    folder = _run_folder(inputs, output, workspace)
    watch = progress_bars(progress, "steps")
    return run_protocol(inputs, folder, force=force, n_jobs=n_jobs, watch=watch)


def _run_folder(
    inputs: Inputs, output: PathLike | None, workspace: PathLike | None
) -> Path:
    """Return the folder of a run; without `output`, its name is made from the inputs."""
    name = inputs.default_name if output is None else os.fspath(output)
    return Workspace.of(workspace).target("runs", name)


def evaluate(
    estimators: AnyEstimator | Sequence[AnyEstimator] | Mapping[str, AnyEstimator],
    stores: PathLike
    | Store
    | Sequence[PathLike | Store]
    | Mapping[str, PathLike | Store],
    manifest: PathLike | Manifest | None = None,
    *,
    task: str = DEFAULT_TASK,
    changes: Sequence[str] = (),
    output: PathLike | None = None,
    n_jobs: int = 0,
    force: bool = False,
    progress: bool | ProgressBars = False,
    workspace: PathLike | None = None,
) -> Run:
    """Test estimators of scikit-learn on unseen films, by the protocol honest.

    Each estimator is cloned and fitted in each fold. Its `fit` gets what its signature names:
    `groups` are the films, `concepts` the concepts of the clips. A search inside gets the films if
    its `cv` is a splitter of groups, such as `GroupKFold()`. With several estimators, the p of each
    is corrected for their number. A `random_state` of None is the seed of the protocol.

    Args:
        estimators: An estimator, a list of estimators, or a mapping of names to estimators.
        stores: Features, as in `run`.
        manifest: The manifest of the clips. The default is the only manifest of the workspace.
        task: The label to predict, as in `run`.
        changes: A changed key of the protocol honest, such as report.replicates=200.
        output: The name of the run in the workspace, or a folder.
        n_jobs: Number of training processes.
        force: Replace the output if it exists.
        progress: Whether to show a progress bar on stderr, or a function that makes the bar.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> probes = [og.RidgeProbe(), og.LogisticProbe(C=0.1)]
        >>> found = og.evaluate(probes, "mine", "films", task="EN_S", output="two")
        >>> sorted(set(found.results.query("against_model == 'random'")["model"]))
        ['logisticprobe', 'ridgeprobe']
    """
    from obygaze_models.protocols.clips import with_view
    from obygaze_models.protocols.reading import load_protocol, require_each_once
    from obygaze_models.protocols.tasks import require_one_label, with_tasks
    from obygaze_models.runner.estimators import describe_estimators, with_estimators

    require_each_once(changes)
    require_one_label(task)
    described = describe_estimators(estimators)
    honest = load_protocol("honest", changes, [task])
    clips, path = resolve_manifest(manifest, workspace)
    named_stores = open_stores(stores, workspace)
    honest = replace(honest, data=with_view(honest.data, clips, named_stores))
    chosen = with_tasks(with_estimators(honest, described), [task], clips)
    from obygaze_models.runner.inputs import gather
    from obygaze_models.runner.run import run_protocol

    inputs = gather(chosen, clips, path, named_stores)
    inputs = replace(inputs, estimators=dict(described.values()))
    folder = _run_folder(inputs, output, workspace)
    watch = progress_bars(progress, "steps")
    return run_protocol(inputs, folder, force=force, n_jobs=n_jobs, watch=watch)


def train(
    model: str | AnyEstimator,
    store: PathLike
    | Store
    | Sequence[PathLike | Store]
    | Mapping[str, PathLike | Store],
    manifest: PathLike | Manifest | None = None,
    *,
    task: str = "EN_S",
    changes: Sequence[str] = (),
    output: PathLike | None = None,
    n_jobs: int = 0,
    force: bool = False,
    progress: bool | ProgressBars = False,
    workspace: PathLike | None = None,
) -> Trained:
    """Train one model, evaluate it on unseen films, and save it.

    The metrics come from other fits with the same settings, tested on unseen films. The saved
    model is then trained on all clips. A model whose fit is not arrays and numbers, such as a
    forest or a class of your own, is refused before the first fit: `og.evaluate` tests it.

    Args:
        model: A model type (`og.models.kinds` lists them), the name of a class of scikit-learn,
            such as sklearn.naive_bayes.GaussianNB, an estimator, or a pipeline.
        store: Features: a store, or a mapping of its name in tables to the store.
        manifest: The manifest of the clips and labels. The default is the only manifest of the
            workspace.
        task: The label to predict, as in `run`, or PROTOCOL.toml:NAME for a task of a protocol.
        changes: Changed keys of the protocol honest, or "model.KEY=VALUE" for a setting of the
            model.
        output: The name of the run and of the model in the workspace.
        n_jobs: Number of training processes.
        force: Replace the output if it exists.
        progress: Whether to show a progress bar on stderr, or a function that makes the bar.
        workspace: The workspace, if it is not the current one.

    Example:
        >>> found, model = og.train("ridge", "mine", "films", output="kept")
        >>> model.info.kind
        'ridge'
    """
    if is_user_code(model):
        words = ["obygaze", "run", "honest"]
        for one in store if isinstance(store, list | tuple) else [store]:
            words += ["--store", str(one)]
        if manifest is not None:
            words += ["--manifest", str(manifest)]
        words += ["--task", task, "--set", f"models.mine.kind={model}"]
        words += ["--set", 'grid.models=["mine"]']
        for change in changes:
            words += ["--set", re.sub(r"^model\.", "models.mine.", change)]
        if output is not None:
            words += ["-o", str(output)]
        raise FixUsage(
            f"expected a model type of obygaze or scikit-learn, got {model}, which can be tested"
            " but not saved",
            hint=shell_line(words),
        )
    from obygaze_models.protocols.reading import require_each_once
    from obygaze_models.protocols.tasks import require_one_label

    require_each_once(changes)
    require_one_label(task)
    trust_code(changes)
    clips, path = resolve_manifest(manifest, workspace)
    named_stores = open_stores(store, workspace)
    # Imported late, so that a wrong name is reported before scikit-learn is imported.
    from obygaze_models.runner.estimators import describe_estimators
    from obygaze_models.runner.files import check_run_folder, is_same_run
    from obygaze_models.runner.inputs import gather
    from obygaze_models.runner.run import run_protocol
    from obygaze_models.runner.training import (
        check_can_be_saved,
        evaluated_by,
        fit_final,
        training_protocol,
    )
    from obygaze_models.zoo.saving import MODEL_FILE, check_target, load_folder

    described = {} if isinstance(model, str) else describe_estimators(model)
    kind = model if isinstance(model, str) else ESTIMATOR
    chosen = training_protocol(
        kind, task, clips, changes, named_stores, described=described
    )
    inputs = gather(chosen, clips, path, named_stores)
    inputs = replace(inputs, estimators=dict(described.values()))
    here = Workspace.of(workspace)
    folder = _run_folder(inputs, output, workspace)
    if folder != here.folder("runs") / folder.name:
        raise FixUsage(
            f"expected a name for the run and its model, got the path {str(output)!r}",
            hint=f"use -o {shell_word(folder.name)} to write runs/{folder.name} and"
            f" models/{folder.name}",
        )
    model_folder = here.folder("models") / folder.name
    # If the run is repeated, its own model may be replaced: licences on the card may have changed,
    # or the last bits of numbers on a different processor.
    is_own = is_made_by_obygaze(
        model_folder / MODEL_FILE, protocol=evaluated_by(inputs, folder.name)
    )
    replaces = force or (is_own and is_same_run(folder, inputs.identity))
    check_target(model_folder, model_folder.name, force=replaces)
    check_run_folder(folder, inputs.identity, force=force)
    check_can_be_saved(inputs)
    finished = run_protocol(
        inputs,
        folder,
        force=force,
        n_jobs=n_jobs,
        watch=progress_bars(progress, "steps"),
    )
    (store,) = named_stores.values()
    fit_final(inputs, finished, model_folder, store=store, force=replaces)
    return Trained(finished, load_folder(model_folder))


def resolve_manifest(
    manifest: PathLike | Manifest | None, workspace: PathLike | None
) -> tuple[Manifest, str]:
    """Return a manifest and its path. By default, this is the only manifest of the workspace.

    A manifest in memory has a path if the workspace has a manifest with the same name and content.
    If not, its name is returned in place of a path.
    """
    from obygaze_features.manifest import Manifest, read_manifest
    from obygaze_features.manifest.io import manifest_path, manifest_sha256

    resolved_workspace = Workspace.of(workspace)
    if isinstance(manifest, Manifest):
        path = resolved_workspace.manifest(manifest.name)
        if path.is_file():
            saved = read_manifest(path)
            if manifest_sha256(saved) == manifest_sha256(manifest):
                return manifest, str(path)
        return manifest, manifest.name
    if manifest is None:
        names = resolved_workspace.names("manifests")
        if len(names) != 1:
            raise FixUsage(
                "expected the name of a manifest, because the workspace has"
                f" {count(len(names), 'manifest')}",
                hint=f"use one of {few(names)}"
                if names
                else "obygaze manifest import --help",
            )
        manifest = names[0]
    path = manifest_path(manifest, workspace=workspace)
    return read_manifest(path), str(path)


def open_stores(stores: Stores | None, workspace: PathLike | None) -> dict[str, Store]:
    """Open stores, and return them by their names in results. A string may be NAME=STORE."""
    from obygaze_features.store import Store
    from obygaze_features.store.joining import names_of_join, open_store

    named: dict[str, OneStore] = {}
    if isinstance(stores, Mapping):
        named.update(stores)
    elif stores is not None:
        if isinstance(stores, str | os.PathLike | Store):
            stores = [stores]
        for store in stores:
            name, place = split_store_name(store, workspace)
            if name in named:
                raise FixUsage(
                    f"two stores have the name {name!r}",
                    hint="use --store NAME=STORE to give each store its own name",
                )
            named[name] = place
    if "" in named:
        raise FixUsage("a store has an empty name", hint='use stores={"NAME": STORE}')
    opened: dict[str, Store] = {}
    # Open joins last, because they may name other stores of the run.
    for name in sorted(named, key=lambda name: bool(names_of_join(named[name]))):
        opened[name] = open_store(named[name], workspace=workspace, named=opened)
    return {name: opened[name] for name in named}


def split_store_name(
    store: OneStore, workspace: PathLike | None = None
) -> tuple[str, OneStore]:
    """Return the name of a store, and the store: NAME of NAME=STORE, or the last part of its path.

    The name of joined features consists of the names of their parts. A path may contain `=` after
    its first separator.
    """
    from obygaze_features.store import Store
    from obygaze_features.store.joining import PLUS, names_of_join

    if isinstance(store, Store):
        return _last_name(store.location), store
    text = os.fspath(store)
    name, equals, place = text.partition("=")
    if isinstance(store, str) and equals and not re.search(r"[/\\:?#]", name):
        if not (name and place):
            raise FixUsage(f"--store must be of the form NAME=STORE, got {text!r}")
        return name, place
    names = []
    for part in names_of_join(text, workspace) or [text]:
        location, _, _ = part.partition(EXPECTED)
        names.append(_last_name(location).replace("=", "-"))
    return PLUS.join(names), store


def _last_name(location: str) -> str:
    """Return the last part of the path or URL of a store."""
    path = location if is_url(location) else str(Path(location).resolve())
    return last_part(path)


def test_model(
    model: PathLike | HasModel,
    store: PathLike | Store,
    manifest: PathLike | Manifest | None = None,
    *,
    task: str = "",
    changes: Sequence[str] = (),
    output: PathLike | None = None,
    force: bool = False,
    workspace: PathLike | None = None,
) -> Run:
    """Test a saved model on your own clips and labels.

    Nothing is fitted: scores, decisions and refused clips are the same as in `og.predict`. The
    result is a run: `og.report` shows it, and `og.compare` compares it with a run of your own model
    on these clips. Training clips of the model are excluded and counted. Other clips of its
    training films are tested, and the run names these films.

    Args:
        model: A saved model of two classes: its name in the workspace, or its folder.
        store: A store with the same recipe as the training features, or NAME=STORE with its name in
            tables.
        manifest: The manifest of the clips and labels. The default is the only manifest of the
            workspace.
        task: The label to test, as in `run`.
        changes: A changed key of the protocol honest: data.where, data.view, report.primary,
            report.metrics or report.replicates. The default of data.view is the view of the
            training labels.
        output: The name of the run in the workspace, or a folder.
        force: Replace the output if it exists.
        workspace: The workspace, if it is not the current one.
    """
    clips = resolve_manifest(manifest, workspace)
    stores = open_stores(store, workspace)
    # Imported late, so that a wrong name is reported before NumPy is imported.
    from obygaze_models.runner.testing import inputs_of_test, run_test
    from obygaze_models.zoo.saving import read_model

    saved = read_model(model, workspace=workspace)
    inputs = inputs_of_test(saved, task, changes, clips, stores)
    folder = _run_folder(inputs, output, workspace)
    (opened,) = stores.values()
    return run_test(saved, inputs, opened, folder, force=force, workspace=workspace)

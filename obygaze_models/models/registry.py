"""The registry of models: the class and the settings of each model type, by name.

A protocol names a model type, such as `kind = "pcbm-lr"`. `KINDS` contains for each type the
estimator class, and the parameter of each setting; types and defaults are those of the class.
`build` returns an unfitted estimator. An unknown type or setting is an error that lists the known
ones.

    >>> from obygaze_models.models.registry import build, default_settings
    >>> default_settings("logistic")
    {'C': 1.0, 'class_weight': 'balanced'}
    >>> build("logistic", {"C": 0.5})
    LogisticProbe(C=0.5, class_weight='balanced')

`build_bank` returns concept vectors without a head. A module of estimators is imported when one of
its classes is needed.
"""

import inspect
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from obygaze_features.core.errors import FixInput, FixUsage, Mismatch, near
from obygaze_features.core.schema_check import one_of, problem_with
from obygaze_features.core.user_code import (
    UserCode,
    find_user_code,
    is_of_sklearn,
    is_user_code,
)
from obygaze_models.models.parameters import type_in_file

Settings = dict[str, Any]

# The estimator classes, each with its module; a saved model names its class.
CLASSES = {
    "MLPProbe": "mlp",
    "LogisticProbe": "linear",
    "RidgeProbe": "linear",
    "SVMProbe": "linear",
    "FrameProbe": "frames",
    "CAV": "concepts",
    "LogisticHead": "heads",
    "TreeHead": "heads",
    "ResidualHead": "bottleneck",
    "PCBM": "bottleneck",
    "ZeroShot": "sentences",
    "PartScaling": "scaling",
    "Scaling": "scaling",
}
# The classes of scikit-learn that can be saved. They predict with NumPy from arrays and numbers:
# compiled code that reads arrays of strangers could write outside its memory.
OF_SKLEARN = (
    "sklearn.decomposition.PCA",
    "sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
    "sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis",
    "sklearn.linear_model.LogisticRegression",
    "sklearn.linear_model.Perceptron",
    "sklearn.linear_model.SGDClassifier",
    "sklearn.naive_bayes.BernoulliNB",
    "sklearn.naive_bayes.GaussianNB",
    "sklearn.preprocessing.MaxAbsScaler",
    "sklearn.preprocessing.MinMaxScaler",
    "sklearn.preprocessing.Normalizer",
    "sklearn.preprocessing.RobustScaler",
    "sklearn.preprocessing.StandardScaler",
    "sklearn.svm.LinearSVC",
)
# Parameters of how a fit is computed; a saved model does not have them.
RUN_PARAMETERS = frozenset({"memory", "verbose", "transform_input", "n_jobs"})
NO_VALUE = "none"  # the parameter None in a file
# Keys of a model in a protocol that are not parameters of a class of user code.
PACKAGE = "package"  # the setting that holds the version of the code
RESERVED = ("kind", PACKAGE)
# The methods of a classifier that give scores; one of them is enough.
SCORES = ("predict_proba", "decision_function")
WITHOUT_SCORES = (
    "must be a classifier with scores; it has neither predict_proba() nor"
    " decision_function()"
)
# The name of the residual in predictions: the part of a hybrid bottleneck that reads the features.
RESIDUAL = "residual"
# The setting with the path of sentences.
TEXTS = "texts"
# The solvers of support vector machines. From PRIMAL_CLIPS clips on, `primal` is faster than libsvm
# (benchmarks/concepts.py); its memory does not grow with the square of the number of clips.
LIBSVM = "libsvm"
PRIMAL = "primal"
PRIMAL_CLIPS = 8_000
MIN_CLIPS = 3  # smallest number of clips with a concept, and without it, for its vector


@dataclass(frozen=True)
class Baseline:
    """One baseline: the data of clips that it reads, and whether it uses training clips.

    If `is_drawn`, all clips have the same score, and the decision for each clip is 0.5.
    """

    needs: Literal["", "films", "scenes", "concepts"] = ""
    is_trained: bool = True
    is_drawn: bool = False


# Baselines have no settings.
BASELINES = {
    "random": Baseline(is_trained=False, is_drawn=True),
    "all_positive": Baseline(is_trained=False),
    "prevalence": Baseline(),
    "film_prior": Baseline(needs="films"),
    "neighbour": Baseline(needs="scenes"),
    "oracle": Baseline(needs="concepts"),
}
UNTRAINED = tuple(name for name, kind in BASELINES.items() if not kind.is_trained)


# The parameters of concept vectors, and of the bottleneck that has them, by their settings.
BANK = {
    "tolerance": "bank__C",
    "best_of_folds": "bank__best_of_folds",
    "balance": "bank__balance",
    "unit_norm": "bank__unit_norm",
    "against": "bank__against",
    "cross_fit": "cross_fit",
}
PUBLISHED_TOLERANCE = "published"  # the tolerance of a concept in the released code


# ---- kinds ----


@dataclass(frozen=True)
class ModelKind:
    """One model type.

    Attributes:
        estimator: The name of the estimator class.
        settings: The parameter of each setting, such as `head__C`, or the names of settings that
            are parameters of the same name.
        parts: The class of each part that is not the default of its parameter.
        class_name: The name of a class of user code or scikit-learn.
        required: The settings without a default.
        reads: The features of a clip: one vector, or one vector per frame.
        is_trained: Whether scores depend on the training clips.
        has_epochs: Whether training starts from random weights and stops early on validation clips.
    """

    estimator: str
    settings: Mapping[str, str] | Sequence[str] = ()
    parts: Mapping[str, str] = field(default_factory=dict)
    class_name: str = ""
    required: Sequence[str] = ()
    reads: Literal["clip", "frames"] = "clip"
    is_trained: bool = True
    has_epochs: bool = False

    @property
    def head(self) -> str:
        """The name of the head class of a bottleneck, or "" for other types."""
        return self.parts.get("head", "")

    @property
    def parameters(self) -> dict[str, str]:
        """The parameter of each setting."""
        if isinstance(self.settings, Mapping):
            return dict(self.settings)
        return {name: name for name in self.settings}

    def make(self) -> Any:
        """Return an unfitted estimator with the defaults of the type."""
        parts = {name: estimator_class(one)() for name, one in self.parts.items()}
        return estimator_class(self.estimator)(**parts)

    @cached_property
    def _own(self) -> dict[str, Any]:
        """The parameters of a class of user code with their defaults, and the version of its code.

        Parameters with the name of a reserved key of protocols keep their default.
        """
        user_code = find_user_code(self.class_name)
        own = {one.name: one.default for one in class_parameters(user_code)}
        for name in RESERVED:
            own.pop(name, None)
        return {**own, PACKAGE: user_code.package}

    @cached_property
    def types(self) -> dict[str, Any]:
        """The type of each setting; `Any` for any JSON value."""
        if self.class_name:
            package = Annotated[str, one_of((self._own[PACKAGE],))]
            return {**dict.fromkeys(self._own, Any), PACKAGE: package}
        if not self.estimator:
            return dict.fromkeys(self.required, str)
        made = self.make()
        types = {}
        for setting, path in self.parameters.items():
            part, _, name = path.rpartition("__")
            owner = getattr(made, part) if part else made
            types[setting] = type_in_file(type(owner), name)
        return types

    @property
    def defaults(self) -> Settings:
        """The defaults of the settings; a default that a file cannot contain is excluded."""
        if self.class_name:
            return {
                name: value for name, value in self._own.items() if _is_plain(value)
            }
        if not self.estimator:
            return {}
        values = self.make().get_params()
        defaults = {}
        for setting, path in self.parameters.items():
            if setting not in self.required:
                value = values[path]
                defaults[setting] = NO_VALUE if value is None else value
        return defaults


VECTORS = "cav"  # concept vectors without a head, for `obygaze train`
ESTIMATOR = "estimator"  # an estimator that `og.evaluate` or `og.train` takes
DEFAULT_TASK = "EN_S"  # a task of levels, used if no task is stated
_OF_SENTENCES = (TEXTS, "positive", "negative")
_BOTTLENECK = {**BANK, TEXTS: TEXTS, "C": "head__C"}
KINDS = {
    "mlp": ModelKind(
        "MLPProbe",
        (
            *("hidden", "min_epochs", "max_epochs", "patience", "batch_size"),
            *("learning_rate", "dropout", "class_weight", "keep", "double_softmax"),
        ),
        has_epochs=True,
    ),
    "logistic": ModelKind("LogisticProbe", ("C", "class_weight")),
    "ridge": ModelKind("RidgeProbe", ("class_weight",)),
    "svm": ModelKind("SVMProbe", ("C", "class_weight")),
    "frames": ModelKind("FrameProbe", ("pooling", "C"), reads="frames"),
    "pcbm-dt": ModelKind(
        "PCBM",
        {
            **BANK,
            TEXTS: TEXTS,
            "max_depth": "head__max_depth",
            "min_samples_leaf": "head__min_samples_leaf",
            "random_state": "head__random_state",
        },
        {"bank": "CAV", "head": "TreeHead"},
    ),
    "pcbm-lr": ModelKind(
        "PCBM",
        {**_BOTTLENECK, "penalty": "head__penalty", "scaled": "head__scaled"},
        {"bank": "CAV", "head": "LogisticHead"},
    ),
    "pcbm-h": ModelKind(
        "PCBM",
        {**_BOTTLENECK, "residual_C": "residual__C", "scaled": "head__scaled"},
        {"bank": "CAV", "head": "LogisticHead", "residual": "ResidualHead"},
    ),
    "zero-shot": ModelKind(
        "ZeroShot", _OF_SENTENCES, required=_OF_SENTENCES, is_trained=False
    ),
}


def choose_solver(n_clips: int) -> str:
    """Return the solver of support vector machines for a run; all its folds use this solver."""
    return PRIMAL if n_clips >= PRIMAL_CLIPS else LIBSVM


def finds_concepts(kind: str, settings: Mapping[str, Any]) -> bool:
    """Return whether a model fits concept vectors on clips, and does not read sentences."""
    return bool(find_kind(kind).head) and not settings.get(TEXTS)


def has_epochs(kind: str) -> bool:
    """Return whether a model type has epochs; user code is not loaded for this."""
    return kind in KINDS and KINDS[kind].has_epochs


def trainable() -> list[str]:
    """Return the model types that `obygaze train` accepts."""
    names = []
    for name, kind in KINDS.items():
        if kind.reads == "clip" and kind.is_trained:
            names.append(name)
    return [*names, VECTORS]


def find_kind(name: str) -> ModelKind:
    """Return a model type by name; raise an error that lists the known types."""
    if is_user_code(name) or is_of_sklearn(name):
        return ModelKind("", class_name=name)
    if name == ESTIMATOR:
        return ModelKind("", required=(ESTIMATOR,))
    return KINDS[_known_name(name, KINDS, "model kind")]


def is_kind(name: str) -> bool:
    """Return whether a name is a model type, or a class of user code or scikit-learn."""
    return (
        is_user_code(name) or is_of_sklearn(name) or name in KINDS or name == ESTIMATOR
    )


def class_parameters(user_code: UserCode) -> list[inspect.Parameter]:
    """Return the parameters of a class of user code.

    Raise an error if it is not the class of a classifier, or if a parameter has no default.
    """
    own_class: Any = user_code.load_function()
    for method in ("fit", "get_params"):
        is_class = isinstance(own_class, type)
        if is_class and not callable(getattr(own_class, method, None)):
            raise user_code.refuse(
                f"must be the class of a classifier; it has no {method}()"
            )
    if is_of_sklearn(user_code.name):
        from sklearn.base import ClassifierMixin

        if not issubclass(own_class, ClassifierMixin):
            raise user_code.refuse(
                "must be the class of a classifier, such as sklearn.svm.SVC"
            )
    has_scores = any(hasattr(own_class, name) for name in SCORES)
    if isinstance(own_class, type) and not has_scores:
        raise user_code.refuse(WITHOUT_SCORES)
    signature = user_code.call(
        lambda: inspect.signature(own_class), "has no parameters that can be read"
    )
    parameters = [*signature.parameters.values()]
    for parameter in parameters:
        if parameter.default is parameter.empty:
            message = f"the parameter {parameter.name} has no default"
            raise FixInput(message, where=user_code.where)
    return parameters


def _is_plain(value: Any) -> bool:
    """Return whether a value can be stored as JSON; a tuple becomes a list."""
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    if isinstance(value, Mapping):
        has_names = all(isinstance(key, str) for key in value)
        return has_names and all(_is_plain(item) for item in value.values())
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str | bool | int)


def estimator_class(name: str) -> Any:
    """Return the estimator class of a name; raise an error that lists the known classes."""
    module = CLASSES[_known_name(name, CLASSES, "estimator")]
    return getattr(import_module(f"{__package__}.{module}"), name)


def class_of_name(name: Any) -> Any:
    """Return the class of an estimator in a saved model, or None for an unknown name."""
    if not isinstance(name, str):
        return None
    if name in OF_SKLEARN:
        module, _, attribute = name.rpartition(".")
        return getattr(import_module(module), attribute)
    return estimator_class(name) if name in CLASSES else None


def name_of_class(made: type) -> str:
    """Return the name of an estimator class in a saved model; raise an error if it has none."""
    path = public_path(made)
    for name in (made.__name__, path):
        if class_of_name(name) is made:
            return name
    raise FixInput(
        f"{path} cannot be kept: a kept model is arrays and numbers, and no code",
        hint="test it with og.evaluate, or as models.mine.kind of a run; docs/own-parts.md lists"
        " what can be kept",
    )


def public_path(made: type) -> str:
    """Return the name of a class for a message: `sklearn.svm.SVC`, or `mine.py:NearestMean`.

    Private modules are left out.
    """
    module = sys.modules.get(made.__module__)
    file = getattr(module, "__file__", None)
    if file and module is not None and module.__spec__ is None:  # a file of a user
        return f"{Path(file).name}:{made.__name__}"
    modules = [part for part in made.__module__.split(".") if not part.startswith("_")]
    return ".".join([*modules, made.__name__])


def default_settings(kind: str) -> Settings:
    """Return the default of each setting of a model type.

    Defaults that a file cannot contain are excluded.
    """
    return find_kind(kind).defaults


def setting_problem(kind: str, name: str, value: Any) -> str | None:
    """Return what is wrong with the value of a setting, or None if it is valid."""
    expected = find_kind(kind).types[name]
    if expected is Any and not _is_plain(value):
        return "must be text, a finite number, true, false, or a list or a table of such values"
    # NumPy floats are a subclass of float that msgspec does not accept.
    plain = float(value) if isinstance(value, float) else value
    return problem_with(plain, expected)


def build(
    kind: str, settings: Mapping[str, Any] | None = None, *, seed: int = 0
) -> Any:
    """Return the unfitted estimator of a model type.

    Args:
        kind: The name of the model type.
        settings: Values of its settings; missing settings have their defaults.
        seed: The seed of random numbers.
    """
    model_kind = find_kind(kind)
    known = model_kind.types
    for name, value in (settings or {}).items():
        if name not in known:
            raise FixInput(
                f"unknown setting of {kind} {name!r}{near(name, known)}",
                hint=f"use one of {', '.join(known)}",
            )
        problem = setting_problem(kind, name, value)
        if problem:
            raise FixInput(
                f"{name} {problem}, got {value!r}", where=f"settings of {kind}"
            )
    if model_kind.class_name:
        values = {**model_kind.defaults, **(settings or {})}
        return build_own(model_kind.class_name, values, seed)
    if not model_kind.estimator:
        raise FixUsage(
            "this model is an estimator of Python, which a file cannot make again",
            hint="use og.evaluate or og.train with the estimator",
        )
    estimator = model_kind.make()
    for name, value in (settings or {}).items():
        path = model_kind.parameters[name]
        estimator.set_params(**{path: _parameter(value)})
    if model_kind.has_epochs:
        estimator.set_params(random_state=seed)
    if model_kind.head:
        estimator.set_params(bank__random_state=seed)
    return estimator


def _parameter(value: Any) -> Any:
    """Return the value of a setting as a parameter of a class."""
    if isinstance(value, list):
        return tuple(value)
    return None if value == NO_VALUE else value


def build_own(name: str, values: Settings, seed: int) -> Any:
    """Return the unfitted estimator of a class of user code or scikit-learn.

    Args:
        name: The name of the class, or of a function that returns an estimator.
        values: The parameters of the class, and `package`: the version of its code. An error is
            raised if the code has a different version now.
        seed: The value of a parameter `random_state` of None.
    """
    user_code = find_user_code(name)
    settings = {**values}
    package = settings.pop(PACKAGE, user_code.package)
    if package != user_code.package:
        raise Mismatch(
            f"{name} was changed during the run: expected {package}, got"
            f" {user_code.package}",
            hint="run the command again",
        )
    if settings.get("random_state", seed) is None:
        settings["random_state"] = seed
    for parameter in class_parameters(user_code):
        # TOML has lists only; a parameter with a tuple as default gets a tuple.
        default = parameter.default
        value = settings.get(parameter.name)
        if isinstance(default, list | tuple) and isinstance(value, list | tuple):
            settings[parameter.name] = type(default)(value)
    own_class = user_code.load()
    estimator = user_code.call(lambda: own_class(**settings), "failed")
    if not callable(getattr(estimator, "fit", None)):
        raise user_code.refuse("must be the class of a classifier; it has no fit()")
    return estimator


def build_bank(settings: Mapping[str, Any], *, seed: int = 0) -> Any:
    """Return the unfitted concept vectors for the settings of a bottleneck.

    Args:
        settings: All settings of `BANK`; other settings are ignored.
        seed: The seed of balanced subsamples.
    """
    bank = estimator_class("CAV")(random_state=seed)
    for name, path in BANK.items():
        part, _, parameter = path.partition("__")
        if part == "bank":
            bank.set_params(**{parameter: _parameter(settings[name])})
    return bank


def _known_name(name: str, names: Iterable[str], noun: str) -> str:
    """Return a known name; raise an error that lists the known names for any other."""
    names = list(names)
    if name not in names:
        meant = near(str(name), names)
        raise FixInput(
            f"unknown {noun} {name!r}{meant}", hint=f"use one of {', '.join(names)}"
        )
    return name

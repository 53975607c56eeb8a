"""The registry of models: the class and the settings of each model type, by name.

A protocol names a model type, such as `kind = "pcbm-lr"`. `KINDS` contains for each type the
estimator class, and the types and defaults of its settings; `build` returns an unfitted estimator.
An unknown type or setting is an error that lists the known ones.

    >>> from obygaze_models.models.registry import build, default_settings
    >>> default_settings("logistic")
    {'C': 1.0, 'class_weight': 'balanced'}
    >>> build("logistic", {"C": 0.5})
    LogisticProbe(C=0.5, class_weight='balanced')

`build_bank` returns concept vectors without a head. Nothing is imported before an estimator is
built, so a command can read names and settings at start.
"""

import inspect
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any, Literal, get_type_hints

from msgspec import Meta, Struct

from obygaze_features.core.errors import FixInput, near
from obygaze_features.core.schema_check import one_of, problem_with
from obygaze_features.core.user_code import (
    UserCode,
    find_user_code,
    is_of_sklearn,
    is_user_code,
)

Settings = dict[str, Any]

# The estimator classes that can be saved, each with its module; a saved model names its class.
CLASSES = {
    "MLPProbe": "mlp",
    "LogisticProbe": "linear",
    "RidgeProbe": "linear",
    "SVMProbe": "linear",
    "FrameProbe": "frames",
    "ConceptBank": "concepts",
    "LogisticHead": "heads",
    "TreeHead": "heads",
    "ResidualHead": "bottleneck",
    "Bottleneck": "bottleneck",
    "ZeroShot": "sentences",
}
# The class for user code and scikit-learn; it cannot be saved.
OWN_CLASS = {"OwnClassifier": "own"}
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


# ---- settings: a type and a default each ----

_Positive = Annotated[
    float, Meta(gt=0, le=sys.float_info.max, description="a number, above 0")
]
_Whole = Annotated[int, Meta(ge=0, description="a whole number, at least 0")]
_Whole1 = Annotated[int, Meta(ge=1, description="a whole number, at least 1")]
_Weight = Literal["balanced", "none"]
_Attribute = Annotated[
    str, Meta(min_length=1, description="an attribute of the prompt file")
]
PUBLISHED_TOLERANCE = "published"  # the tolerance of a concept in the released code


class Ridge(Struct):
    """The settings of a ridge classifier, whose penalty is chosen by leave-one-film-out errors."""

    class_weight: _Weight = "none"


class Logistic(Struct):
    """The settings of a logistic regression on features."""

    C: _Positive = 1.0
    class_weight: _Weight = "balanced"


class Svm(Struct):
    """The settings of a linear support vector machine."""

    C: Annotated[
        Literal["published"] | _Positive,
        Meta(description="a number, above 0, or published"),
    ] = 1.0
    class_weight: _Weight = "balanced"


class Perceptron(Struct):
    """The settings of a multilayer perceptron."""

    hidden: Annotated[
        tuple[_Whole1, ...],
        Meta(min_length=1, description="a list of whole numbers, at least 1"),
    ] = (128,)
    min_epochs: _Whole = 5
    max_epochs: _Whole1 = 100
    patience: _Whole1 = 5
    batch_size: _Whole1 = 16
    learning_rate: _Positive = 1e-3
    dropout: Annotated[float, Meta(ge=0, le=0.99)] = 0.0
    class_weight: _Weight = "none"
    keep: Literal["best", "last"] = "best"
    double_softmax: bool = False


class Bank(Struct):
    """The settings of concept vectors, which are fitted on clips or made from `texts`.

    Two settings need published folds (see `ConceptBank`). The tolerance "folds" is the tolerance
    with the best mean F1 over these folds. `best_of_folds` keeps the best of the vectors that are
    each fitted without one fold.
    """

    tolerance: Annotated[
        Literal["published", "inner", "folds"]
        | _Positive
        | Annotated[dict[str, _Positive], Meta(min_length=1)],
        Meta(
            description="a number, above 0, a table of such numbers by concept, or one"
            " of published, inner, folds"
        ),
    ] = "inner"
    best_of_folds: bool = False
    balance: Literal["weights", "subsample", "none"] = "weights"
    unit_norm: bool = True
    against: Literal["EN", "absent"] = "absent"
    cross_fit: _Whole = 5
    texts: Annotated[
        str, Meta(description="a file that `obygaze extract text` wrote")
    ] = ""


class Tree(Bank):
    """The settings of a bottleneck with a decision tree."""

    max_depth: _Whole1 = 4
    min_samples_leaf: _Whole1 = 6
    random_state: Annotated[int, Meta(ge=0, lt=2**32)] = 0  # the range of scikit-learn


class LogisticBottleneck(Bank):
    """The settings of a bottleneck with a logistic regression."""

    C: _Positive = 0.1
    penalty: Literal["l1", "l2"] = "l2"
    scaled: bool = True


class HybridBottleneck(Bank):
    """The settings of a bottleneck with a residual that reads the features."""

    C: _Positive = 0.1
    residual_C: _Positive = 0.01
    scaled: bool = True


class Attributes(Struct):
    """The settings of a zero-shot model with two attributes of a prompt file."""

    texts: Annotated[
        str,
        Meta(min_length=1, description="a file that `obygaze extract text` wrote"),
    ]
    positive: _Attribute
    negative: _Attribute


class Frames(Struct):
    """The settings of a logistic regression on pooled frames."""

    pooling: Literal["max", "mean", "last"] = "max"
    C: _Positive = 1.0


BANK = tuple(name for name in Bank.__struct_fields__ if name != TEXTS)


# ---- kinds ----


@dataclass(frozen=True)
class ModelKind:
    """One model type.

    Attributes:
        estimator: The name of the estimator class.
        settings: The settings, named as the parameters of the class or of its head.
        head: The name of the head class of a bottleneck.
        class_name: The name of a class of user code or scikit-learn.
        reads: The features of a clip: one vector, or one vector per frame.
        is_trained: Whether scores depend on the training clips.
        has_epochs: Whether training starts from random weights and stops early on validation clips.
    """

    estimator: str
    settings: type[Struct] = Struct
    head: str = ""
    class_name: str = ""
    reads: Literal["clip", "frames"] = "clip"
    is_trained: bool = True
    has_epochs: bool = False

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
        return get_type_hints(self.settings, include_extras=True)

    @property
    def defaults(self) -> Settings:
        """The defaults of the settings; a default that a file cannot contain is excluded."""
        if self.class_name:
            return {
                name: value for name, value in self._own.items() if _is_plain(value)
            }
        # Settings without a default come first.
        names = self.settings.__struct_fields__
        values = self.settings.__struct_defaults__
        return dict(zip(names[len(names) - len(values) :], values, strict=True))


CAV = "cav"  # concept vectors without a head, for `obygaze train`
DEFAULT_TASK = "EN_S"  # a task of the protocol `honest`, used if no task is stated
KINDS = {
    "mlp": ModelKind("MLPProbe", Perceptron, has_epochs=True),
    "logistic": ModelKind("LogisticProbe", Logistic),
    "ridge": ModelKind("RidgeProbe", Ridge),
    "svm": ModelKind("SVMProbe", Svm),
    "frames": ModelKind("FrameProbe", Frames, reads="frames"),
    "pcbm-dt": ModelKind("Bottleneck", Tree, "TreeHead"),
    "pcbm-lr": ModelKind("Bottleneck", LogisticBottleneck, "LogisticHead"),
    "pcbm-h": ModelKind("Bottleneck", HybridBottleneck, "LogisticHead"),
    "zero-shot": ModelKind("ZeroShot", Attributes, is_trained=False),
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
    return [*names, CAV]


def find_kind(name: str) -> ModelKind:
    """Return a model type by name; raise an error that lists the known types."""
    if is_user_code(name) or is_of_sklearn(name):
        return ModelKind("OwnClassifier", class_name=name)
    return KINDS[_known_name(name, KINDS, "model kind")]


def is_kind(name: str) -> bool:
    """Return whether a name is a model type, or a class of user code or scikit-learn."""
    return is_user_code(name) or is_of_sklearn(name) or name in KINDS


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
    classes = {**CLASSES, **OWN_CLASS}
    module = classes[_known_name(name, classes, "estimator")]
    return getattr(import_module(f"{__package__}.{module}"), name)


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
    values = {**model_kind.defaults, **(settings or {})}
    estimator = estimator_class(model_kind.estimator)
    if model_kind.class_name:
        if values.get("random_state", seed) is None:
            values["random_state"] = seed
        return estimator(model_kind.class_name, values)
    not_of_head = (*BANK, TEXTS, "residual_C") if model_kind.head else ()
    parameters = {}
    for name, value in values.items():
        if name not in not_of_head:
            parameters[name] = _parameter(value)
    if model_kind.has_epochs:
        parameters["random_state"] = seed
    if not model_kind.head:
        return estimator(**parameters)
    residual = None
    if "residual_C" in values:
        residual = estimator_class("ResidualHead")(values["residual_C"])
    return estimator(
        build_bank(values, seed=seed),
        estimator_class(model_kind.head)(**parameters),
        residual=residual,
        cross_fit=values["cross_fit"],
        texts=values[TEXTS],
    )


def _parameter(value: Any) -> Any:
    """Return the value of a setting as a parameter of a class."""
    if isinstance(value, list):
        return tuple(value)
    return None if value == "none" else value


def build_bank(settings: Mapping[str, Any], *, seed: int = 0) -> Any:
    """Return the unfitted `ConceptBank` for the settings of a bottleneck.

    Args:
        settings: All settings of `BANK`; other settings are ignored.
        seed: The seed of balanced subsamples.
    """
    bank = estimator_class("ConceptBank")
    return bank(
        C=settings["tolerance"],
        balance=_parameter(settings["balance"]),
        unit_norm=settings["unit_norm"],
        random_state=seed,
        against=settings["against"],
        best_of_folds=settings["best_of_folds"],
    )


def _known_name(name: str, names: Iterable[str], noun: str) -> str:
    """Return a known name; raise an error that lists the known names for any other."""
    names = list(names)
    if name not in names:
        meant = near(str(name), names)
        raise FixInput(
            f"unknown {noun} {name!r}{meant}", hint=f"use one of {', '.join(names)}"
        )
    return name

"""The registry of models: each kind by name, with its class, its settings and how it is built.

A kind is what a protocol writes as `kind = "pcbm-lr"`. `KINDS` has for each the estimator class,
the type and the default of each setting; `build` makes the estimator, ready to fit. An unknown
kind or setting is an error that lists the known ones; nothing falls back to another kind.

    >>> from obygaze_models.models.registry import build, default_settings
    >>> default_settings("logistic")
    {'C': 1.0, 'class_weight': 'balanced'}
    >>> build("logistic", {"C": 0.5})
    LogisticProbe(C=0.5, class_weight='balanced')

Code that finds concept vectors alone takes `build_bank`. Nothing is imported before an estimator is
built, so a command may read the names and rules at start.
"""

import inspect
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Literal

from msgspec import Meta

from obygaze_features.core.errors import FixInput, near
from obygaze_features.core.parts import Part, find_part, is_of_sklearn, is_own_code
from obygaze_features.core.schema_check import one_of, problem_with

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
# The class that calls code of others, which a run fits and nothing saves.
OWN_CLASS = {"OwnClassifier": "own"}
# Keys of a model in a protocol that are no parameter of an own class.
RESERVED = ("kind", "package")
# The methods of a classifier that give scores; one of them is enough.
SCORES = ("predict_proba", "decision_function")
WITHOUT_SCORES = (
    "must be a classifier with scores; it has neither predict_proba() nor"
    " decision_function()"
)
# What predictions call the part of a hybrid bottleneck that reads the features themselves.
RESIDUAL = "residual"
# The setting that names the sentences of a model.
TEXTS = "texts"
# The solvers of support vector machines. From so many clips on, the second needs less time
# (benchmarks/concepts.py); its memory does not grow with the square of the clips.
LIBSVM = "libsvm"
PRIMAL = "primal"
PRIMAL_CLIPS = 8_000
MIN_CLIPS = 3  # with a concept, and without it, to find its vector


@dataclass(frozen=True)
class Setting:
    """The type of a setting's values, and the value where none is given.

    The type `Any` is what JSON can hold. A default that is not stated is written to no file: that
    of an own class may not be a plain value (it may be a class, or nan), and settings of sentences
    have no default. Of a setting without `has_grid` no clip chooses a value.
    """

    type: Any
    default: Any
    is_stated: bool = True
    has_grid: bool = True
    is_required: bool = False

    def problem(self, value: Any) -> str | None:
        """Return what a value must be; None if it may be this one."""
        if self.type is Any and not _is_plain(value):
            return "must be text, a finite number, true, false, or a list or a table of those"
        # Numbers of NumPy are a subclass, which msgspec does not take.
        plain = float(value) if isinstance(value, float) else value
        return problem_with(plain, self.type)


@dataclass(frozen=True)
class Baseline:
    """One baseline: what it reads of clips, and whether it learns from those that train.

    One that `is_drawn` gives all clips one score, and calls half of each positive.
    """

    needs: Literal["", "films", "scenes", "concepts"] = ""
    is_trained: bool = True
    is_drawn: bool = False


# None has a setting.
BASELINES = {
    "random": Baseline(is_trained=False, is_drawn=True),
    "all_positive": Baseline(is_trained=False),
    "prevalence": Baseline(),
    "film_prior": Baseline(needs="films"),
    "neighbour": Baseline(needs="scenes"),
    "oracle": Baseline(needs="concepts"),
}
UNTRAINED = tuple(name for name, kind in BASELINES.items() if not kind.is_trained)


@dataclass(frozen=True)
class ModelKind:
    """One kind: the class and the settings of its estimator, or for a bottleneck of its head.

    `estimator` is the class that is fitted; `head` is that of a bottleneck's head, and
    `class_settings` are the settings of the head (without a head, of the estimator), named as the
    parameters of the class. `class_name` is the name of an own class. `reads` is what a clip is:
    one vector, or one for each frame. Of a kind that is not `is_trained` the scores are the same
    whatever the training clips are. One that `has_epochs` starts from weights that a seed draws,
    and stops on validation clips.
    """

    estimator: str
    class_settings: Mapping[str, Setting]
    head: str = ""
    class_name: str = ""
    reads: Literal["clip", "frames"] = "clip"
    is_trained: bool = True
    has_epochs: bool = False

    @property
    def settings(self) -> Mapping[str, Setting]:
        """All settings; for a bottleneck those of its concept vectors come first."""
        if not self.head:
            return self.class_settings
        return {**BANK, TEXTS: _TEXTS, **self.class_settings}


_Positive = Annotated[
    float, Meta(gt=0, le=sys.float_info.max, description="a number, above 0")
]
_Whole = Annotated[int, Meta(ge=0, description="a whole number, at least 0")]
_Whole1 = Annotated[int, Meta(ge=1, description="a whole number, at least 1")]
PUBLISHED_TOLERANCE = "published"  # the tolerance of a concept in the released code
_WEIGHT = Literal["balanced", "none"]
_SCALED = Setting(bool, True)
_UNWEIGHTED = Setting(_WEIGHT, "none")

_TEXTS = Setting(
    Annotated[
        str, Meta(min_length=1, description="a file that `obygaze extract text` wrote")
    ],
    "",
    is_stated=False,
    has_grid=False,
)
_ATTRIBUTE = Setting(
    Annotated[str, Meta(min_length=1, description="an attribute of the prompt file")],
    "",
    is_stated=False,
    has_grid=False,
    is_required=True,
)
# The settings of concept vectors that are found on clips. With published folds, a tolerance "folds"
# is chosen over them, and `best_of_folds` takes the best of the vectors that were found without
# each fold.
BANK = {
    "tolerance": Setting(
        Annotated[
            Literal["published", "inner", "folds"]
            | _Positive
            | Annotated[dict[str, _Positive], Meta(min_length=1)],
            Meta(
                description="a number, above 0, a table of such numbers by concept, or one"
                " of published, inner, folds"
            ),
        ],
        "inner",
    ),
    "best_of_folds": Setting(bool, False),
    "balance": Setting(Literal["weights", "subsample", "none"], "weights"),
    "unit_norm": Setting(bool, True),
    "against": Setting(Literal["EN", "absent"], "absent"),
    "cross_fit": Setting(_Whole, 5),
}
_MLP = {
    "hidden": Setting(
        Annotated[
            list[_Whole1],
            Meta(min_length=1, description="a list of whole numbers, at least 1"),
        ],
        [128],
    ),
    "min_epochs": Setting(_Whole, 5),
    "max_epochs": Setting(_Whole1, 100),
    "patience": Setting(_Whole1, 5),
    "batch_size": Setting(_Whole1, 16),
    "learning_rate": Setting(_Positive, 1e-3),
    "dropout": Setting(Annotated[float, Meta(ge=0, le=0.99)], 0.0),
    "class_weight": _UNWEIGHTED,
    "keep": Setting(Literal["best", "last"], "best"),
    "double_softmax": Setting(bool, False),
}
_TREE = {
    "max_depth": Setting(_Whole1, 4),
    "min_samples_leaf": Setting(_Whole1, 6),
    "random_state": Setting(
        Annotated[int, Meta(ge=0, lt=2**32)], 0
    ),  # what scikit-learn takes
}
_LOGISTIC = {
    "C": Setting(_Positive, 0.1),
    "penalty": Setting(Literal["l1", "l2"], "l2"),
    "scaled": _SCALED,
}
_HYBRID = {
    "C": Setting(_Positive, 0.1),
    "residual_C": Setting(_Positive, 0.01),
    "scaled": _SCALED,
}
_LOGREG = {"C": Setting(_Positive, 1.0), "class_weight": Setting(_WEIGHT, "balanced")}
_SENTENCES = {
    TEXTS: replace(_TEXTS, is_required=True),
    "positive": _ATTRIBUTE,
    "negative": _ATTRIBUTE,
}
_FRAMES = {
    "pooling": Setting(Literal["max", "mean", "last"], "max"),
    "C": Setting(_Positive, 1.0),
}

CAV = "cav"  # concept vectors alone, which `obygaze train` takes
DEFAULT_TASK = "EN_S"  # of the protocol `honest`, where no task is named
KINDS = {
    "mlp": ModelKind("MLPProbe", _MLP, has_epochs=True),
    "logistic": ModelKind("LogisticProbe", _LOGREG),
    "ridge": ModelKind("RidgeProbe", {"class_weight": _UNWEIGHTED}),
    "svm": ModelKind(
        "SVMProbe",
        {
            "C": Setting(
                Annotated[
                    Literal["published"] | _Positive,
                    Meta(description="a number, above 0, or published"),
                ],
                1.0,
            ),
            "class_weight": Setting(_WEIGHT, "balanced"),
        },
    ),
    "frames": ModelKind("FrameProbe", _FRAMES, reads="frames"),
    "pcbm-dt": ModelKind("Bottleneck", _TREE, "TreeHead"),
    "pcbm-lr": ModelKind("Bottleneck", _LOGISTIC, "LogisticHead"),
    "pcbm-h": ModelKind("Bottleneck", _HYBRID, "LogisticHead"),
    "zero-shot": ModelKind("ZeroShot", _SENTENCES, is_trained=False),
}


def solver_of(n_clips: int) -> str:
    """Return the solver of support vector machines; a run has one for all of its folds."""
    return PRIMAL if n_clips >= PRIMAL_CLIPS else LIBSVM


def finds_concepts(kind: str, settings: Mapping[str, Any]) -> bool:
    """Return whether a model finds concept vectors on clips; those of sentences are said."""
    return bool(find_kind(kind).head) and TEXTS not in settings


def has_epochs(kind: str) -> bool:
    """Return whether a kind starts at random and has epochs; no code of others is read for it."""
    return kind in KINDS and KINDS[kind].has_epochs


def trainable() -> list[str]:
    """Return the names that `obygaze train` takes."""
    names = []
    for name, kind in KINDS.items():
        if kind.reads == "clip" and kind.is_trained:
            names.append(name)
    return [*names, CAV]


def find_kind(name: str) -> ModelKind:
    """Return the kind of a name; raise an error that lists the known kinds."""
    if is_own_code(name) or is_of_sklearn(name):
        return _kind_of_part(find_part(name))
    return KINDS[_known_name(name, KINDS, "model kind")]


def is_kind(name: str) -> bool:
    """Return whether a name is that of a kind, or of a class of own code or of scikit-learn."""
    return is_own_code(name) or is_of_sklearn(name) or name in KINDS


@cache
def _kind_of_part(part: Part) -> ModelKind:
    """Return the kind of an own class: its settings are the parameters of the class."""
    class_settings = {}
    for parameter in class_parameters(part):
        # In a protocol these words have another meaning: such a parameter keeps its default.
        if parameter.name not in RESERVED:
            class_settings[parameter.name] = Setting(
                Any, parameter.default, _is_plain(parameter.default)
            )
    package = {
        "package": Setting(Annotated[str, one_of((part.package,))], part.package)
    }
    return ModelKind(
        "OwnClassifier", {**class_settings, **package}, class_name=part.name
    )


def class_parameters(part: Part) -> list[inspect.Parameter]:
    """Return the parameters of an own class; an error unless it is one of a classifier."""
    own_class: Any = part.load_function()
    for method in ("fit", "predict", "get_params"):
        is_class = isinstance(own_class, type)
        if is_class and not callable(getattr(own_class, method, None)):
            raise part.refuse(
                f"must be the class of a classifier; it has no {method}()"
            )
    if is_of_sklearn(part.name):
        from sklearn.base import ClassifierMixin

        if not issubclass(own_class, ClassifierMixin):
            raise part.refuse(
                "must be the class of a classifier, such as sklearn.svm.SVC"
            )
    has_scores = any(hasattr(own_class, name) for name in SCORES)
    if isinstance(own_class, type) and not has_scores:
        raise part.refuse(WITHOUT_SCORES)
    signature = part.call(
        lambda: inspect.signature(own_class), "has no parameters that can be read"
    )
    parameters = [*signature.parameters.values()]
    for parameter in parameters:
        if parameter.default is parameter.empty:
            message = f"the parameter {parameter.name} has no default"
            raise FixInput(message, where=part.where)
    return parameters


def _is_plain(value: Any) -> bool:
    """Whether JSON can hold a value: text, a finite number, true, false, none, a list, a table."""
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
    """Return every setting of a kind with its default, if that can be stated in a file."""
    settings = find_kind(kind).settings.items()
    return {name: setting.default for name, setting in settings if setting.is_stated}


def build(
    kind: str, settings: Mapping[str, Any] | None = None, *, seed: int = 0
) -> Any:
    """Return the estimator of a kind, ready to fit.

    Args:
        kind: The name of a kind.
        settings: Values of its settings; those that are missing have their defaults.
        seed: The seed of whatever is drawn at random.
    """
    model_kind = find_kind(kind)
    values = default_settings(kind)
    for name, value in (settings or {}).items():
        if name not in model_kind.settings:
            raise FixInput(
                f"unknown setting of {kind} {name!r}{near(name, model_kind.settings)}",
                hint=f"one of {', '.join(model_kind.settings)}",
            )
        reason = model_kind.settings[name].problem(value)
        if reason:
            raise FixInput(
                f"{name} {reason}, got {value!r}", where=f"settings of {kind}"
            )
        values[name] = value
    estimator = estimator_class(model_kind.estimator)
    if model_kind.class_name:
        if values.get("random_state", seed) is None:
            values["random_state"] = seed
        return estimator(model_kind.class_name, values)
    parameters = {}
    for name in model_kind.class_settings:
        if name != "residual_C" and name in values:
            parameters[name] = _parameter(values[name])
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
        texts=values.get(TEXTS, ""),
    )


def _parameter(value: Any) -> Any:
    """Return the value of a setting as a class takes it."""
    if isinstance(value, list):
        return tuple(value)
    return None if value == "none" else value


def build_bank(settings: Mapping[str, Any], *, seed: int = 0) -> Any:
    """Return the `ConceptBank` of a bottleneck's settings, ready to fit.

    Args:
        settings: The settings of `BANK`, each with its value; others are ignored.
        seed: The seed of a balanced draw.
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
    """Return a name that is one of some names; an error that lists them for any other."""
    names = list(names)
    if name not in names:
        meant = near(str(name), names)
        raise FixInput(
            f"unknown {noun} {name!r}{meant}", hint=f"one of {', '.join(names)}"
        )
    return name

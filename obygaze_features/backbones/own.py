"""Backbones of user code: any torch module, from a file, a module or a package."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from importlib import metadata
from logging import Logger
from math import prod
from numbers import Number
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from obygaze_features.backbones.backbone import (
    TorchBackbone,
    check_pictures,
    on_device,
)
from obygaze_features.backbones.card import (
    DEFAULT_PRESET,
    Card,
    Family,
    Preset,
    require_pictures,
)
from obygaze_features.backbones.geometry import FeatureArray, Geometry
from obygaze_features.backbones.placement import (
    Placement,
)
from obygaze_features.backbones.weight_files import (
    WeightFiles,
)
from obygaze_features.backbones.weights import (
    hashes_of_files,
    tensors_sha256,
)
from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput, NotFound, first_line
from obygaze_features.core.external_calls import short_value
from obygaze_features.core.files import canonical_json, sha256_bytes, sha256_file
from obygaze_features.core.user_code import (
    UserCode,
    find_user_code,
    imported_roots,
    packages_of_modules,
    trust,
)
from obygaze_features.store.layout import (
    CLEAN,
    MASK,
    N_WORDS,
    PICTURES,
    TIMES,
    Array,
    check_arrays,
)
from obygaze_features.store.recipe import TENSORS

if TYPE_CHECKING:
    from torch import Tensor

_DEFAULT = Preset()
NORMALISED = "normalised"
LEVELS = "levels"
VALUES = (NORMALISED, LEVELS)
# Arrays of a store that are not features.
_OTHER_ARRAYS = (*TIMES, MASK, PICTURES, CLEAN, N_WORDS)
# The ends of attribute names under which torch stores hooks of a module, and a memory address.
_HOOKS = (
    "_hooks",
    "_hooks_with_kwargs",
    "_hooks_always_called",
    "_torchdynamo_wrapper_id",
)
Load = Callable[[], Any]
RunModule = Callable[[Any, "Tensor"], Any]
T = TypeVar("T")


def module_card(
    name: str,
    load: Load,
    run: RunModule,
    *,
    arrays: Mapping[str, Sequence[int]],
    frames: int,
    size: int = 0,
    height: int = 0,
    width: int = 0,
    licence: str,
    values: str = NORMALISED,
    title: str = "",
    citation: str = "",
    preset: Preset = _DEFAULT,
    files: Sequence[str | Path] | None = None,
) -> Card:
    """Return the card of a torch module, for a function that `-b FILE.py:NAME` names.

    Args:
        name: The name in stores and in the names of stores.
        load: Returns the module with its weights.
        run: Returns the arrays of the module for pixels [B, T, 3, height, width], each [B, ...]: a
            mapping of names to tensors or NumPy arrays of any number format.
        arrays: The shape of each array of one clip, such as {"clip": [512], "frames": [16, 512]}.
            Experiments read the first array with one vector per clip.
        frames: Frames of a clip.
        size: Height and width of the pixels, if they are equal.
        height: Height of the pixels, if it differs from the width.
        width: Width of the pixels.
        licence: The licence of the weights.
        values: "normalised" for pixels normalised by the preset, or "levels" for 0 to 255 as uint8.
        title: A few words for lists. The default is the name.
        citation: The publication to cite.
        preset: The preprocessing of frames to pixels.
        files: Files that `load` and `run` read, other than tensors, arrays and numbers of the
            module, such as an ONNX model or settings: recipes contain their hashes. Pass an empty
            list for a module without weights and files.
    """
    texts = {"name": name, "licence": licence, "title": title, "citation": citation}
    for argument, text in texts.items():
        if not isinstance(text, str):
            raise FixInput(f"module_card: {argument} must be a string, got {text!r}")
    if not re.fullmatch(r"[\w.-]*[^\W_][\w.-]*", name):
        raise FixInput(
            f"module_card: name must have letters, digits, '-', '_' and '.' only, got {name!r}"
        )
    if not callable(load) or not callable(run) or not isinstance(preset, Preset):
        raise FixInput(
            "module_card: load and run must be functions, and preset a Preset"
        )
    if values not in VALUES:
        raise FixInput(
            f"module_card: values must be one of {few(VALUES)}, got {values!r}"
        )
    shapes = _shapes(name, arrays)
    paths: tuple[Path, ...] | None = None
    if files is not None:
        paths = tuple(Path(file).expanduser().absolute() for file in files)
    family = ModuleFamily(
        "own",
        "torch.nn.Module",
        outputs={},
        shapes=shapes,
        make=load,
        run=run,
        values=values,
        files=paths,
    )
    return Card(
        name,
        family,
        title or name,
        licence,
        _geometry(frames, size, height, width),
        sources={array: array for array in shapes},
        presets={DEFAULT_PRESET: preset},
        citation=citation,
    )


def _geometry(frames: Any, size: Any, height: Any, width: Any) -> Geometry:
    """Return the geometry of the frames; raise an error for lengths below 1."""
    is_square = height == width == 0
    if not is_square and size:
        raise FixInput("module_card: expected size, or height and width, got both")
    lengths = {"frames": frames, "height": height, "width": width}
    if is_square:
        lengths = {"frames": frames, "size": size}
    for argument, length in lengths.items():
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise FixInput(
                f"module_card: {argument} must be at least 1, got {length!r}"
            )
    if is_square or height == width:
        return Geometry(frames, size or height)
    return Geometry(frames, min(height, width), shape=(height, width))


def _shapes(
    name: str, arrays: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays; raise an error for names and shapes invalid in stores."""
    shapes = {array: tuple(map(int, shape)) for array, shape in arrays.items()}
    if not shapes or not all(shapes.values()) or min(map(min, shapes.values())) < 1:
        raise FixInput(
            f"module_card: arrays must state a shape for each array, got {dict(arrays)}",
            where=name,
        )
    for array, shape in shapes.items():
        check_arrays([Array.of(array, "float32", shape)], name)
        if array in _OTHER_ARRAYS:
            raise FixInput(
                f"an array cannot be called {array!r}: this name is reserved in stores",
                where=name,
            )
    return shapes


@dataclass(frozen=True, repr=False)
class ModuleFamily(Family):
    """The family of a torch module with its weights.

    Args:
        shapes: The shape of each array of a clip.
        make: Returns the module.
        run: Returns the arrays of the module for pixels.
        values: "normalised" or "levels", for the pixels.
        files: Files of the model whose hashes are in recipes, or None if they are not stated.
        user_code: The function that returned the card; the other functions are in the same code.
    """

    _: KW_ONLY
    shapes: Mapping[str, tuple[int, ...]]
    make: Load
    run: RunModule
    values: str = NORMALISED
    files: tuple[Path, ...] | None = None
    user_code: UserCode | None = None
    needs_weights: bool = False

    def load(
        self, card: Card, files: WeightFiles, placement: Placement
    ) -> TorchBackbone:
        """Return the backbone of the module."""
        module = self._call(self.make, "failed in load()")
        kind = LevelsBackbone if self.values == LEVELS else TorchBackbone
        return kind(
            card,
            card,
            module,
            partial(self._outputs, card.name),
            files=files,
            hashes=self._hashes(card, module),
            placement=placement,
        )

    def arrays(self, card: Card) -> dict[str, FeatureArray]:
        """Return the arrays with their shapes.

        If the first length of a shape is the number of frames, it is the dimension of frames.
        """
        arrays = {}
        for name, shape in self.shapes.items():
            dims = _dimensions(shape, card.geometry.frames)
            arrays[name] = FeatureArray(name, name, dims, shape)
        return arrays

    def activation_bytes(self, g: Geometry, dtype: str, attention: str) -> int:
        """Return a rough estimate of the memory of one clip.

        If it is too low, a batch does not fit in memory and is halved.
        """
        return int(self.live * g.frames * 3 * prod(g.frame_shape) * 4)

    def _call(self, function: Callable[[], T], failure: str) -> T:
        """Call user code and return its result. Errors start with its name, then `failure`."""
        if self.user_code is None:
            return function()
        return self.user_code.call(function, failure)

    def _outputs(
        self, card: str, module: Any, pixels: Tensor, mask: Tensor, g: Geometry
    ) -> dict[str, Tensor]:
        """Return the arrays that the module computes from pixels, as floats, by name."""
        import torch

        returned = self._call(lambda: self.run(module, pixels), "failed in run()")
        if not isinstance(returned, Mapping):
            raise FixInput(
                f"{card}: run() must return a mapping of the names in arrays,"
                f" got {short_value(returned)}"
            )
        absent = sorted(self.shapes.keys() - returned.keys())
        if absent:
            raise FixInput(
                f"{card}: run() must return all arrays of the card, missing: {', '.join(absent)}"
            )
        outputs = {}
        for name, array in returned.items():
            tensor = torch.as_tensor(array, device=pixels.device)
            outputs[name] = tensor if tensor.is_floating_point() else tensor.float()
        return outputs

    def _hashes(self, card: Card, module: Any) -> dict[str, str]:
        """Return the sha256 of the content of a module, and of each file of the model."""
        import torch

        if not isinstance(module, torch.nn.Module):
            raise FixInput(
                f"{card.name}: load() must return a torch.nn.Module,"
                f" got {type(module).__name__}",
            )
        if any(isinstance(part, torch.jit.ScriptModule) for part in module.modules()):
            raise FixInput(
                f"{card.name}: load() must return a module of Python, got TorchScript",
            )
        for key, value in module.state_dict().items():
            if value is not None and not isinstance(value, torch.Tensor):
                raise FixInput(
                    f"{card.name}: {key} of the module is a {type(value).__name__}, which cannot be"
                    " hashed",
                    where=card.origin,
                )
        seen: dict[int, Any] = {}
        objects = {"run()": self.run}
        contents = dict(_contents(module, "", seen, objects))
        for place, value in objects.items():
            if _holds_array(value, seen):
                raise FixInput(
                    f"{card.name}: {place} of the module is of the class {type(value).__name__}"
                    " and holds an array that cannot be hashed",
                    where=card.origin,
                    hint="keep the array in an attribute, a list or a dictionary of the module",
                )
        has_weights = any(not isinstance(value, Number) for value in contents.values())
        if not has_weights and self.files is None:
            raise FixInput(
                f"{card.name}: the module has no weights",
                where=card.origin,
                hint="use module_card(files=[PATH]) with the files of the model, or files=[] if it"
                " has none",
            )
        for path in self.files or ():
            if not path.is_file():
                raise NotFound(
                    f"{card.name}: a file of module_card(files=[...]) is missing",
                    where=str(path),
                    hint="correct the path in module_card(files=[...])",
                )
        hashes = hashes_of_files(self.files or ())
        # Modules without weights differ by their files.
        parts = {"files": hashes, "module": _hashes_of_contents(card.name, contents)}
        return {TENSORS: sha256_bytes(canonical_json(parts)), **hashes}


def _contents(
    value: Any, name: str, seen: dict[int, Any], objects: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the tensors, arrays and numbers of a module, its submodules, lists and dictionaries.

    These are more than the tensors of `state_dict()`, which leaves out attributes and buffers that
    are not saved. All other objects in the module are added to `objects`.
    """
    import torch

    is_array = isinstance(value, np.ndarray) and not value.dtype.hasobject
    if is_array or isinstance(value, torch.Tensor | Number):
        seen[id(value)] = value
        yield name, value
        return
    if id(value) in seen:
        return
    parts: Mapping[Any, Any]
    if isinstance(value, torch.nn.Module):
        parts = vars(value)
    elif isinstance(value, Mapping):
        parts = value
    elif isinstance(value, list | tuple):
        parts = dict(enumerate(value))
    else:
        objects[name] = value
        return
    # Keep a reference, so that a new object cannot get the same id.
    seen[id(value)] = value
    for key, part in parts.items():
        # These attributes change when a module is used: it is not in training mode any more, and
        # torch numbers hooks in the order in which the process creates them.
        is_of_use = key == "training" or str(key).endswith(_HOOKS)
        if not (isinstance(value, torch.nn.Module) and is_of_use):
            # With repr, the keys 1 and "1" differ.
            yield from _contents(part, f"{name}[{key!r}]", seen, objects)


def _holds_array(value: Any, seen: dict[int, Any]) -> bool:
    """Return whether an object, a function or a method holds a tensor or array not in `seen`."""
    import torch

    waiting = [value]
    while waiting:
        part = waiting.pop()
        # A logger references everything that handles output of the process.
        if id(part) in seen or isinstance(part, type | ModuleType | Logger):
            continue
        if isinstance(part, np.ndarray | torch.Tensor):
            return True
        seen[id(part)] = part
        if isinstance(part, FunctionType):
            # Not the globals, which belong to the file.
            waiting += [part.__closure__, part.__defaults__, part.__kwdefaults__]
        else:
            waiting += gc.get_referents(part)
    return False


def _hashes_of_contents(card: str, contents: Mapping[str, Any]) -> dict[str, str]:
    """Return the sha256 of each tensor and array, and the text of each number."""
    import torch

    hashes = {}
    for name, value in contents.items():
        if isinstance(value, torch.Tensor):
            try:
                hashes[name] = tensors_sha256({name: value})
            except (RuntimeError, TypeError) as error:
                raise FixInput(
                    f"{card}: the tensor {name} of the module has no hash: {first_line(error)}",
                ) from error
        elif isinstance(value, np.ndarray):
            kind = f"{value.dtype.str} {value.shape} "
            hashes[name] = sha256_bytes(kind.encode() + value.tobytes())
        else:
            hashes[name] = repr(value)
    return hashes


def _dimensions(shape: Sequence[int], n_frames: int) -> tuple[str, ...]:
    """Return the dimension names of an array.

    Most names contain a length, because all dimensions of one name in a store have one length.
    """
    *others, last = shape
    names = []
    for place, length in enumerate(others):
        if place == 0:
            name = "frame" if length == n_frames else f"step_{length}"
        else:
            n_before = others[1:place].count(length)
            number = f"_{n_before + 1}" if n_before else ""
            name = f"token_{length}{number}"
        names.append(name)
    return (*names, f"feature_{last}")


class LevelsBackbone(TorchBackbone):
    """A torch module whose input is the levels of pictures, 0 to 255."""

    def normalise(self, pictures: Any) -> Tensor:
        """Return resized pictures [t, h, w, 3] as pixels [t, 3, h, w] uint8 on the device."""
        import torch

        levels = on_device(check_pictures(pictures), self.placement.device)
        # A copy, because the module may change its pixels, and all backbones share the pictures.
        return levels.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)

    def preprocessing(self) -> dict[str, Any]:
        """Return the settings that change the pixels."""
        return {**self.resize.recipe(), "values": LEVELS}


def card_of_code(name: str) -> Card:
    """Return the card that the function `FILE.py:NAME` or `package.module:NAME` returns."""
    trust([name])
    code_of_card = find_user_code(name)
    function = code_of_card.load_function()
    card = code_of_card.call(function, "failed")
    if not isinstance(card, Card):
        raise code_of_card.refuse(
            f"must return a card of module_card(...), got {short_value(card)}"
        )
    require_pictures(card, "user code is")
    if isinstance(card.family, ModuleFamily):
        card = replace(card, family=replace(card.family, user_code=code_of_card))
    origin = str(code_of_card.file or code_of_card.package)
    code = {"function": code_of_card.attribute, **code_record(code_of_card)}
    return replace(card, origin=origin, code=code)


def code_record(user_code: UserCode) -> dict[str, dict[str, str]]:
    """Return the record of user code in recipes: file hashes, and versions of imported packages."""
    packages = {"torch": metadata.version("torch")}
    if user_code.file is None:
        name, _, version = user_code.package.rpartition(" ")
        return {"files": {}, "packages": {**packages, name: version}}
    for root in imported_roots(user_code.file):
        if root.startswith("obygaze"):
            continue
        for package in packages_of_modules().get(root, ()):
            packages[package] = metadata.version(package)
    return {
        "files": {user_code.file.name: sha256_file(user_code.file)},
        "packages": packages,
    }

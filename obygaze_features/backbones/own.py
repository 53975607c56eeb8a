"""Backbones of the user's own code: any torch module, from a file, a module or a package."""

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
from obygaze_features.core.files import canonical_json, sha256_bytes, sha256_file
from obygaze_features.core.foreign import short_value
from obygaze_features.core.parts import (
    Part,
    find_part,
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
# The arrays of a store beside those of features.
_OTHER_ARRAYS = (*TIMES, MASK, PICTURES, CLEAN, N_WORDS)
# The ends of the names under which torch keeps the hooks of a module, and an address in memory.
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
    """Return the card of any torch module: what a function for `-b FILE.py:NAME` returns.

    Args:
        name: The name in stores and in the names of stores.
        load: Returns the module with its weights.
        run: Returns the arrays of the module for pixels [B, T, 3, height, width], each [B, ...]: a
            mapping of their names to tensors or NumPy arrays of any number format.
        arrays: The shape of each array of one clip, such as {"clip": [512], "frames": [16, 512]}.
            The first with one vector a clip is the one that experiments read.
        frames: Frames of a clip.
        size: Height and width of the pixels, where they are the same.
        height: Height of the pixels, where it is not the width.
        width: Width of the pixels.
        licence: The licence of the weights.
        values: What the pixels are: "normalised" by the preset, or "levels", 0 to 255 as uint8.
        title: A few words for lists. The default is the name.
        citation: The publication to cite.
        preset: How frames become pixels.
        files: Files that `load` and `run` read for anything but tensors, arrays and numbers of the
            module, such as an ONNX model or settings: their hashes are part of recipes. An empty
            list says that there are none, for a module without weights.
    """
    texts = {"name": name, "licence": licence, "title": title, "citation": citation}
    for argument, text in texts.items():
        if not isinstance(text, str):
            raise FixInput(f"module_card: {argument} must be a string, got {text!r}")
    if not re.fullmatch(r"[\w.-]*[^\W_][\w.-]*", name):
        raise FixInput(
            f"the name of a backbone is letters, digits, '-', '_', '.', got {name!r}"
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
    """Return the shape of the frames; the lengths must be whole numbers from 1."""
    is_square = height == width == 0
    if not is_square and size:
        raise FixInput("module_card: expected size, or height and width")
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
    """Return the shapes of the arrays; raise an error for names and shapes no store can have."""
    shapes = {array: tuple(map(int, shape)) for array, shape in arrays.items()}
    if not shapes or not all(shapes.values()) or min(map(min, shapes.values())) < 1:
        raise FixInput(
            f"arrays must give a shape for each array, got {dict(arrays)}", where=name
        )
    for array, shape in shapes.items():
        check_arrays([Array.of(array, "float32", shape)], name)
        if array in _OTHER_ARRAYS:
            raise FixInput(
                f"an array cannot be called {array!r}: stores have another array of this name",
                where=name,
            )
    return shapes


@dataclass(frozen=True, repr=False)
class ModuleFamily(Family):
    """The family of one torch module, which brings its own weights.

    Args:
        shapes: The shape of each array of a clip.
        make: Returns the module.
        run: Returns the arrays of the module for pixels.
        values: What the pixels are: "normalised" or "levels".
        files: Files of the model whose hashes are in recipes; None if nothing was said of them.
        part: The function that returned the card, whose code the other functions are.
    """

    _: KW_ONLY
    shapes: Mapping[str, tuple[int, ...]]
    make: Load
    run: RunModule
    values: str = NORMALISED
    files: tuple[Path, ...] | None = None
    part: Part | None = None
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
        """Return the arrays with their shapes; the first dimension may be the frames."""
        arrays = {}
        for name, shape in self.shapes.items():
            dims = _dimensions(shape, card.geometry.frames)
            arrays[name] = FeatureArray(name, name, dims, shape)
        return arrays

    def activation_bytes(self, g: Geometry, dtype: str, attention: str) -> int:
        """Return a rough memory of one clip; a batch that does not fit is halved."""
        return int(self.live * g.frames * 3 * prod(g.frame_shape) * 4)

    def _call(self, function: Callable[[], T], failure: str) -> T:
        """Return the result of the own code; errors name it, and `failure`."""
        if self.part is None:
            return function()
        return self.part.call(function, failure)

    def _outputs(
        self, card: str, module: Any, pixels: Tensor, mask: Tensor, g: Geometry
    ) -> dict[str, Tensor]:
        """Return the arrays of pixels, as floating point numbers, by their names."""
        import torch

        returned = self._call(lambda: self.run(module, pixels), "failed in run()")
        if not isinstance(returned, Mapping):
            raise FixInput(
                f"{card}: run() must return a mapping of the names in arrays,"
                f" got {short_value(returned)}"
            )
        absent = sorted(self.shapes.keys() - returned.keys())
        if absent:
            raise FixInput(f"{card}: run() returned no array {', '.join(absent)}")
        outputs = {}
        for name, array in returned.items():
            tensor = torch.as_tensor(array, device=pixels.device)
            outputs[name] = tensor if tensor.is_floating_point() else tensor.float()
        return outputs

    def _hashes(self, card: Card, module: Any) -> dict[str, str]:
        """Return the sha256 of what a module holds, and of each file of the model."""
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
                    f"{card.name}: {key} of the module is a {type(value).__name__}, which no hash"
                    " of tensors has",
                    where=card.origin,
                )
        seen: dict[int, Any] = {}
        objects = {"run()": self.run}
        contents = dict(_contents(module, "", seen, objects))
        for place, value in objects.items():
            if _holds_array(value, seen):
                raise FixInput(
                    f"{card.name}: {place} of the module is of the class {type(value).__name__}"
                    " and holds an array, of which a recipe has no hash",
                    where=card.origin,
                    hint="keep it in an attribute, a list or a dictionary of the module",
                )
        has_weights = any(not isinstance(value, Number) for value in contents.values())
        if not has_weights and self.files is None:
            raise FixInput(
                f"{card.name}: the module has no weights",
                where=card.origin,
                hint="module_card(files=[PATH]) names the files of the model, files=[] says none",
            )
        for path in self.files or ():
            if not path.is_file():
                raise NotFound(
                    f"{card.name}: no model file",
                    where=str(path),
                    hint="correct module_card(files=[...])",
                )
        hashes = hashes_of_files(self.files or ())
        # Models in files alone are different ones where their files are.
        parts = {"files": hashes, "module": _hashes_of_contents(card.name, contents)}
        return {TENSORS: sha256_bytes(canonical_json(parts)), **hashes}


def _contents(
    value: Any, name: str, seen: dict[int, Any], objects: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the tensors, arrays and numbers in a module, its parts, its lists and dictionaries.

    A state_dict leaves out attributes, and the buffers that are not saved. What is none of these
    comes into `objects`.
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
    # Kept: another object would get the id of one that a mapping has just made.
    seen[id(value)] = value
    for key, part in parts.items():
        # A module that was used before is not in training any more; its hooks are numbered by torch
        # as they are made in the process.
        is_of_use = key == "training" or str(key).endswith(_HOOKS)
        if not (isinstance(value, torch.nn.Module) and is_of_use):
            # The words of two keys may be equal, such as those of 1 and "1".
            yield from _contents(part, f"{name}[{key!r}]", seen, objects)


def _holds_array(value: Any, seen: dict[int, Any]) -> bool:
    """Return whether an object, a function or a method holds a tensor or array not in `seen`."""
    import torch

    waiting = [value]
    while waiting:
        part = waiting.pop()
        # A logger leads to everything that the process prints with.
        if id(part) in seen or isinstance(part, type | ModuleType | Logger):
            continue
        if isinstance(part, np.ndarray | torch.Tensor):
            return True
        seen[id(part)] = part
        if isinstance(part, FunctionType):
            # Not its globals, which are those of a file.
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
    """Return the names of the dimensions of an array; a name stands for one length in a store."""
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
    """A torch module that takes the levels of pictures, 0 to 255."""

    def normalise(self, pictures: Any) -> Tensor:
        """Return resized pictures [t, h, w, 3] as pixels [t, 3, h, w] uint8 on the device."""
        import torch

        levels = on_device(check_pictures(pictures), self.placement.device)
        # A copy: the module may change its pixels, and the pictures are those of all backbones.
        return levels.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)

    def preprocessing(self) -> dict[str, Any]:
        """Return what changes the pixels."""
        return {**self.resize.recipe(), "values": LEVELS}


def card_of_code(name: str) -> Card:
    """Return the card that the function `FILE.py:NAME` or `package.module:NAME` returns."""
    trust([name])
    part = find_part(name)
    function = part.load_function()
    card = part.call(function, "failed")
    if not isinstance(card, Card):
        raise part.refuse(
            f"must return a card, as module_card(...) makes it, got {short_value(card)}"
        )
    require_pictures(card, "own code is")
    if isinstance(card.family, ModuleFamily):
        card = replace(card, family=replace(card.family, part=part))
    origin = str(part.file or part.package)
    code = {"function": part.attribute, **recorded_code(part)}
    return replace(card, origin=origin, code=code)


def recorded_code(part: Part) -> dict[str, dict[str, str]]:
    """Return what recipes record of own code: the sha256 of its file, and the packages it imports.

    Packages have their versions.
    """
    packages = {"torch": metadata.version("torch")}
    if part.file is None:
        name, _, version = part.package.rpartition(" ")
        return {"files": {}, "packages": {**packages, name: version}}
    for root in imported_roots(part.file):
        if root.startswith("obygaze"):
            continue
        for package in packages_of_modules().get(root, ()):
            packages[package] = metadata.version(package)
    return {"files": {part.file.name: sha256_file(part.file)}, "packages": packages}

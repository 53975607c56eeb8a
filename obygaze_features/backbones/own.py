"""Backbones of the user's own code: any torch module, from a file, a module or a package."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from importlib import metadata
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from obygaze_features.backbones.base import (
    DEFAULT_PRESET,
    Card,
    Family,
    Placement,
    Preset,
    check_pictures,
)
from obygaze_features.backbones.geometry import FeatureArray, Geometry
from obygaze_features.backbones.torch_backbone import TorchBackbone, on_device
from obygaze_features.backbones.weight_files import NO_WEIGHTS, WeightFiles
from obygaze_features.backbones.weights import TENSORS, tensors_sha256
from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.files import canonical_json, sha256_bytes, sha256_file
from obygaze_features.core.foreign import INSTALLED, short_value
from obygaze_features.core.imported_files import imports_of
from obygaze_features.core.notebook import short_repr
from obygaze_features.core.parts import Part, find_part, packages_of_modules, trust
from obygaze_features.store.layout import MASK, PICTURES, TIMES, Array, check_arrays
from obygaze_features.store.recipe import JOINT_OUTPUT, space_id_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor

_DEFAULT = Preset()
NORMALISED = "normalised"
LEVELS = "levels"
VALUES = (NORMALISED, LEVELS)
_NAME_FILES = (
    "module_card(files=[PATH]) names the files of the model, files=[] says none"
)
_FILES = "correct module_card(files=[...])"
# The arrays of a store beside those of features.
_OTHER_ARRAYS = (*TIMES, MASK, PICTURES, "clean")
Load = Callable[[], Any]
LoadText = Callable[[], Callable[[Sequence[str]], Any]]
Run = Callable[[Any, "Tensor"], Any]
T = TypeVar("T")


def module_card(
    name: str,
    load: Load,
    run: Run,
    *,
    arrays: Mapping[str, Sequence[int]],
    frames: int,
    size: int = 0,
    height: int = 0,
    width: int = 0,
    licence: str,
    values: str = NORMALISED,
    text: LoadText | None = None,
    text_array: str = "clip",
    title: str = "",
    citation: str = "",
    preset: Preset = _DEFAULT,
    files: Sequence[str | Path] | None = None,
) -> Card:
    """Return the card of any torch module: what a function for `-b FILE.py:NAME` returns.

    Args:
        name: The name in stores and in the names of stores.
        load: Returns the module with its weights, or a pair of the module and a function that
            returns the pixels [T, 3, height, width] of frames uint8 [T, their height, width, 3].
        run: Returns the arrays of the module for pixels [B, T, 3, height, width], each [B, ...]: a
            mapping, or a tuple in the order of `arrays`, or the only one. They are tensors or NumPy
            arrays of any number format.
        arrays: The shape of each array of one clip, such as {"clip": [512], "frames": [16, 512]}.
        frames: Frames of a clip.
        size: Height and width of the pixels, where they are the same.
        height: Height of the pixels, where it is not the width.
        width: Width of the pixels.
        licence: The licence of the weights.
        values: What the pixels are: "normalised" by the preset, or "levels", 0 to 255 as uint8.
        text: Returns a function from texts to vectors [texts, D], for a module with a text model.
        text_array: The array that shares a space with these vectors.
        title: A few words for lists. The default is the name.
        citation: The publication to cite.
        preset: How frames become pixels, unless `load` returns a function for it.
        files: Files of the model that are not tensors of the module, such as an ONNX, TFLite or
            TorchScript model, or a table: their hashes are part of recipes. An empty list says that
            there are none, for a module without weights.
    """
    _check_arguments(name, licence, title, citation)
    if values not in VALUES:
        raise FixInput(
            f"module_card: values must be one of {few(VALUES)}, got {values!r}"
        )
    geometry = _geometry(frames, size, height, width)
    if not callable(load) or not callable(run) or not isinstance(preset, Preset):
        raise FixInput(
            "module_card: load and run must be functions, and preset a Preset"
        )
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise FixInput(
            f"the name of a backbone is letters, digits, '-', '_', '.', got {name!r}"
        )
    shapes = _shapes(name, arrays)
    if text is not None and text_array not in shapes:
        raise FixInput(
            f"module_card: text_array must be one of arrays, got {text_array!r}",
            hint=f"one of {few(list(shapes))}",
        )
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
        text=text,
        files=paths,
    )
    sources = {array: array for array in shapes}
    if text is not None:
        sources[text_array] = JOINT_OUTPUT
    presets = {DEFAULT_PRESET: preset}
    return Card(
        name,
        family,
        title or name,
        licence,
        geometry,
        sources,
        presets,
        citation=citation,
    )


def _geometry(frames: Any, size: Any, height: Any, width: Any) -> Geometry:
    """Return the shape of the frames; the lengths must be whole numbers from 1."""
    is_square = height == width == 0
    lengths = {"frames": frames, "size": size}
    if not is_square:
        lengths = {"frames": frames, "height": height, "width": width}
    if not is_square and size:
        raise FixInput("module_card: expected size, or height and width")
    for argument, length in lengths.items():
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            raise FixInput(
                f"module_card: {argument} must be at least 1, got {length!r}"
            )
    if is_square or height == width:
        return Geometry(frames, size or height)
    return Geometry(frames, min(height, width), shape=(height, width))


def _check_arguments(name: Any, licence: Any, title: Any, citation: Any) -> None:
    """Raise an error unless the texts are strings."""
    texts = {"name": name, "licence": licence, "title": title, "citation": citation}
    for argument, value in texts.items():
        if not isinstance(value, str):
            raise FixInput(f"module_card: {argument} must be a string, got {value!r}")


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
                hint="another name in arrays and in run()",
            )
    return shapes


@dataclass(frozen=True, repr=False)
class ModuleFamily(Family):
    """The family of one torch module, which brings its own weights.

    Args:
        shapes: The shape of each array of a clip.
        make: Returns the module, or the module and its own preprocessing.
        run: Returns the arrays of the module for pixels.
        values: What the pixels are: "normalised" or "levels".
        text: Returns the function of the text model; None if there is none.
        files: Files of the model whose hashes are in recipes; None if nothing was said of them.
        part: The function that returned the card, whose code the other functions are.
    """

    _: KW_ONLY
    shapes: Mapping[str, tuple[int, ...]]
    make: Load
    run: Run
    values: str = NORMALISED
    text: LoadText | None = None
    files: tuple[Path, ...] | None = None
    part: Part | None = None
    needs_weights: bool = False

    def load(
        self, card: Card, files: WeightFiles, placement: Placement
    ) -> TorchBackbone:
        """Return the backbone of the module."""
        imported_before = set(sys.modules)
        loaded = self.call(self.make, "failed in load()")
        self._refuse_unrecorded(set(sys.modules) - imported_before)
        module = loaded
        preprocess = None
        if isinstance(loaded, tuple) and len(loaded) == 2:
            module, preprocess = loaded
        hashes = self._hashes(card, module)

        def run(
            module: Any, pixels: Tensor, mask: Tensor, g: Geometry
        ) -> dict[str, Tensor]:
            returned = self.call(lambda: self.run(module, pixels), "failed in run()")
            arrays = self._named(card, returned)
            absent = sorted(self.shapes.keys() - arrays.keys())
            if absent:
                raise FixInput(
                    f"{card.name}: run() returned no array {', '.join(absent)}"
                )
            outputs = {}
            for name, array in arrays.items():
                output = card.sources.get(name, name)
                outputs[output] = _as_floats(array, pixels.device)
            return outputs

        backbone = ModuleBackbone(
            card, card, module, run, files=files, hashes=hashes, placement=placement
        )
        if preprocess is not None:
            backbone.preprocess_own = preprocess
            backbone.resize = None
        return backbone

    def _refuse_unrecorded(self, names: set[str]) -> None:
        """Raise an error if a module of own code is not in the recipe, as of a pickled model."""
        if self.part is None or self.part.folder is None:
            return
        for name in sorted(names):
            file = Path(getattr(sys.modules[name], "__file__", None) or "")
            is_installed = not {*INSTALLED}.isdisjoint(file.parts)
            is_own = file.is_relative_to(self.part.folder) and file.suffix == ".py"
            if is_own and not is_installed and file not in self.part.files:
                del sys.modules[name]
                raise self.part.refuse(
                    f"needs {file.name}, which no import statement names: the recipe would not have"
                    " its hash; import it at the top of the file"
                )

    def call(self, function: Callable[[], T], failure: str) -> T:
        """Return the result of the own code; errors name it, and `failure`."""
        if self.part is None:
            return function()
        return self.part.call(function, failure)

    def _named(self, card: Card, returned: Any) -> dict[str, Any]:
        """Return what `run` returned by the names of arrays."""
        if isinstance(returned, Mapping):
            return dict(returned)
        several = returned if isinstance(returned, tuple | list) else (returned,)
        if len(several) != len(self.shapes):
            raise FixInput(
                f"{card.name}: run() returned {count(len(several), 'array')},"
                f" arrays has {len(self.shapes)}",
                hint="a mapping of the names in arrays",
            )
        return dict(zip(self.shapes, several, strict=True))

    def _hashes(self, card: Card, module: Any) -> dict[str, str]:
        """Return the sha256 of the tensors of a module, and of each file of the model."""
        import torch

        if not isinstance(module, torch.nn.Module):
            raise FixInput(
                f"{card.name}: load() must return a torch.nn.Module, or one with a function,"
                f" got {type(module).__name__}",
                hint="keep another model in an attribute of a torch.nn.Module, and name its files",
            )
        tensors = {
            key: value
            for key, value in module.state_dict().items()
            if value is not None
        }
        if self.files is None:
            _require_state(card, module, tensors)
        hashes: dict[str, str] = {}
        # Recipes have other values of these names beside the hashes of files.
        taken = {TENSORS}
        for path in self.files or ():
            if not path.is_file():
                raise NotFound(
                    f"{card.name}: no model file", where=str(path), hint=_FILES
                )
            name = path.name
            if name in taken:
                name = f"{path.parent.name}/{path.name}"
            if name in taken:
                raise FixInput(
                    f"{card.name}: two model files are called {name}",
                    where=str(path),
                    hint="rename one of them",
                )
            taken.add(name)
            hashes[name] = sha256_file(path)
        of_tensors = tensors_sha256(tensors)
        if hashes and not tensors:
            # Models in files alone are different ones where their files are.
            of_tensors = sha256_bytes(canonical_json(hashes))
        return {TENSORS: of_tensors, **hashes}

    def arrays(self, card: Card) -> dict[str, FeatureArray]:
        """Return the arrays with their shapes; the first dimension may be the frames."""
        arrays = {}
        for name, shape in self.shapes.items():
            # One length has one name.
            first = "frame" if shape[0] == card.geometry.frames else f"step_{shape[0]}"
            dims = [first] if len(shape) > 1 else []
            for length in shape[1:-1]:
                same = [
                    dim for dim in dims if re.fullmatch(rf"token_{length}(_\d+)?", dim)
                ]
                dims.append(
                    f"token_{length}_{len(same) + 1}" if same else f"token_{length}"
                )
            dims.append(f"feature_{shape[-1]}")
            source = card.sources.get(name, name)
            arrays[name] = FeatureArray(name, source, tuple(dims), shape)
        return arrays

    def activation_bytes(self, g: Geometry, dtype: str, attention: str) -> int:
        """Return a rough memory of one clip; a batch that does not fit is halved."""
        return int(self.live * g.frames * 3 * prod(g.frame_shape) * 4)


class ModuleBackbone(TorchBackbone):
    """A torch module, with the card's preprocessing or its own."""

    preprocess_own: Callable[[Any], Any] | None = None

    @property
    def family(self) -> ModuleFamily:
        """The family of the card."""
        family = self.card.family
        if not isinstance(family, ModuleFamily):
            raise TypeError(f"{self.card.name} is not a module of one's own")
        return family

    def normalise(self, pictures: Any) -> Tensor:
        """Return pictures [t, h, w, 3] as pixels [t, 3, S, S] float32 on the device."""
        preprocess = self.preprocess_own
        family = self.family
        as_levels = family.values == LEVELS
        if preprocess is None and as_levels:
            levels = on_device(check_pictures(pictures), self.placement.device)
            return levels.permute(0, 3, 1, 2)
        if preprocess is None:
            return super().normalise(pictures)
        pixels = family.call(lambda: preprocess(pictures), "failed in preprocessing")
        tensor = on_device(pixels, self.placement.device)
        tensor = tensor.reshape(-1, *tensor.shape[-3:])
        return tensor if as_levels else tensor.float()

    def preprocessing(self) -> dict[str, Any]:
        """Return what changes the pixels."""
        as_levels = self.family.values == LEVELS
        values = {"values": LEVELS} if as_levels else {}
        if self.preprocess_own is not None:
            return {"by": "own code", **values}
        if as_levels and self.resize is not None:
            return {**self.resize.recipe(), **values}
        return super().preprocessing()


class OwnTextTower:
    """The text model of a user's own module.

    Args:
        card: The card of the module.
        family: The family of the module.
        vectors_of: Returns the vectors of texts.
        space_id: The name of the space that they share with an array.
    """

    def __init__(
        self,
        card: Card,
        family: ModuleFamily,
        vectors_of: Callable[[Sequence[str]], Any],
        space_id: str,
    ) -> None:
        self.card = card
        self.family = family
        self.vectors_of = vectors_of
        self.space_id = space_id

    def __repr__(self) -> str:
        return short_repr(type(self).__name__, self.card.name)

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one vector for each text."""
        import numpy as np
        import torch

        def vectors_of_all() -> Any:
            with torch.inference_mode():
                vectors = self.vectors_of(list(texts))
            return np.asarray(vectors)

        vectors = self.family.call(vectors_of_all, "failed in the text model")
        array = next(
            array for array in self.card.arrays.values() if array.source == JOINT_OUTPUT
        )
        if vectors.shape != (len(texts), array.shape[-1]):
            raise FixInput(
                f"{self.card.name}: the text model returned vectors"
                f" {list(vectors.shape)}, expected {[len(texts), array.shape[-1]]}"
            )
        return np.asarray(vectors, dtype=np.float32)


def own_text_tower(card: Card) -> OwnTextTower | None:
    """Return the text model of a user's own module; None for a card without one."""
    family = card.family
    if not isinstance(family, ModuleFamily) or family.text is None:
        return None
    backbone = family.load(card, NO_WEIGHTS, Placement())
    vectors_of = family.call(family.text, "failed in text()")
    space = space_id_of("", "", backbone.hashes[TENSORS])
    return OwnTextTower(card, family, vectors_of, space)


def _as_floats(array: Any, device: Any) -> Tensor:
    """Return an array or tensor of any number format as a tensor of floating point numbers."""
    import torch

    tensor: Tensor = torch.as_tensor(array, device=device)
    return tensor if tensor.is_floating_point() else tensor.float()


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
    if isinstance(card.family, ModuleFamily):
        card = replace(card, family=replace(card.family, part=part))
    origin = str(part.files[0]) if part.files else part.package
    return replace(card, origin=origin, code=code_of(part))


def code_of(part: Part) -> dict[str, dict[str, str]]:
    """Return what recipes record of own code: its files, and the packages that they import.

    Files have their sha256 by their place relative to the main file; packages have their versions.
    """
    packages = {"torch": metadata.version("torch")}
    if part.folder is None:
        name, _, version = part.package.rpartition(" ")
        return {"files": {}, "packages": {**packages, name: version}}
    own_roots = {
        file.relative_to(part.folder).parts[0].removesuffix(".py")
        for file in part.files
    }
    files = {}
    for file in part.files:
        label = Path(os.path.relpath(file, part.files[0].parent)).as_posix()
        files[label] = sha256_file(file)
        for root in _imported_roots(file):
            if root in own_roots or root.startswith("obygaze"):
                continue
            for package in packages_of_modules().get(root, ()):
                packages[package] = metadata.version(package)
    return {"files": dict(sorted(files.items())), "packages": packages}


def _imported_roots(file: Path) -> Iterator[str]:
    """Yield the top-level name of each import of a file, without relative ones."""
    for node in imports_of(file):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
        elif node.level == 0:
            yield (node.module or "").partition(".")[0]


def _require_state(card: Card, module: Any, tensors: Mapping[str, Any]) -> None:
    """Raise an error if the tensors of a module do not determine what it computes."""
    import torch

    problem = ""
    parts = module.modules()
    if not tensors:
        problem = "the module has no weights in its state_dict"
    elif any(isinstance(part, torch.jit.ScriptModule) for part in parts):
        problem = "the program of a TorchScript module is not in its state_dict"
    if problem:
        raise FixInput(f"{card.name}: {problem}", where=card.origin, hint=_NAME_FILES)

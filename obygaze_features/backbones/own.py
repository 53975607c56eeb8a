"""Backbones of the user's own code: any torch module, from a file, a module or a package."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.backbones.base import DEFAULT_PRESET, Card, Family, Placement, Preset
from obygaze_features.backbones.geometry import Geometry, Level
from obygaze_features.backbones.hub import WeightFiles
from obygaze_features.backbones.torch_backbone import TorchBackbone, on_device
from obygaze_features.backbones.weights import TENSORS, tensors_sha256
from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.core.files import require_file, sha256_file
from obygaze_features.core.plugins import call_foreign

if TYPE_CHECKING:
    from torch import Tensor

_DEFAULT = Preset()
_NAMES = "FILE.py:FUNCTION or MODULE:FUNCTION, a function that returns module_card(...)"
_call = partial(call_foreign, hint=_NAMES)
Load = Callable[[], Any]
Run = Callable[[Any, "Tensor"], Mapping[str, "Tensor"]]


def module_card(
    name: str,
    load: Load,
    run: Run,
    *,
    levels: Mapping[str, Sequence[int]],
    frames: int,
    size: int,
    licence: str,
    title: str = "",
    citation: str = "",
    preset: Preset = _DEFAULT,
) -> Card:
    """Return the card of any torch module: what a function for `-b FILE.py:FUNCTION` returns.

    Args:
        name: The name in stores and in the names of stores.
        load: Returns the module with its weights, or a pair of the module and a function that
            returns the pixels [T, 3, size, size] of frames [T, height, width, 3] uint8.
        run: Returns the levels of the module for pixels [B, T, 3, size, size], each [B, ...].
        levels: The shape of each level of one clip, such as {"clip": [512], "frames": [16, 512]}.
        frames: Frames of a clip.
        size: Height and width of the pixels.
        licence: The licence of the weights.
        title: A few words for lists. The default is the name.
        citation: The publication to cite.
        preset: How frames become pixels, unless `load` returns a function for it.
    """
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise FixInput(f"the name of a backbone is letters, digits, '-', '_', '.', got {name!r}")
    shapes = {level: tuple(map(int, shape)) for level, shape in levels.items()}
    if not shapes or not all(shapes.values()) or min(map(min, shapes.values())) < 1:
        raise FixInput(f"levels must give a shape for each level, got {dict(levels)}", where=name)
    family = ModuleFamily("own", "torch.nn.Module", outputs={}, shapes=shapes, make=load, run=run)
    geometry = Geometry(frames, size)
    sources = {level: level for level in shapes}
    presets = {DEFAULT_PRESET: preset}
    return Card(name, family, title or name, licence, geometry, sources, presets, citation=citation)


@dataclass(frozen=True, repr=False)
class ModuleFamily(Family):
    """The family of one torch module, which brings its own weights.

    Args:
        shapes: The shape of each level of a clip.
        make: Returns the module, or the module and its own preprocessing.
        run: Returns the levels of the module for pixels.
    """

    _: KW_ONLY
    shapes: Mapping[str, tuple[int, ...]]
    make: Load
    run: Run
    needs_weights: bool = False

    def load(self, card: Card, files: WeightFiles, placement: Placement) -> TorchBackbone:
        """Return the backbone of the module."""
        made = _call(self.make, f"{card.name}: load() failed")
        module, preprocess = made if isinstance(made, tuple) else (made, None)
        tensors = {key: value for key, value in module.state_dict().items() if value is not None}

        def run(module: Any, pixels: Tensor, mask: Tensor, g: Geometry) -> dict[str, Tensor]:
            failed = f"{card.name}: run() failed"
            found: dict[str, Tensor] = _call(lambda: dict(self.run(module, pixels)), failed)
            if absent := sorted(self.shapes.keys() - found.keys()):
                raise FixInput(f"{card.name}: run() returned no level {', '.join(absent)}")
            return found

        hashes = {TENSORS: tensors_sha256(tensors)}
        backbone = ModuleBackbone(
            card, card, module, run, files=files, hashes=hashes, placement=placement
        )
        if preprocess is not None:
            backbone.preprocess_own, backbone.resize = preprocess, None
        return backbone

    def levels(self, card: Card) -> dict[str, Level]:
        """Return the levels with their shapes; the first dimension may be the frames."""
        levels = {}
        for name, shape in self.shapes.items():
            # One length has one name.
            first = "frame" if shape[0] == card.geometry.frames else f"step_{shape[0]}"
            middle = [first, *(f"token_{length}" for length in shape[1:-1])]
            dims = (*(middle if len(shape) > 1 else []), f"feature_{shape[-1]}")
            levels[name] = Level(name, name, dims, shape)
        return levels

    def activation_bytes(self, g: Geometry, dtype: str, attention: str) -> int:
        """Return a rough memory of one clip; a batch that does not fit is halved."""
        return int(self.live * g.frames * 3 * g.size**2 * 4)


class ModuleBackbone(TorchBackbone):
    """A torch module, with the card's preprocessing or its own."""

    preprocess_own: Callable[[Any], Any] | None = None

    def normalise(self, pictures: Any) -> Tensor:
        """Return pictures [t, h, w, 3] as pixels [t, 3, S, S] float32 on the device."""
        own = self.preprocess_own
        if own is None:
            return super().normalise(pictures)
        pixels = _call(lambda: own(pictures), f"{self.card.name}: the preprocessing failed")
        tensor = on_device(pixels, self.placement.device)
        return tensor.reshape(-1, *tensor.shape[-3:]).float()

    def preprocessing(self) -> dict[str, Any]:
        """Return what changes the pixels."""
        return super().preprocessing() if self.preprocess_own is None else {"by": "own code"}


def card_of_code(name: str) -> Card:
    """Return the card that the function `FILE.py:FUNCTION` or `MODULE:FUNCTION` returns."""
    source, _, function = name.rpartition(":")
    module = _call(lambda: _module(source), f"{source} cannot be imported")
    made = getattr(module, function, None)
    if not callable(made):
        raise NotFound(f"no function {function!r}", where=source, hint=_NAMES)
    return card_of_function(made)


def card_of_function(function: Callable[[], Any]) -> Card:
    """Return the card that a function returns, with the hashes of the code for recipes."""
    file = Path(inspect.getsourcefile(inspect.unwrap(function)) or "")
    where = f"{file.name}:{getattr(function, '__name__', function)}"
    card = _call(function, f"{where} failed")
    if not isinstance(card, Card):
        raise FixInput(
            f"{where} must return a card, got {type(card).__name__}", hint="return module_card(...)"
        )
    return replace(card, origin=str(file), code=_code(file))


def _module(source: str) -> Any:
    path = Path(source)
    if not source.endswith(".py"):
        if str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))
        return importlib.import_module(source)
    require_file(path)
    if str(path.resolve().parent) not in sys.path:
        sys.path.append(str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(f"own_{path.stem}", path.resolve())
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    # Data classes look for the module of their annotations.
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def _code(file: Path) -> dict[str, Any]:
    """Return the sha256 of a file and of those beside it that it imports, and package versions."""
    distributions, todo = metadata.packages_distributions(), [file]
    files: dict[str, str] = {}
    packages = {"torch": metadata.version("torch")}
    while todo:
        path = todo.pop()
        files[path.name] = sha256_file(path)
        roots = []
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                roots += [alias.name.partition(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                roots.append((node.module or "").partition(".")[0])
        for root in roots:
            beside = path.with_name(f"{root}.py")
            if beside.is_file() and beside.name not in files:
                todo.append(beside)
            elif not root.startswith("obygaze"):
                packages |= {d: metadata.version(d) for d in distributions.get(root, ())}
    return {"files": files, "packages": packages}

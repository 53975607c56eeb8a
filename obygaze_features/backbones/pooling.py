"""How a sentence encoder makes one vector of the vectors of its tokens: as its own files say.

The files are those of the library sentence-transformers: `modules.json` lists what follows the
transformer, and the configuration of its pooling names one or several modes, whose vectors are
joined. What is not listed here is refused, since another pooling gives other similarities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obygaze_features.core.errors import FixInput, NotFound, first_line
from obygaze_features.core.files import parse_json
from obygaze_features.core.lazy import need
from obygaze_features.core.machine import cache_folder, offline

if TYPE_CHECKING:
    from torch import Tensor

ANOTHER = "another model, or a table with a column sim of your own"
_MEAN = "pooling_mode_mean_tokens"


def _first(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden[:, 0]


def _max(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden.masked_fill(mask == 0, float("-inf")).amax(dim=1)


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    return (hidden * mask).sum(dim=1) / mask.sum(dim=1)


def _mean_of_root(hidden: Tensor, mask: Tensor) -> Tensor:
    return (hidden * mask).sum(dim=1) / mask.sum(dim=1).sqrt()


def _weighted_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    """Weigh the first token with 1, the second with 2, and so on."""
    import torch

    weights = (
        torch.arange(1, hidden.shape[1] + 1, dtype=hidden.dtype)[None, :, None] * mask
    )
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1)


def _last(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the last token that is not padding, which may be on either side."""
    import torch

    positions = torch.arange(hidden.shape[1])[None] * (mask[:, :, 0] > 0)
    return hidden[torch.arange(len(hidden)), positions.argmax(dim=1)]


# The modes in the order in which their vectors are joined.
MODES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "pooling_mode_cls_token": _first,
    "pooling_mode_max_tokens": _max,
    _MEAN: _mean,
    "pooling_mode_mean_sqrt_len_tokens": _mean_of_root,
    "pooling_mode_weightedmean_tokens": _weighted_mean,
    "pooling_mode_lasttoken": _last,
}
# Newer configurations name the modes in one key.
_SHORT = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": _MEAN,
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}


@dataclass(frozen=True)
class Pooling:
    """The modes of a pooling, and what is done to texts before it.

    `max_tokens` are the tokens of a longer text that count (None: as many as its tokenizer and its
    positions allow), and `prompt` precedes every text.
    """

    modes: tuple[str, ...] = (_MEAN,)
    max_tokens: int | None = None
    lower: bool = False
    prompt: str = ""

    def text(self, text: str) -> str:
        """Return a text as the encoder was trained on it."""
        text = self.prompt + text
        return text.lower() if self.lower else text

    def __call__(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return one vector of the tokens [text, token, width]; a mask [text, token, 1] of 0, 1."""
        import torch

        return torch.cat([MODES[mode](hidden, mask) for mode in self.modes], dim=1)


def read_pooling(name: str) -> Pooling:
    """Return the pooling of a model, a folder or a name of the hub.

    A model that says nothing of it has the mean over its tokens, as in sentence-transformers.
    """
    modules = _read(name, "modules.json")
    if modules is None:
        settings = _read(name, "1_Pooling/config.json")
        return Pooling() if settings is None else Pooling(_modes(settings, name))
    pooling = _pooling_folder(name, modules)
    file = f"{pooling}/config.json"
    settings = _read(name, file)
    if settings is None:
        raise NotFound(f"no {file}, which modules.json names", where=name, hint=ANOTHER)
    of_texts = _read_object(name, "sentence_bert_config.json")
    max_tokens = of_texts.get("max_seq_length")
    if not isinstance(max_tokens, int) or max_tokens <= 0:
        max_tokens = None
    lower = bool(of_texts.get("do_lower_case"))
    prompt = _prompt(name)
    if prompt and settings.get("include_prompt") is False:
        raise FixInput(
            "this encoder leaves its prompt out of its pooling, which is not known here",
            where=name,
            hint=ANOTHER,
        )
    return Pooling(_modes(settings, name), max_tokens, lower, prompt)


def _pooling_folder(name: str, modules: Any) -> str:
    """Return the folder of the pooling that modules.json names."""
    are_tables = isinstance(modules, list) and all(
        isinstance(module, dict) for module in modules
    )
    if not are_tables:
        raise FixInput(
            "modules.json is not a list of modules", where=name, hint=ANOTHER
        )
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    if kinds not in (
        ["Transformer", "Pooling"],
        ["Transformer", "Pooling", "Normalize"],
    ):
        raise FixInput(
            f"this encoder has the modules {', '.join(kinds)};"
            " known are Transformer, Pooling, Normalize",
            where=name,
            hint=ANOTHER,
        )
    transformer, pooling = (str(module.get("path", "")) for module in modules[:2])
    if transformer:
        raise FixInput(
            f"the transformer of this encoder is in the folder {transformer}",
            where=name,
            hint=ANOTHER,
        )
    return pooling


def _prompt(name: str) -> str:
    """Return what precedes every text of a model, "" if nothing does."""
    settings = _read_object(name, "config_sentence_transformers.json")
    prompts = settings.get("prompts") or {}
    if not isinstance(prompts, dict):
        raise FixInput(
            "the prompts of config_sentence_transformers.json are not an object",
            where=name,
            hint=ANOTHER,
        )
    default_name = settings.get("default_prompt_name") or ""
    return str(prompts.get(default_name) or "")


def _modes(settings: Any, name: str) -> tuple[str, ...]:
    """Return the modes of the configuration of a pooling."""
    if not isinstance(settings, dict):
        raise FixInput("the configuration of the pooling is not an object", where=name)
    chosen = {_SHORT.get(mode, mode) for mode in _short_modes(settings, name)}
    unknown = set()
    for key, value in settings.items():
        if key in MODES:
            if value is True:
                chosen.add(key)
        elif key.startswith("pooling_mode_") and value:
            unknown.add(key)
    unknown |= chosen - MODES.keys()
    if unknown or not chosen:
        modes = ", ".join(sorted(unknown)) or "of this encoder"
        raise FixInput(f"the pooling {modes} is not known", where=name, hint=ANOTHER)
    return tuple(mode for mode in MODES if mode in chosen)


def _short_modes(settings: dict[str, Any], name: str) -> list[str]:
    """Return the modes that a newer configuration names in one key."""
    modes = settings.get("pooling_mode") or []
    if isinstance(modes, str):
        return [modes]
    if not isinstance(modes, list) or not all(isinstance(mode, str) for mode in modes):
        raise FixInput(
            f"pooling_mode must be a name or a list of names, got {modes!r}",
            where=name,
            hint=ANOTHER,
        )
    return modes


def _read(name: str, file: str) -> Any:
    """Return the value of a JSON file of a folder or of a repository; None if there is none."""
    folder = Path(name).expanduser()
    path = folder / file if folder.is_dir() else _of_hub(name, file)
    if path is None or not path.is_file():
        return None
    try:
        return parse_json(path.read_bytes())
    except ValueError as error:
        raise FixInput(
            f"not valid JSON: {first_line(error)}", where=str(path)
        ) from error


def _read_object(name: str, file: str) -> dict[str, Any]:
    """Return the object of a JSON file, as `_read`; an empty one if there is no such file."""
    value = _read(name, file)
    if value is not None and not isinstance(value, dict):
        raise FixInput(f"{file} is not an object", where=name, hint=ANOTHER)
    return value or {}


def _of_hub(name: str, file: str) -> Path | None:
    """Return a file of a repository, which is downloaded if it is not in the cache."""
    hub: Any = need("huggingface_hub", "extract", f"reading {file} of {name}")
    cached = hub.try_to_load_from_cache(name, file, cache_dir=str(cache_folder()))
    if isinstance(cached, str):
        return Path(cached)
    if offline():
        if cached is not None:  # the hub has said before that there is no such file
            return None
        hint = "the same command once with a network, or a folder with all files of the model"
        raise NotFound(
            f"whether {name} has a {file} is not known", where=name, hint=hint
        )
    try:
        return Path(hub.hf_hub_download(name, file, cache_dir=str(cache_folder())))
    except Exception as error:
        # A subclass of it is raised if the hub cannot be reached.
        if type(error).__name__ in ("EntryNotFoundError", "RemoteEntryNotFoundError"):
            return None
        problem = f"{file} of {name} could not be downloaded: {first_line(error)}"
        hint = "use a folder with the files of the hub, or a name of the hub with a network"
        raise NotFound(problem, where=name, hint=hint) from error

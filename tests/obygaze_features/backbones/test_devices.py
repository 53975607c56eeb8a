import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.devices import choose_device
from obygaze_features.backbones.placement import Placement
from obygaze_features.core.errors import FixUsage

ALL_BUSY = "0, GPU-aaa, 60000\n1, GPU-bbb, 2001\n"
ONE_BUSY = "0, GPU-aaa, 60000\n1, GPU-bbb, 12\n2, GPU-ccc, 2000\n"
# What a driver says of a damaged GPU, and of one that reports no memory.
DAMAGED = f"{ONE_BUSY}3, GPU-ddd, [N/A]\nWARNING: infoROM is corrupted at gpu 0000:3B"


def torch_with(n_gpus: int, own_bytes: Sequence[int] = ()) -> ModuleType:
    """A torch that sees so many GPUs; this process holds so many bytes of each."""

    def device_count() -> int:
        assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        return n_gpus

    torch = ModuleType("torch")
    torch.__spec__ = ModuleSpec("torch", None)
    cuda = SimpleNamespace(
        is_available=lambda: device_count() > 0,
        device_count=device_count,
        memory_reserved=dict(enumerate([*own_bytes, *[0] * n_gpus])).__getitem__,
    )
    vars(torch)["cuda"] = cuda
    return torch


@pytest.fixture
def auto(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """Which device it is where nvidia-smi says something, and CUDA sees so many GPUs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)

    def device(said, n_gpus, *, visible=None, exit_code=0, own_bytes=()) -> str:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\necho '{said}'\nexit {exit_code}\n")
        program.chmod(0o755)
        monkeypatch.setitem(sys.modules, "torch", torch_with(n_gpus, own_bytes))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        return choose_device("auto", [find_card("clip-b16")])

    return device


def test_an_idle_gpu(auto) -> None:
    assert auto(ONE_BUSY, 3) == "cuda:1"
    assert auto(DAMAGED, 4, exit_code=14) == "cuda:1"
    # CUDA counts those that it sees, here the third and the first of nvidia-smi.
    assert auto(ONE_BUSY, 2, visible="2,0") == "cuda:0"
    assert auto(ONE_BUSY, 2, visible="0, 2") == "cuda:1"
    assert auto(ONE_BUSY, 2, visible="GPU-aaa,GPU-ccc") == "cuda:1"
    # An earlier run of this process holds the memory of the second.
    assert auto(ALL_BUSY, 2, own_bytes=[0, 1500 * 2**20]) == "cuda:1"


def test_a_gpu_of_which_nothing_is_known(auto, monkeypatch) -> None:
    assert auto("", 1) == "cuda:0"
    assert auto(ALL_BUSY, 1, visible="MIG-aaa") == "cuda:0"
    monkeypatch.setenv("PATH", "")
    assert auto(ALL_BUSY, 1) == "cuda:0"


@pytest.mark.parametrize("visible", [None, "1", "1,0", "GPU-bbb"])
def test_no_gpu_is_idle(auto, visible: str | None) -> None:
    n_gpus = 2 if visible in {None, "1,0"} else 1
    with pytest.raises(FixUsage) as error:
        auto(ALL_BUSY, n_gpus, visible=visible)
    sentence = "no GPU is idle: each has more than 2,000 MB of memory in use"
    assert error.value.message == sentence
    assert error.value.hint == "use --device cuda:0, or --device cpu"


def test_a_machine_without_a_gpu_computes_on_its_cpu(auto) -> None:
    assert auto("", 0) == "cpu"
    # None of those that nvidia-smi lists is visible.
    assert auto(ALL_BUSY, 0, visible="") == "cpu"


def test_torch_is_asked_only_where_it_is_there_and_can_compute(auto, monkeypatch):
    descriptors = find_card("descriptors")
    clip = find_card("clip-b16")
    auto(ONE_BUSY, 3)
    assert choose_device("auto", [descriptors, clip]) == "cuda:1"
    # User code may compute with torch, whatever its family is.
    own = replace(descriptors, code={"function": "mine"})
    assert choose_device("auto", [own]) == "cuda:1"
    # One that has nothing, also no `cuda`.
    torch = ModuleType("torch")
    torch.__spec__ = ModuleSpec("torch", None)
    monkeypatch.setitem(sys.modules, "torch", torch)
    frames = find_card("frames:clip-b16")
    assert choose_device("auto", [descriptors, frames]) == "cpu"
    assert choose_device("cuda:7", [clip]) == "cuda:7"
    # As where it is not installed.
    monkeypatch.setitem(sys.modules, "torch", None)
    assert choose_device("auto", [clip]) == "cpu"


@pytest.mark.parametrize("name", ["dtype", "attention"])
def test_an_unknown_precision_or_attention_is_refused(name: str) -> None:
    with pytest.raises(FixUsage, match=f"unknown {name} 'int8'"):
        Placement(**{name: "int8"})

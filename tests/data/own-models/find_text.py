from importlib.util import find_spec
from pathlib import Path

import onnxruntime
import torch

from obygaze_features.backbones import Preset, module_card

PACKAGE = Path(find_spec("rapidocr_onnxruntime").origin).parent
FILE = PACKAGE / "models/ch_PP-OCRv4_det_infer.onnx"
SHAPE = {"frames": 8, "height": 384, "width": 640, "preset": Preset(resize="squash")}
FACTS = {"licence": "Apache-2.0", "files": [FILE]}


def load():
    module = torch.nn.Module()
    module.session = onnxruntime.InferenceSession(FILE)
    return module


def run(module, pixels):
    (text,) = module.session.run(None, {"x": pixels.flatten(0, 1).cpu().numpy()})
    maps = torch.nn.functional.adaptive_avg_pool2d(torch.from_numpy(text), (6, 10))
    return {"frames": maps.flatten(1).unflatten(0, pixels.shape[:2])}


def text_in_pictures():
    return module_card("text", load, run, arrays={"frames": [8, 60]}, **SHAPE, **FACTS)

import timm

from obygaze_features.backbones import Preset, module_card

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def load():
    return timm.create_model("resnet18.a1_in1k", pretrained=True, features_only=True)


def run(model, pixels):
    *_, middle, last = model(pixels.flatten(0, 1))
    middle = middle.mean((2, 3)).unflatten(0, pixels.shape[:2])
    last = last.mean((2, 3)).unflatten(0, pixels.shape[:2])
    return {"clip": last.mean(1), "middle": middle, "last": last}


def levels():
    arrays = {"clip": [512], "middle": [8, 256], "last": [8, 512]}
    preset = Preset(mean=MEAN, std=STD, filter="bicubic")
    facts = {"frames": 8, "size": 224, "licence": "Apache-2.0", "preset": preset}
    return module_card("resnet18-levels", load, run, arrays=arrays, **facts)

import timm

from obygaze_features.backbones import Preset, module_card

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def load():
    return timm.create_model("resnet18.a1_in1k", pretrained=True, features_only=True)


def run(model, pixels):
    *_, middle, last = model(pixels.flatten(0, 1))
    levels = [
        level.mean((2, 3)).unflatten(0, pixels.shape[:2]) for level in (middle, last)
    ]
    return levels[1].mean(1), *levels


def levels():
    arrays = {"clip": [512], "middle": [8, 256], "last": [8, 512]}
    preset = Preset(mean=MEAN, std=STD, filter="bicubic")
    facts = {"frames": 8, "size": 224, "licence": "Apache-2.0", "preset": preset}
    return module_card("resnet18-levels", load, run, arrays=arrays, **facts)

"""The list of model types has what a protocol accepts."""

import json

from support.cli import call_obygaze

import obygaze as og
from obygaze_models.protocols.reading import load_protocol


def test_every_setting_of_the_list_is_a_key_of_a_protocol() -> None:
    found = og.models.kinds()
    for name, settings in found.kinds.items():
        if name == "cav" or found.required[name]:
            continue
        changes = [f'models.one.kind="{name}"']
        for key, value in settings.items():
            changes.append(f"models.one.{key}={json.dumps(value)}")
        assert load_protocol("honest", changes).models["one"].settings == settings


def test_the_list_fits_on_a_terminal() -> None:
    done = call_obygaze("models", "kinds").ok()
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert names == [*og.models.kinds().kinds]
    assert {"ridge", "mlp", "cav"} <= {*names}
    (line,) = [line for line in lines if line.startswith("zero-shot")]
    assert "positive=...  negative=..." in line

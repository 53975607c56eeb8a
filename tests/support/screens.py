"""Keep the first screens of commands and pages, to see what a change does to them.

`PYTHONPATH=tests python -m support.screens FOLDER` does the road of the README in a workspace of
its own. Each command becomes a text file, each page a PNG of 1280 x 800 in light and in dark.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from support.browsers import FLAGS
from support.cli import ROOT, call_obygaze, obygaze_argv

# Commands that are kept have a name.
ROAD = (
    (
        "import",
        "manifest import clips.csv -o mine --map clip_id=clip --map movie_id=film",
    ),
    ("", "manifest link mine films"),
    ("manifest", "manifest show mine"),
    ("plan", "extract plan mine -b descriptors"),
    ("", "extract run mine -b descriptors"),
    ("store", "store info mine.descriptors"),
    ("run", "run honest --manifest mine --store mine.descriptors -o first"),
    ("", "report first"),
    ("", "train ridge mine.descriptors mine -o keeper"),
    ("predict", "models predict keeper mine.descriptors -o scores.csv"),
    ("export", "store export mine.descriptors sent.npz"),
    ("", "store import sent.npz --manifest mine -o sent"),
    ("", "run honest --manifest mine --store sent -o second"),
    ("compare", "compare first second"),
    ("refused", "run honest --manifest mine --store mine.descriptor -o third"),
    ("stats", "manifest stats mine"),
)


def main(into: Path) -> None:
    """Do the road, and keep what is seen."""
    into.mkdir(parents=True, exist_ok=True)
    readme = (ROOT / "README.md").read_text("utf-8")
    program = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0]
    with tempfile.TemporaryDirectory() as name:
        workspace = Path(name)
        (workspace / "films.py").write_text(program, "utf-8")
        subprocess.run([sys.executable, "films.py"], cwd=workspace, check=True)
        for number, (kept, line) in enumerate(ROAD):
            answer = call_obygaze(*line.split(), cwd=workspace)
            if kept:
                text = (
                    f"$ obygaze {line}\n{answer.stdout}{answer.stderr}[{answer.code}]\n"
                )
                path = into / f"{number:02}-{kept}.txt"
                path.write_text(text.replace(name, "..."), "utf-8")
        picture(f"file://{name}/runs/first/report.html", into / "report")
        words = ("view", "mine", "--run", "first", "--no-browser")
        server = subprocess.Popen(
            obygaze_argv(*words), cwd=workspace, stdout=subprocess.PIPE, text=True
        )
        assert server.stdout is not None
        address = re.findall(r"http://\S+", server.stdout.readline())[0]
        picture(address, into / "page")
        server.terminate()
        server.wait()


def picture(address: str, stem: Path) -> None:
    """Take a picture of a page, in light and in dark."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in FLAGS:
        options.add_argument(flag)
    browser = webdriver.Chrome(
        options=options, service=webdriver.ChromeService("/usr/bin/chromedriver")
    )
    size = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for colours in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": colours}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        browser.get(address)
        time.sleep(5)
        path = f"{stem}-{colours}.png"
        browser.save_screenshot(path)
        Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)
    browser.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

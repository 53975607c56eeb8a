from pathlib import Path

import pytest

from obygaze_features.core.errors import FixInput
from obygaze_features.manifest.adapters.moviegraphs import read

# A film of 100 frames at 25 a second (frame n at n / 25 s), with cuts at frames 10, 30 and 60.
CUTS = "CVHCI_VIDEOEVENTS_V1\n10 0.400 CUT\n30 1.200 CUT\n60 2.400 CUT\n"
SCENES = "1 1 1   \n2 3 1 \n3 4 0\n4 4 1\n"


def write_film(root: Path, film: str = "tt01", **files: str) -> Path:
    texts = {
        f"scene_boundaries/{film}.scenes.gt": files.get("scenes", SCENES),
        f"video_boundaries/{film}.videvents": files.get("cuts", CUTS),
        f"video_boundaries/{film}.matidx": files.get(
            "frames", "".join(f"{n} {n / 25:.3f}\n" for n in range(100))
        ),
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_clips_out_of_shots(tmp_path: Path) -> None:
    imported = read(write_film(tmp_path), name="mg")
    manifest = imported.manifest
    assert imported.warnings == ()
    assert manifest.clip_ids == ("tt01-001", "tt01-002", "tt01-003", "tt01-004")
    assert [clip.scene for clip in manifest] == [1, 2, 3, 4]
    # The last clip ends with the film: a frame's length (1/25 s) after frame 99 starts.
    assert [(clip.start_s, clip.end_s) for clip in manifest] == [
        *((0.0, 0.4), (0.4, 2.4), (1.2, 4.0), (2.4, 4.0))
    ]
    assert [(c.extra["start_frame"], c.extra["end_frame"]) for c in manifest] == [
        *(("0", "9"), ("10", "59"), ("30", "99"), ("60", "99"))
    ]
    assert [clip.extra["use"] for clip in manifest] == ["1", "1", "0", "1"]
    assert {clip.extra["fps"] for clip in manifest} == {"25"}
    assert [source.file for source in manifest.header.sources] == [
        "scene_boundaries/tt01.scenes.gt",
        "video_boundaries/tt01.videvents",
        "video_boundaries/tt01.matidx",
    ]


def test_a_file_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "moviegraphs.pkl"
    path.write_bytes(b"cos\nsystem\n(S'touch /tmp/opened'\ntR.")
    with pytest.raises(FixInput, match="expected a folder, got a file") as caught:
        read(path)
    assert "mg_videoinfo" in (caught.value.hint or "")


def test_everything_wrong_with_all_films_at_once(tmp_path: Path) -> None:
    write_film(tmp_path, scenes="1 1 1\n0 1 1\n3 2 1\n4 5 1\n1-2\n")
    spoilt = "10 0.400 CUT\n5 0.2 CUT\n30 9.0 CUT\n200 8.0 CUT\n40 FADE\n"
    write_film(tmp_path, "tt02", cuts=spoilt)
    write_film(tmp_path, "tt03", frames="1 0.04\n")
    with pytest.raises(FixInput) as caught:
        read(tmp_path)
    scenes = tmp_path / "scene_boundaries" / "tt01.scenes.gt"
    cuts = tmp_path / "video_boundaries" / "tt02.videvents"
    frames = tmp_path / "video_boundaries" / "tt03.matidx"
    assert caught.value.details[:9] == (
        f"{scenes}:2: shots 0 to 1: expected ascending numbers of the film's 4 shots",
        f"{scenes}:3: shots 3 to 2: expected ascending numbers of the film's 4 shots",
        f"{scenes}:4: shots 4 to 5: expected ascending numbers of the film's 4 shots",
        f"{scenes}:5: expected first shot, last shot and a flag, got '1-2'",
        f"{cuts}:1: the header line is missing; a cut may be missing too",
        f"{cuts}:3: expected 1.2 s for frame 30, got 9.0",
        f"{cuts}:4: frame 200 is not after the previous cut, or is outside the film",
        f"{cuts}:5: expected a frame, its time and CUT, got '40 FADE'",
        # Without frames each cut of the third film is beyond its end.
        f"{frames.with_suffix('.videvents')}:2: frame 10 is not after the previous cut, or is"
        " outside the film",
    )
    assert caught.value.details[-1] == (
        f"{frames}:1: expected frame 0 and its time, in ascending order, got '1 0.04'; the rest is"
        " not read"
    )


def test_missing_files_are_named(tmp_path: Path) -> None:
    missing = write_film(tmp_path) / "video_boundaries" / "tt01.matidx"
    missing.unlink()
    with pytest.raises(FixInput) as caught:
        read(tmp_path)
    assert caught.value.details == (f"{missing}: no such file",)

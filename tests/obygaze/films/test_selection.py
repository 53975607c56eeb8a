"""Tables of chosen clips, and links to places of the page."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.cli import call_obygaze
from support.film_pages import ask, film_clips, served, site
from support.videos import read_number, write_video

from obygaze.films.links import Link, data_of, link_base, read_link
from obygaze.films.view import leading_page, open_site
from obygaze_features.core.errors import FixUsage
from obygaze_features.manifest.io import manifest_sha256, write_manifest
from obygaze_features.manifest.tables import read_table


def rows_of(body: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(body.decode("utf-8"))))


def two_films(folder: Path, **more: Any) -> Any:
    clips = [*film_clips("lake", "", 4), *film_clips("pond", "", 2)]
    clips[1] = replace(clips[1], extra={"comment": "=1+1", "year": "1999"})
    return site(folder, clips, **more)


def test_the_table_has_the_clips_that_the_filters_choose(tmp_path: Path) -> None:
    with served(two_films(tmp_path)) as server:
        answer = ask(server, "/table/csv?level=S&of=lake")
        assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert answer.headers["Content-Disposition"].endswith('filename="clips.csv"')
        rows = rows_of(answer.body)
        assert [row["clip_id"] for row in rows] == ["lake-001", "lake-003"]
        assert (rows[0]["movie_id"], rows[0]["start_s"], rows[0]["end_s"]) == (
            *("lake", "1.0"),
            "2.0",
        )
        assert (rows[0]["level"], rows[0]["concepts"]) == ("S", "Look")
        assert len(rows_of(ask(server, "/table/csv").body)) == 6
        assert len(rows_of(ask(server, "/table/csv?concept=Look").body)) == 3
        where = ask(server, "/table/csv?where=level+%3D%3D+EN+and+movie_id+%3D%3D+pond")
        ids = [row["clip_id"] for row in rows_of(where.body)]
        assert ids == ["pond-000"]
        assert ask(server, "/table/json").status == 400
        assert ask(server, "/table/csv?nonsense=1").status == 400
        assert ask(server, "/table/csv?cell=0").status == 400
        book = ask(server, "/table/xlsx?of=lake").body
    (tmp_path / "clips.xlsx").write_bytes(book)
    table = read_table(tmp_path / "clips.xlsx", required=("clip_id", "title"))
    assert [row["clip_id"] for row in table.rows] == [f"lake-{k:03d}" for k in range(4)]
    # Text that looks like a formula stays text.
    assert table.rows[1]["comment"] == "=1+1"


def test_the_blind_arm_has_no_labels_in_tables(tmp_path: Path) -> None:
    with served(two_films(tmp_path, annotator="eva", blind=True)) as server:
        rows = rows_of(ask(server, "/table/csv").body)
        assert {row["level"] for row in rows} == {""}
        assert {row["comment"] for row in rows} == {""}
        assert rows_of(ask(server, "/table/csv?level=S").body) == []


def test_a_link_has_manifest_place_and_data(tmp_path: Path) -> None:
    page = two_films(tmp_path)
    assert link_base(page.manifest) == "obygaze:films"
    assert data_of(page.manifest) == manifest_sha256(page.manifest)[:12]
    link = read_link("obygaze:my%20films#film=a%26b&t=1.5&data=abc")
    assert link == Link("my films", {"film": "a&b", "t": "1.5"}, "abc")
    assert link.fragment == "#film=a%26b&t=1.5"
    assert read_link("obygaze:films").fragment == ""
    for bad in ("films#film=lake", "obygaze:", "obygaze:#film=lake"):
        with pytest.raises(FixUsage, match="expected a link"):
            read_link(bad)


def test_the_command_opens_a_link_and_names_other_data(tmp_path: Path) -> None:
    page = two_films(tmp_path)
    write_manifest(page.manifest, tmp_path / "manifests" / "films.toml")
    good = f"obygaze:films#film=lake&t=1&data={data_of(page.manifest)}"
    assert open_site(good, workspace=tmp_path).manifest.name == "films"
    done = call_obygaze("view", good, "--export", "page", cwd=tmp_path).ok()
    assert "other data" not in done.stderr
    words = ("view", "obygaze:films#film=lake&data=0123456789ab", "--export", "page")
    done = call_obygaze(*words, cwd=tmp_path).ok()
    assert "the link was made with other data" in done.stderr
    for place, told in (
        ("film=lak", "the manifest has no film 'lak' (did you mean 'lake'?)"),
        ("film=lake&t=99", "t=99 is after the end of lake, 4 s"),
        ("film=lake&t=soon", "t=soon is not a time in seconds"),
    ):
        words = ("view", f"obygaze:films#{place}", "--export", "page")
        done = call_obygaze(*words, cwd=tmp_path).ok()
        assert f"the link leads nowhere: {told}" in done.stderr
    with leading_page('http://x/?token=a#film=a&t="1"', tmp_path) as path:
        assert 'url=http://x/?token=a#film=a&amp;t=&quot;1&quot;">' in path.read_text()


def test_a_picture_has_its_full_size(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", numbers=range(50), size=(320, 240))
    with served(site(tmp_path, film_clips("lake", "a.mp4", 2))) as server:
        answer = ask(server, "/picture/0?picture=37")
        assert ask(server, "/picture/0?picture=99").status == 400
        assert ask(server, "/picture/9?picture=1").status == 404
    assert answer.headers["Content-Type"] == "image/png"
    picture = np.asarray(Image.open(io.BytesIO(answer.body)).convert("RGB"))
    assert picture.shape == (240, 320, 3)
    assert read_number(picture) == 37

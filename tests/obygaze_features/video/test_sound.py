import math
import os
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.seeds import amount
from support.sounds import (
    FILM_OF,
    as_he_aac,
    as_programs,
    later,
    only,
    packet_of,
    with_damage,
    write_film,
)
from support.videos import write_video

from benchmarks.sound.films import SoundFilm, SoundTrack, click_errors, copy
from obygaze_features.core.errors import FixUsage
from obygaze_features.video import DecodeJob, DecodePool, PictureView, sound_index
from obygaze_features.video.container import BadVideo
from obygaze_features.video.decode import decode_clip
from obygaze_features.video.film import index_file
from obygaze_features.video.sound import DecodedSound, SoundView, decode_sound
from obygaze_features.video.sound_index import forget_sound, sound_source

VIEW = SoundView(16000)
# Two milliseconds where the container gives times, one picture otherwise.
MOST_S = {True: 0.002, False: 0.04}
# One of each kind of clock: a table, milliseconds, 90,000 a second, and none.
FEW = ("mp4-aac", "mkv-ac3", "ts-mp2", "avi-mp3")
SOME = sorted(FILM_OF)[::6]


@pytest.fixture(autouse=True)
def no_sound_in_memory() -> None:
    forget_sound()


def errors_of(film: SoundFilm, path: Path) -> list[int]:
    """Return how many samples late each click is, at the rate of the film."""
    rate = film.tracks[film.heard].rate
    sound = decode_sound(path, SoundView(rate))
    return click_errors(path, sound.samples, rate)


def check_errors(name: str, folder: Path) -> None:
    film = FILM_OF[name]
    errors = errors_of(film, write_film(name, folder))
    most = MOST_S[film.has_times] * film.tracks[film.heard].rate
    assert max(map(abs, errors)) <= most, errors


@pytest.mark.parametrize("name", FEW)
def test_a_click_is_at_its_flash(name: str, tmp_path: Path) -> None:
    check_errors(name, tmp_path)


@pytest.mark.parametrize("seed", amount(range(1), range(40)))
@pytest.mark.parametrize("suffix", [".avi", ".mkv"])
def test_sound_of_an_incomplete_film_is_not_that_of_a_shorter(suffix, seed, tmp_path):
    """The rest is missing: a remark says how much, or the clip fails, as its pictures do."""
    codec = "mpeg4" if suffix == ".avi" else "libx264"
    path = tmp_path / f"film{suffix}"
    write_video(path, codec, numbers=range(90), audio=True)
    data = path.read_bytes()
    n_bytes = random.Random(seed).randrange(len(data) // 3, len(data) * 9 // 10)
    path.write_bytes(data[:n_bytes])
    with suppress(BadVideo):
        assert decode_clip(path, PictureView(90)).total == 90
    with suppress(BadVideo):
        sound = decode_sound(path, VIEW)
        assert sound.end_s == pytest.approx(90 / 25, abs=0.05)
        assert sound.remarks or sound.intact_s > sound.end_s - 0.1


def lag_s(sound: DecodedSound, whole: DecodedSound) -> float:
    """How much later a sound is than another one, by their correlation; 0 in silence."""
    if np.abs(whole.samples).max() < 0.1:
        return 0.0
    size = 1 << 16
    spectrum = np.fft.rfft(sound.samples, size)
    correlation = np.fft.irfft(spectrum * np.conj(np.fft.rfft(whole.samples, size)))
    lag = int(np.argmax(correlation))
    return (lag - size if lag > size // 2 else lag) / sound.view.rate


@pytest.mark.parametrize("seed", amount(range(1), range(20)))
@pytest.mark.parametrize("name", ["avi-mp3", "avi-pcm", "mkv-aac", "ts-aac"])
def test_sound_behind_damage_is_at_its_time_or_damaged(name, seed, tmp_path) -> None:
    """AVI counts samples, so that all behind those that are lost would be at other times."""
    path = write_film(name, tmp_path)
    whole = decode_sound(path, VIEW)
    data = bytearray(path.read_bytes())
    draw = random.Random(f"{name} {seed}")
    at = draw.randrange(len(data) // 5, len(data) // 2)
    n_bytes = draw.randrange(2000, len(data) // 6)
    if draw.random() < 0.5:
        data[at : at + n_bytes] = bytes(n_bytes)
    else:
        del data[at : at + n_bytes]
    path.write_bytes(data)
    for start_s in range(int(whole.end_s)):
        with suppress(BadVideo):
            sound = part_of(path, start_s, start_s + 1.0)
            late_s = lag_s(sound, whole.part(start_s, start_s + 1.0))
            is_at_its_time = abs(late_s) <= MOST_S[not name.startswith("avi")]
            assert is_at_its_time or sound.remarks, start_s


@pytest.mark.check("a second for each film")
@pytest.mark.parametrize("name", amount(SOME, sorted(FILM_OF)))
def test_clicks_are_at_their_flashes_in_any_span_of_any_film(name, tmp_path) -> None:
    check_errors(name, tmp_path)
    begin_s = 4.0 if FILM_OF[name].cut_s else 8.5
    check_spans(tmp_path / f"{name}{FILM_OF[name].suffix}", tmp_path, begin_s)


def part_of(path: Path, start_s: float, end_s: float, **more: Any) -> DecodedSound:
    view = more.pop("view", VIEW)
    return decode_sound(path, view, start_s=start_s, end_s=end_s, **more)


def check_spans(path: Path, folder: Path, start_s: float) -> None:
    """Compare a part of a span, and the same part alone, without and with a kept index."""
    view = SoundView(16000, 0.5)
    whole = part_of(path, start_s, start_s + 2.5, view=view)
    for begin_s, end_s in ((start_s + 0.3, start_s + 1), (start_s + 1.6, start_s + 2)):
        part = whole.part(begin_s, end_s)
        for indexes in (None, folder / "indexes"):
            forget_sound()
            alone = part_of(path, begin_s, end_s, view=view, indexes=indexes)
            assert is_same(part, alone)


def test_a_part_outside_the_decoded_sound_is_refused(tmp_path: Path) -> None:
    path = write_film("mp4-aac", tmp_path)
    sound = part_of(path, 2.0, 4.0)
    for span in ((1.9, 3.0), (3.0, 4.1), (5.0, 6.0)):
        with pytest.raises(FixUsage, match="not within the decoded sound, from 2 s to"):
            sound.part(*span)
    # The clock of clips has no time before 0.
    first = part_of(path, -0.5, 2.0)
    assert is_same(first.part(-0.5, 1.0), decode_sound(path, VIEW, end_s=1.0))


def is_same(one: DecodedSound, other: DecodedSound) -> bool:
    """Return whether two sounds agree in each sample and all that is said of them."""
    names = ("samples", "missing_s", "damaged_s")
    arrays = [np.array_equal(getattr(one, n), getattr(other, n)) for n in names]
    facts = ("n_before", "start_s", "end_s", "intact_s", "remarks", "view")
    return all(arrays) and all(getattr(one, n) == getattr(other, n) for n in facts)


def test_a_second_is_the_same_from_every_span(tmp_path: Path) -> None:
    """The decoder of this film adds noise, which depends on where it began."""
    path = write_film("mp4-aac-pns", tmp_path)
    indexes = str(tmp_path / "indexes")
    spans = [(8.0, 12.0), (10.0, 11.0), (0.0, 11.5)]
    with DecodePool(2) as pool:
        jobs = [DecodeJob(path, (VIEW,), *span, indexes=indexes) for span in spans]
        heard = [pool.submit(job).result().sound(VIEW) for job in jobs]
    heard.append(decode_sound(path, VIEW))
    seconds = [sound.part(10.0, 11.0).samples for sound in heard]
    assert len({second.tobytes() for second in seconds}) == 1


def failure_of(path: Path, start_s: float | None, end_s: float | None) -> str:
    with pytest.raises(BadVideo) as caught:
        decode_sound(path, VIEW, start_s=start_s, end_s=end_s)
    return f"{caught.value.reason}: {caught.value.message}"


BETWEEN = "outside: the part is outside the film, which ends at 12.00 s"
FEW_SAMPLES = "too-short: 320 samples of sound, at least 400 are needed"
FAILURES = (
    (0.0, 0.7, "no-sound: the sound begins at 0.8 s"),
    (9.5, 12.0, "no-sound: the sound ends at 9.0 s"),
    (5.2, 6.2, "no-sound: sound for 0.0 of 1.0 s"),
    (8.0, 12.0, "no-sound: sound for 1.0 of 4.0 s"),
    (3.0, 3.02, FEW_SAMPLES),
    (2.0, 20.0, "too-long: the part ends at 20 s, the film at 12.00 s"),
    (20.0, None, BETWEEN),
    (-2.0, -1.0, BETWEEN),
)


def test_missing_sound_is_a_reason_or_a_remark(tmp_path: Path) -> None:
    track = SoundTrack("pcm_s16le", format="s16", late_s=0.8, gap_s=(5.0, 6.5), end_s=9)
    path = write_film(SoundFilm("parts", ".mkv", [track]), tmp_path)
    for start_s, end_s, failure in FAILURES:
        assert failure_of(path, start_s, end_s) == failure
    for start_s, end_s in ((3.0, 2.0), (math.nan, 2.0), (2.0, math.nan)):
        with pytest.raises(FixUsage, match="the end must be after the start"):
            part_of(path, start_s, end_s)
    sound = part_of(path, 4.0, 8.0)
    # Frames of 1,024 samples: those that begin from 5 s to 6.5 s are missing.
    assert sound.remarks == ("sound for 2.5 of 4.0 s",)
    assert sound.intact_s == pytest.approx(4 - (sound.missing_s[0] @ [-1, 1]))
    begin, end = ((sound.missing_s[0] - 4) * 16000).astype(int)
    assert not sound.samples[begin + 40 : end - 40].any()
    assert sound.samples[: begin - 40].all() and sound.samples[end + 40 :].all()
    # A tenth of a second is no remark.
    assert part_of(path, 0.75, 2.0).remarks == ()


def test_a_film_of_pictures_or_of_sound_alone(tmp_path: Path) -> None:
    path = write_film("mp4-aac", tmp_path)
    mute = only("video", path, tmp_path / "mute.mp4")
    heard = only("audio", path, tmp_path / "heard.mp4")
    comment = SoundTrack("ac3", disposition="comment")
    commented = write_film(SoundFilm("commented", ".mkv", [comment]), tmp_path)
    assert failure_of(mute, None, None) == "no-sound: no sound in the file"
    of_comment = failure_of(commented, 1.0, 2.0)
    assert of_comment.startswith("no-sound: its only sound is a commentary")
    assert failure_of(tmp_path / "none.mp4", None, None) == "missing: no such file"
    whole = decode_sound(path, VIEW)
    alone = decode_sound(heard, VIEW)
    assert (whole.end_s, alone.remarks) == (12.0, ())
    assert alone.end_s == pytest.approx(12.0, abs=0.03)
    assert np.array_equal(alone.samples[: 11 * 16000], whole.samples[: 11 * 16000])
    pictures = PictureView(2)
    with DecodePool(1) as pool:
        jobs = [DecodeJob(file, (pictures, VIEW)) for file in (mute, heard, path)]
        results = [pool.submit(job).result() for job in jobs]
    reasons = [[one.reason for one in result.failures.values()] for result in results]
    assert reasons == [["no-sound"], ["no-video"], []]
    assert [len(result.clips) for result in results] == [1, 0, 1]
    assert [len(result.sounds) for result in results] == [0, 1, 1]
    assert is_same(results[2].sound(VIEW), whole)
    with pytest.raises(BadVideo, match="no sound in the file"):
        results[0].sound(VIEW)
    assert results[0].clip(pictures).total == 300


def test_sound_whose_clock_is_set_back_has_no_times(tmp_path: Path) -> None:
    """Two recordings behind each other, of which the second begins at 0 again."""
    film = write_film("ts-mp2", tmp_path)
    heard = only("audio", film, tmp_path / "heard.ts")
    for path in (film, heard):
        path.write_bytes(path.read_bytes() * 2)
        for span in ((1.0, 2.0), (None, None)):
            assert failure_of(path, *span).startswith("clock: the clock of the file")


def test_a_film_with_very_few_samples_a_second_is_refused(tmp_path: Path) -> None:
    track = SoundTrack("pcm_s16le", rate=400, layout="mono", format="s16")
    path = write_film(SoundFilm("slow", ".mkv", [track]), tmp_path)
    assert failure_of(path, None, None) == (
        "no-sound: its sound has 400 samples a second, expected 1,000 to 1,000,000"
    )


@pytest.mark.parametrize(("wrong", "rate"), [(math.nan, 48000), (3e38, 16000)])
def test_samples_that_are_no_numbers_are_damaged(wrong, rate, tmp_path) -> None:
    def change(stream: Any, at: int, packet: Any) -> Any:
        if stream.type != "audio" or at != 100:
            return packet
        values = np.frombuffer(packet, np.float32).copy()
        values[200:204] = wrong
        return packet_of(packet, values.tobytes())

    track = SoundTrack("pcm_f32le", format="flt", layout="mono")
    whole = write_film(SoundFilm("floats", ".mkv", [track]), tmp_path)
    path = copy(whole, tmp_path / "wrong.mkv", change=change)
    at_s = (100 * 1024 + 200) / 48000
    view = SoundView(rate)
    with pytest.raises(BadVideo, match="damaged"):
        decode_sound(path, view, start_s=at_s - 0.5, end_s=at_s + 0.5)
    accepted = decode_sound(path, view, accept_damaged=True)
    assert np.abs(accepted.damaged_s - at_s).max() < 0.01
    intact = decode_sound(whole, view)
    near = slice(*(round((at_s + apart) * rate) for apart in (-0.01, 0.01)))
    differs = accepted.samples != intact.samples
    assert differs[near].any()
    differs[near] = False
    assert not differs.any()
    part = accepted.part(at_s, at_s + 1)
    alone = decode_sound(path, view, start_s=at_s, end_s=at_s + 1, accept_damaged=True)
    assert is_same(part, alone)


@pytest.mark.parametrize("is_told", [True, False])
def test_he_aac_has_twice_the_rate_of_its_core(is_told: bool, tmp_path: Path) -> None:
    core = write_film(SoundFilm("core", ".mp4", [SoundTrack(rate=24000)]), tmp_path)
    path = as_he_aac(core, tmp_path / "he.mp4", is_told=is_told)
    sound = decode_sound(path, SoundView(48000))
    # The filter of the decoder takes 481 samples of the core: an encoder of HE-AAC allows for it.
    assert set(click_errors(path, sound.samples, 48000)) == {2 * 481}
    index = sound_source(path, None).film
    assert (index.rate, int(index.samples.max())) == (48000, 2048)
    assert (sound.remarks, index.damaged.any()) == ((), False)
    if not is_told:
        check_spans(path, tmp_path, 8.5)


def test_damaged_sound_fails_its_clips_and_no_others(tmp_path: Path) -> None:
    whole = write_film("mp4-aac", tmp_path)
    path = with_damage(whole, tmp_path / "damaged.mp4", 60)
    index = sound_source(path, None).film
    (first,) = index.damaged_s[:, 0].tolist()
    last = float(index.damaged_s[-1, 1])
    assert failure_of(path, first - 0.5, last + 2.5).startswith("damaged: sound for ")
    accepted = part_of(path, first - 0.5, last + 2.5, accept_damaged=True)
    assert accepted.remarks[-1] == "the rest is damaged or missing"
    begin, end = round(0.5 * 16000), round((last - first + 0.5) * 16000)
    assert not accepted.samples[begin + 40 : end - 40].any()
    for span in ((first - 1, first - 0.01), (last + 0.5, last + 1.5)):
        apart = part_of(path, *span).samples - part_of(whole, *span).samples
        assert np.abs(apart).max() < 0.01
    # What a model hears before its clip counts too.
    after = {"start_s": last + 0.5, "end_s": last + 1.5, "view": SoundView(16000, 1.0)}
    sentence = "the sound just before the clip is damaged"
    with pytest.raises(BadVideo, match=f"^{sentence}"):
        part_of(path, **after)
    assert part_of(path, **after, accept_damaged=True).remarks == (sentence,)


@pytest.mark.parametrize("at", [0, 460])
def test_damage_at_an_end_of_the_film_fails_its_clips(at: int, tmp_path: Path) -> None:
    """The packets that cannot be decoded have no neighbour on one side."""
    whole = write_film("mp4-aac", tmp_path)
    path = with_damage(whole, tmp_path / "damaged.mp4", at, 400)
    ends = (0.0, 2.0), (10.0, 11.9)
    damaged, intact = ends if at == 0 else ends[::-1]
    assert failure_of(path, *damaged).startswith("damaged: sound for ")
    assert part_of(path, *intact).intact_s == pytest.approx(intact[1] - intact[0])


def test_a_view_is_checked() -> None:
    with pytest.raises(FixUsage, match="rate must be 1000 to 1000000, got 8"):
        SoundView(8)
    with pytest.raises(FixUsage, match="before_s must be at least 0"):
        SoundView(8000, -1.0)


def test_what_a_new_decoder_lacks_is_no_damage(tmp_path: Path) -> None:
    """PyAV does not tell the sizes of the blocks of this codec, so that a new decoder fails."""
    options = (("b", "128000"),)
    track = SoundTrack("wmav1", rate=44100, format="fltp", options=options)
    path = write_film(SoundFilm("wmav1", ".avi", [track]), tmp_path)
    sound = decode_sound(path, SoundView(44100))
    assert sound.remarks == () and not sound.is_damaged
    # The first packet of WMA has no samples.
    assert sound.intact_s > sound.end_s - 0.1
    assert max(map(abs, click_errors(path, sound.samples, 44100))) <= 0.04 * 44100
    check_spans(path, tmp_path, 8.5)


def test_sound_is_of_the_program_of_the_pictures(tmp_path: Path) -> None:
    """Two programs of a transport stream; the one of the larger pictures has a clock of its own."""
    track = SoundTrack("mp2", format="s16")
    other = replace(track, flashes=(60, 140))
    small = SoundFilm("small", ".ts", [other], codec="mpeg2video")
    large = SoundFilm("large", ".ts", [track], codec="mpeg2video", size=(160, 120))
    first = write_film(small, tmp_path)
    second = later(write_film(large, tmp_path), tmp_path / "later.ts", 100)
    alone = decode_sound(second, VIEW)
    seen_alone = decode_clip(second, PictureView(50))
    for order in ([first, second], [second, first]):
        path = as_programs(order, tmp_path / "programs.ts")
        forget_sound()
        sound = decode_sound(path, VIEW)
        number = 1 + order.index(second)
        assert sound.remarks == (f"sound {number} of 2",)
        assert np.array_equal(sound.samples, alone.samples)
        assert sound.end_s == pytest.approx(alone.end_s)
        clip = decode_clip(path, PictureView(50))
        assert clip.pictures.shape[1:3] == (120, 160)
        assert clip.time_s == pytest.approx(seen_alone.time_s, abs=1e-6)
    mute = only("video", second, tmp_path / "mute.ts")
    path = as_programs([first, mute], tmp_path / "mute-programs.ts")
    assert failure_of(path, None, None) == (
        "no-sound: its only sound belongs to a different program than its pictures"
    )


def test_the_index_of_sound_is_kept_and_trusted_as_of_pictures(tmp_path, monkeypatch):
    path = write_film("mkv-ac3", tmp_path)
    other = write_film("mkv-eac3", tmp_path)
    indexes = tmp_path / "indexes"
    read: list[Path] = []
    real = sound_index._read

    def counted(film: Path, *rest: Any) -> sound_index.SoundIndex:
        read.append(film)
        return real(film, *rest)

    monkeypatch.setattr(sound_index, "_read", counted)

    def heard(file: Path) -> bytes:
        forget_sound()
        sound = decode_sound(file, VIEW, start_s=1.0, end_s=3.0, indexes=indexes)
        return sound.samples.tobytes()

    first = heard(path)
    kept = index_file(path, indexes).parent / "sound.npz"
    content = kept.read_bytes()
    assert (heard(path), read) == (first, [path])
    for wrong in (b"", content[:900], b"PK\x05\x06" + bytes(18)):
        kept.write_bytes(wrong)
        assert heard(path) == first
        assert len(kept.read_bytes()) == len(content)
    # The index of another film is not used.
    heard(other)
    of_other = index_file(other, indexes).parent / "sound.npz"
    kept.write_bytes(of_other.read_bytes())
    assert heard(path) == first
    # Nor is one whose packets have the same sizes.
    with np.load(kept) as values:
        of_copy = {**values, "first": values["first"] + 16000}
    np.savez(kept, **{**of_copy, "made_of": np.array("another film")})
    assert heard(path) == first
    # A film that was repaired in place is another one.
    facts = path.stat()
    path.write_bytes(with_damage(path, tmp_path / "other.mkv", 40).read_bytes())
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with pytest.raises(BadVideo, match="damaged"):
        decode_sound(path, VIEW, start_s=1.0, end_s=3.0, indexes=indexes)


def test_times_that_jitter_are_no_gaps() -> None:
    """No packet is lost, so samples are counted, from where most times say that they begin."""
    rate, tick_s = 48000, 1 / 90000
    samples = np.full(1000, 1152)
    clock = np.cumsum(samples) - samples
    jitter_s = np.random.default_rng(12).normal(0, 0.05, 1000)
    jitter_s[0] = 0.0008
    ticks = np.round((clock / rate + 1 + jitter_s) / tick_s).astype(np.int64)
    numbers = sound_index._first_samples(ticks, samples, tick_s, 0.0, rate)
    assert np.array_equal(np.diff(numbers), samples[1:])
    late = np.rint(ticks * tick_s * rate) - clock
    assert numbers[0] == int(np.median(late)) != late[0]


@pytest.mark.parametrize(("rate", "of_packet"), [(8000, 576), (44100, 1152)])
def test_times_that_are_rounded_begin_with_the_first_packet(of_packet, rate) -> None:
    """Rounded times are no jitter: a sound is where its first packet is, to the sample."""
    samples = np.full(1000, of_packet)
    clock = np.cumsum(samples) - samples
    for tick_s, shown in ((0.001, 0.001), (0.001, 1 / 90000), (0.02, 0.02)):
        for rounded in (np.round, np.floor):
            # What was rounded to a unit, in ticks of the file.
            times = np.round(rounded(clock / rate / tick_s) * tick_s / shown)
            ticks = times.astype(np.int64)
            numbers = sound_index._first_samples(ticks, samples, shown, 0.0, rate)
            assert np.array_equal(numbers, clock)


@pytest.mark.parametrize(("rate", "of_packet"), [(8000, 4096), (16000, 4608)])
def test_sound_of_long_packets_before_a_gap_stays_at_its_time(of_packet, rate) -> None:
    """ALAC and FLAC have packets of .5 and .3 s: there are few before an early gap."""
    samples = np.full(12, of_packet)
    clock = np.cumsum(samples) - samples
    clock[4:] += 3 * rate // 2
    ticks = np.round(clock / rate / 0.001).astype(np.int64)
    numbers = sound_index._first_samples(ticks, samples, 0.001, 0.0, rate)
    assert np.abs(numbers - clock).max() <= 0.001 * rate

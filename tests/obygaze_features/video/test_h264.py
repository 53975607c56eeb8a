import itertools
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from obygaze_features.video.h264 import (
    CodedPicture,
    CodedPictures,
    GapFinder,
    H264Reader,
    HevcReader,
)

BASELINE, HIGH, HIGH_444 = 66, 100, 244
IDR, SLICE, SPS, PPS, SEI = 5, 1, 7, 8, 6
LOG2_MAX_ORDER = 7


def number(value: int, n_bits: int) -> str:
    """u(n)."""
    return f"{value:0{n_bits}b}" if n_bits else ""


def golomb(value: int) -> str:
    """ue(v): as many zeros as there are bits after the first one."""
    bits = f"{value + 1:b}"
    return "0" * (len(bits) - 1) + bits


def signed(value: int) -> str:
    """se(v)."""
    return golomb(2 * value - 1 if value > 0 else -2 * value)


def unit(kind: int, bits: str, importance: int = 3) -> bytes:
    """A NAL unit: its header, the bits, the bit that ends them, and no start code within."""
    bits += "1"
    bits += "0" * (-len(bits) % 8)
    content = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))
    escaped = bytearray()
    for byte in content:
        if byte <= 3 and escaped[-2:] == b"\0\0":
            escaped.append(3)
        escaped.append(byte)
    return bytes([importance << 5 | kind]) + bytes(escaped)


class Stream(SimpleNamespace):
    """What the parameters of a stream say."""

    @property
    def has_all_colours(self) -> bool:
        return self.profile == HIGH_444 and self.chroma_format == 3

    def parameters(self) -> tuple[bytes, bytes]:
        """Return the sequence and the picture parameter sets (7.3.2.1.1 and 7.3.2.2)."""
        bits = number(self.profile, 8) + number(0, 8) + number(40, 8)
        bits += golomb(self.sequence)
        if self.profile != BASELINE:
            bits += golomb(self.chroma_format if self.profile == HIGH_444 else 1)
            if self.has_all_colours:
                bits += number(self.has_separate_colours, 1)
            bits += golomb(0) + golomb(0) + "0"
            bits += number(len(self.scaling) > 0, 1)
            n_lists = (12 if self.has_all_colours else 8) if self.scaling else 0
            for place in range(n_lists):
                changes = self.scaling[place % len(self.scaling)]
                bits += scaling_list(changes, 16 if place < 6 else 64)
        bits += golomb(self.log2_max_frame_num - 4) + golomb(self.order_type)
        if self.order_type == 0:
            bits += golomb(LOG2_MAX_ORDER - 4)
        if self.order_type == 1:
            bits += "1" + signed(-7) + signed(4) + golomb(2) + signed(5) + signed(-6)
        bits += golomb(4) + number(self.may_have_gaps, 1) + golomb(19) + golomb(11)
        bits += number(self.has_frames_only, 1) + "1" + "0"
        return unit(SPS, bits), unit(PPS, golomb(self.picture) + golomb(self.sequence))

    def slice_of(self, coded: CodedPicture) -> bytes:
        """Return the beginning of a slice (7.3.3)."""
        bits = golomb(0) + golomb(7 if coded.is_idr else 5) + golomb(self.picture)
        if self.has_separate_colours and self.has_all_colours:
            bits += "10"
        bits += number(coded.frame_num, self.log2_max_frame_num)
        if not self.has_frames_only:
            bits += number(coded.is_field, 1) + ("1" if coded.is_field else "")
        bits += golomb(5) if coded.is_idr else ""
        if self.order_type == 0:
            bits += number(coded.order or 0, LOG2_MAX_ORDER)
        kind = IDR if coded.is_idr else SLICE
        # What follows is of no interest.
        return unit(kind, bits + "10" * 300, 2 if coded.is_reference else 0)


def scaling_list(changes: list[int], size: int) -> str:
    """Return whether there is a list, and its changes until one says that the rest is equal."""
    if not changes:
        return "0"
    bits = "1"
    last = 8
    for value in itertools.islice(itertools.cycle(changes), size):
        bits += signed(value - last if abs(value - last) < 128 else 0)
        if value == 0:
            break
        last = value
    return bits


STREAMS = st.builds(
    Stream,
    profile=st.sampled_from([BASELINE, HIGH, HIGH_444]),
    chroma_format=st.integers(0, 3),
    has_separate_colours=st.booleans(),
    scaling=st.lists(st.lists(st.integers(0, 60), max_size=9), max_size=3),
    log2_max_frame_num=st.integers(4, 16),
    order_type=st.integers(0, 2),
    may_have_gaps=st.booleans(),
    has_frames_only=st.booleans(),
    sequence=st.integers(0, 31),
    picture=st.integers(0, 255),
)


def by_start_codes(units: Iterable[bytes]) -> bytes:
    return b"".join(b"\0\0\0\1" + content for content in units)


def by_sizes(units: Iterable[bytes], n_bytes: int) -> bytes:
    return b"".join(len(content).to_bytes(n_bytes) + content for content in units)


def header(sps: bytes, pps: bytes, n_bytes: int) -> bytes:
    """The parameters in the header of MP4 (avcC)."""
    head = bytes([1, sps[1], sps[2], sps[3], 0xFC | n_bytes - 1])
    sets = bytes([0xE1]) + by_sizes([sps], 2) + bytes([1]) + by_sizes([pps], 2)
    return head + sets


def check_that_damaged_sizes_are_used(reader: Any, packet: bytes, size_bytes) -> None:
    """Where the sizes of its units are not those of a packet, it is not left out.

    The damage may be in the packet before it too, and only this one is reported.
    """
    for damaged in (packet[:-1], packet + b"\0") if size_bytes else ():
        picture = reader.read(damaged)
        assert picture is None or not picture.unused


@given(
    stream=STREAMS,
    frame_num=st.integers(0, 2**16 - 1),
    order=st.integers(0, 2**LOG2_MAX_ORDER - 1),
    is_reference=st.booleans(),
    is_idr=st.booleans(),
    is_field=st.booleans(),
    size_bytes=st.sampled_from([0, 2, 4]),
    has_header=st.booleans(),
)
def test_what_is_written_by_the_standard_is_read(
    stream, frame_num, order, is_reference, is_idr, is_field, size_bytes, has_header
) -> None:
    coded = CodedPicture(
        is_reference=is_reference or is_idr,
        is_idr=is_idr,
        is_field=is_field and not stream.has_frames_only,
        frame_num=0 if is_idr else frame_num % 2**stream.log2_max_frame_num,
        n_frame_nums=2**stream.log2_max_frame_num,
        may_have_gaps=stream.may_have_gaps,
        # The decoder needs the parameters in a packet later.
        unused=not is_reference
        and not is_idr
        and (stream.has_frames_only or not is_field)
        and (has_header or size_bytes > 0),
        order=order if stream.order_type == 0 else None,
        n_orders=2**LOG2_MAX_ORDER if stream.order_type == 0 else 1,
    )
    sps, pps = stream.parameters()
    units = [bytes([9, 0xF0]), unit(SEI, "01" * 40, 0), stream.slice_of(coded)]
    if not size_bytes:
        parameters = by_start_codes([sps, pps])
        reader = H264Reader(parameters if has_header else None)
        packet = (b"" if has_header else parameters) + by_start_codes(units)
    else:
        reader = H264Reader(header(sps, pps, size_bytes))
        packet = by_sizes(units, size_bytes)
    assert reader.read(packet) == coded
    # What is cut or has no parameters is no picture that can be read.
    assert H264Reader(None).read(by_start_codes(units)) is None
    assert reader.read(packet[: packet.index(units[-1]) + 1]) is None
    check_that_damaged_sizes_are_used(reader, packet, size_bytes)


@st.composite
def numbered_pictures(draw: st.DrawFn) -> list[CodedPicture]:
    """Pictures with the numbers that the standard gives them (7.4.3)."""
    n_frame_nums = draw(st.sampled_from([16, 32, 256]))
    last = 0
    pictures = []
    for place in range(draw(st.integers(2, 60))):
        is_idr = place == 0 or draw(st.integers(0, 15)) == 0
        is_reference = is_idr or draw(st.booleans())
        frame_num = 0 if is_idr else (last + 1) % n_frame_nums
        pictures.append(
            CodedPicture(is_reference, is_idr, False, frame_num, n_frame_nums, False)
        )
        if is_reference:
            last = frame_num
    return pictures


@given(pictures=numbered_pictures(), data=st.data())
def test_a_gap_is_found_before_the_first_picture_after_a_lost_one(pictures, data):
    finder = GapFinder()
    assert not any(finder.is_after_gap(picture) for picture in pictures)
    lost = data.draw(st.integers(1, len(pictures)), label="lost")
    finder = GapFinder()
    kept = [picture for at, picture in enumerate(pictures, 1) if at != lost]
    gaps = [at for at, picture in enumerate(kept) if finder.is_after_gap(picture)]
    following = kept[lost - 1 :]
    # Nothing is built on what is lost before an IDR picture, or at the beginning or the end.
    is_needed = 1 < lost <= len(kept) and not following[0].is_idr
    # A jump to 1 may be that of an encoder that counts anew.
    if pictures[lost - 1].is_reference and is_needed and following[0].frame_num != 1:
        assert gaps[0] == lost - 1
        # It is found again until the next reference picture.
        assert all(not picture.is_reference for picture in kept[lost - 1 : gaps[-1]])
    else:
        assert gaps == []


VPS, SPS_OF_HEVC, PPS_OF_HEVC, DELIMITER, END, SEI_OF_HEVC = 32, 33, 34, 35, 36, 39
# A slice of each type that ITU-T H.265 names (table 7-1), by whether its own layer may use it.
UNUSED_SLICES = (0, 2, 4, 6, 8, 10, 12, 14)
USED_SLICES = (1, 3, 5, 7, 9, 16, 17, 18, 19, 20, 21)
IDR_OF_HEVC = (19, 20)
LEADING = (6, 7, 8, 9)


def hevc_unit(kind: int, bits: str, layer: int = 0, view: int = 0) -> bytes:
    """A NAL unit: its header of two bytes (7.3.1.2), and the bits."""
    head = "0" + number(kind, 6) + number(view, 6) + number(layer + 1, 3)
    return int(head, 2).to_bytes(2) + unit(0, bits)[1:]


class HevcStream(SimpleNamespace):
    """What the parameters of a stream of HEVC say."""

    def parameters(self) -> tuple[bytes, bytes]:
        """Return the sequence and the picture parameter sets (7.3.2.2, 7.3.2.3 and 7.3.3)."""
        bits = number(3, 4) + number(len(self.layers_above), 3) + "1"
        bits += "01" * 44 + number(93, 8)
        for has_profile, has_level in self.layers_above:
            bits += number(has_profile, 1) + number(has_level, 1)
        if self.layers_above:
            bits += "00" * (8 - len(self.layers_above))
        for has_profile, has_level in self.layers_above:
            bits += "0" * 88 * has_profile + "1" * 8 * has_level
        bits += golomb(self.sequence) + golomb(self.chroma_format)
        if self.chroma_format == 3:
            bits += number(self.has_separate_colours, 1)
        bits += golomb(1920) + golomb(1080)
        bits += "1" + golomb(0) * 3 + golomb(4) if self.is_cropped else "0"
        bits += golomb(0) + golomb(2) + golomb(self.log2_max_order - 4) + "101"
        of_pictures = golomb(self.picture) + golomb(self.sequence) + "1"
        of_pictures += number(self.says_if_shown, 1) + number(self.n_reserved, 3)
        return hevc_unit(SPS_OF_HEVC, bits), hevc_unit(PPS_OF_HEVC, of_pictures + "01")

    def slice_of(
        self, kind: int, order: int, layer: int, view: int = 0, first: str = "1"
    ) -> bytes:
        """Return the beginning of a slice (7.3.6.1)."""
        bits = first + ("0" if kind >= 16 else "") + golomb(self.picture)
        bits += "1" * self.n_reserved + golomb(1) + "1" * self.says_if_shown
        if self.has_separate_colours and self.chroma_format == 3:
            bits += "10"
        if kind not in IDR_OF_HEVC:
            bits += number(order % 2**self.log2_max_order, self.log2_max_order)
        # What follows is of no interest.
        return hevc_unit(kind, bits + "10" * 300, layer, view)


def hevc_header(parameters: Iterable[bytes], n_bytes: int) -> bytes:
    """The parameters in the header of MP4 (hvcC), one array for each."""
    head = bytes([1, *range(20), 0xFC | n_bytes - 1])
    arrays = [
        bytes([content[0] >> 1, 0, 1]) + by_sizes([content], 2)
        for content in parameters
    ]
    return head + bytes([len(arrays)]) + b"".join(arrays)


HEVC_STREAMS = st.builds(
    HevcStream,
    layers_above=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=6),
    chroma_format=st.integers(0, 3),
    has_separate_colours=st.booleans(),
    is_cropped=st.booleans(),
    log2_max_order=st.integers(4, 16),
    says_if_shown=st.booleans(),
    n_reserved=st.integers(0, 7),
    sequence=st.integers(0, 15),
    picture=st.integers(0, 63),
)
# Its parameters say as little as they can.
PLAIN = ("has_separate_colours", "is_cropped", "says_if_shown", "n_reserved")
PLAIN += ("sequence", "picture")


@given(
    stream=HEVC_STREAMS,
    kind=st.sampled_from(UNUSED_SLICES + USED_SLICES),
    order=st.integers(0, 2**16 - 1),
    layer=st.integers(0, 2),
    size_bytes=st.sampled_from([0, 2, 4]),
    has_header=st.booleans(),
)
def test_what_is_written_by_the_standard_of_hevc_is_read(
    stream, kind, order, layer, size_bytes, has_header
) -> None:
    parameters = stream.parameters()
    units = [hevc_unit(SEI_OF_HEVC, "01" * 40), stream.slice_of(kind, order, layer)]
    if not size_bytes:
        reader = HevcReader(by_start_codes(parameters) if has_header else None)
        packet = b"" if has_header else by_start_codes(parameters)
        packet += by_start_codes(units)
    else:
        reader = HevcReader(hevc_header(parameters, size_bytes))
        packet = by_sizes(units, size_bytes)
    n_orders = 2**stream.log2_max_order
    assert reader.read(packet) == CodedPicture(
        is_reference=layer == 0 and kind in set(USED_SLICES) - set(LEADING),
        is_idr=16 <= kind <= 20,
        # The decoder needs the parameters in a packet later.
        unused=kind in UNUSED_SLICES and (has_header or size_bytes > 0),
        order=0 if kind in IDR_OF_HEVC else order % n_orders,
        n_orders=n_orders,
        layer=layer,
    )
    # What is cut, has no parameters or lacks its first slice is no picture that can be read.
    assert HevcReader(None).read(by_start_codes(units)) is None
    assert reader.read(packet[: packet.index(units[-1]) + 1]) is None
    check_that_damaged_sizes_are_used(reader, packet, size_bytes)
    later = stream.slice_of(kind, order, layer, first="0")
    packet = by_sizes([later], size_bytes) if size_bytes else by_start_codes([later])
    assert reader.read(packet) is None


@given(
    pictures=st.lists(
        st.tuples(
            st.lists(
                st.sampled_from(UNUSED_SLICES + USED_SLICES), min_size=1, max_size=2
            ),
            st.integers(0, 2),
            st.sampled_from([0, 0, 0, 1]),
            st.sampled_from([None, DELIMITER, SEI_OF_HEVC, VPS, SPS_OF_HEVC, END]),
        ),
        min_size=1,
        max_size=20,
    ),
    has_sizes=st.booleans(),
)
def test_unused_pictures_of_hevc_are_those_of_the_highest_layer(pictures, has_sizes):
    plain = dict.fromkeys(PLAIN, 0)
    stream = HevcStream(layers_above=(), chroma_format=1, log2_max_order=8, **plain)
    parameters = stream.parameters()
    header = hevc_header(parameters, 4) if has_sizes else by_start_codes(parameters)
    reader = CodedPictures(HevcReader(header))
    highest = max(layer for _, layer, _, _ in pictures)
    expected = []
    n_since_idr = 0
    for kinds, layer, has_view, other in pictures:
        # At some key pictures the count begins anew.
        n_since_idr = 0 if 16 <= kinds[0] <= 20 else n_since_idr + 1
        units = [stream.slice_of(kind, n_since_idr, layer) for kind in kinds]
        if has_view:
            units.append(stream.slice_of(0, n_since_idr, layer, view=1))
        if other == SPS_OF_HEVC:
            units.insert(0, parameters[0])
        elif other is not None:
            units.insert(0, hevc_unit(other, "01" * 40))
        reader.is_after_gap(by_sizes(units, 4) if has_sizes else by_start_codes(units))
        is_unused = set(kinds) <= set(UNUSED_SLICES) and not has_view
        has_more = other not in (None, DELIMITER, SEI_OF_HEVC)
        expected.append(is_unused and layer == highest and not has_more)
    shown = np.arange(len(pictures))
    assert reader.find_unused(shown, 2).tolist() == expected
    # If the times say another order, none is left out.
    assert len(pictures) == 1 or not reader.find_unused(shown[::-1], 2).any()


def test_where_gaps_are_allowed_or_fields_share_a_number_none_is_found() -> None:
    layers = [CodedPicture(True, n == 0, False, 2 * n, 16, True) for n in range(8)]
    fields = [CodedPicture(True, n == 0, True, n // 2, 16, False) for n in range(16)]
    for pictures in (layers, fields):
        finder = GapFinder()
        assert not any(finder.is_after_gap(picture) for picture in pictures)


def test_the_importance_of_parameters_is_no_setting_of_the_codec() -> None:
    """It may be any but 0, and may differ in the header of the file and in its packets."""
    plain = Stream(
        profile=BASELINE,
        scaling=[],
        log2_max_frame_num=4,
        order_type=0,
        may_have_gaps=False,
        has_frames_only=True,
        has_separate_colours=False,
        chroma_format=1,
        sequence=0,
        picture=0,
    )
    sets = plain.parameters()
    coded = plain.slice_of(CodedPicture(True, True, order=0))
    as_1 = [bytes([one[0] & 31 | 32]) + one[1:] for one in sets]
    for stated, changes in ((sets, False), (as_1, False), ([sets[0] + b"x"], True)):
        pictures = CodedPictures(H264Reader(by_start_codes(sets)))
        for packet in ([coded], [*stated, coded]):
            pictures.is_after_gap(by_start_codes(packet))
        assert pictures.sets_change is changes
        assert pictures.states_sets == [False, True]

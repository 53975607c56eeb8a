"""Read from packets of H.264 and HEVC which pictures others are built on, and which are missing.

Other pictures are built on reference pictures. In H.264, each has the number of the one before and
1 more, modulo a power of two (`frame_num`), so that a gap tells what is missing. Nothing else is
read of a packet than what is needed for it. The standards are ITU-T H.264, sections 7.3 and 7.4,
and ITU-T H.265, section 7.4.2.2.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from obygaze_features.video.index import Ints

# Types of NAL units: a picture or the first part of one, a picture that needs no other, parameters.
_SLICE = 1
_PARTITION = 2
_IDR = 5
_SPS = 7
_PPS = 8
# Profiles whose parameters say how colours are stored.
_WITH_CHROMA_FORMAT = (44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244)
_START_CODE = b"\0\0\0\1"
# The beginning of a slice that has all that is read of it.
_HEAD = 32
# Types of NAL units of HEVC: slices are before the first of these numbers, and those with an even
# one before the second are no references; then what separates pictures, and what is said of them.
_HEVC_PARAMETERS = 32
_HEVC_REFERENCES = 16
_HEVC_WITHOUT_PICTURES = (35, 38, 39, 40)


@dataclass(frozen=True)
class CodedPicture:
    """What the first slice of a packet says; `is_field` tells that it is one field of a picture.

    A packet of which nothing is used for another picture is `unused`. `order` tells when it is
    shown, modulo `n_orders`; None in a stream that does not say it so.
    """

    is_reference: bool
    is_idr: bool
    is_field: bool
    frame_num: int
    n_frame_nums: int
    may_have_gaps: bool
    unused: bool = False
    order: int | None = None
    n_orders: int = 0


@dataclass(frozen=True)
class _Parameters:
    """What is needed of a sequence parameter set to read a slice."""

    has_separate_colours: bool
    log2_max_frame_num: int
    log2_max_order: int
    may_have_gaps: bool
    has_frames_only: bool


class _Bits:
    """The bits of a NAL unit, read one after another; ValueError if there are not enough."""

    def __init__(self, data: bytes) -> None:
        plain = data.replace(b"\0\0\3", b"\0\0")
        self._value = int.from_bytes(plain)
        self._n_left = 8 * len(plain)

    def number(self, n_bits: int) -> int:
        """Return an unsigned number of a fixed length."""
        self._n_left -= n_bits
        if self._n_left < 0:
            raise ValueError("the NAL unit is too short")
        return self._value >> self._n_left & ((1 << n_bits) - 1)

    def flag(self) -> bool:
        """Return one bit."""
        return self.number(1) == 1

    def golomb(self) -> int:
        """Return a number of exponential Golomb code, without its sign."""
        left = self._value & ((1 << self._n_left) - 1)
        n_zeros = self._n_left - left.bit_length()
        self.number(n_zeros)
        return self.number(n_zeros + 1) - 1


class H264Reader:
    """Reads the packets of a stream in their order; remembers the parameters that come with them.

    Args:
        extradata: The parameters in the header of the file, if it has any.
    """

    def __init__(self, extradata: bytes | None) -> None:
        # How many bytes tell the size of a NAL unit; 0 where units are found by a start code.
        self._size_bytes = 0
        self._sequences: dict[int, _Parameters] = {}
        self._sequence_of: dict[int, int] = {}
        if not extradata:
            return
        if extradata[0] != 1:
            self.read(extradata)
            return
        # What is missing in a damaged header may come with the packets.
        with suppress(ValueError, IndexError):
            self._size_bytes = (extradata[4] & 3) + 1
            for unit in _units_of_header(extradata):
                self._read_parameters(unit)

    def read(self, packet: memoryview | bytes) -> CodedPicture | None:
        """Return what the picture in a packet says; None if the packet has none to read."""
        picture = None
        # The unit of a picture to which nothing refers, or of what is only said of it, has no
        # importance (`nal_ref_idc`). Parameters have one.
        importance = 0
        for unit in _units(packet, self._size_bytes):
            importance |= unit[0] >> 5 & 3
            if picture is not None:
                continue
            try:
                if unit[0] & 31 in (_SLICE, _PARTITION, _IDR):
                    picture = self._read_slice(unit[:_HEAD])
                else:
                    self._read_parameters(unit)
            except (ValueError, KeyError, IndexError):
                # The packet is damaged, or parameters are missing: the decoder will say so.
                return None
        if picture is None or importance or picture.is_field:
            return picture
        return replace(picture, unused=True)

    def _read_parameters(self, unit: bytes) -> None:
        bits = _Bits(unit[1:])
        if unit[0] & 31 == _SPS:
            name, parameters = _sequence_parameters(bits)
            self._sequences[name] = parameters
        elif unit[0] & 31 == _PPS:
            name = bits.golomb()
            self._sequence_of[name] = bits.golomb()

    def _read_slice(self, head: bytes) -> CodedPicture:
        bits = _Bits(head[1:])
        _first_mb = bits.golomb()
        _slice_type = bits.golomb()
        parameters = self._sequences[self._sequence_of[bits.golomb()]]
        if parameters.has_separate_colours:
            bits.number(2)
        frame_num = bits.number(parameters.log2_max_frame_num)
        is_field = not parameters.has_frames_only and bits.flag()
        is_idr = head[0] & 31 == _IDR
        if is_field:
            _is_bottom = bits.flag()
        if is_idr:
            _number_of_idr = bits.golomb()
        has_order = parameters.log2_max_order > 0
        return CodedPicture(
            is_reference=head[0] >> 5 & 3 > 0,
            is_idr=is_idr,
            is_field=is_field,
            frame_num=frame_num,
            n_frame_nums=1 << parameters.log2_max_frame_num,
            may_have_gaps=parameters.may_have_gaps,
            order=bits.number(parameters.log2_max_order) if has_order else None,
            n_orders=1 << parameters.log2_max_order,
        )


class GapFinder:
    """Tells whether a reference picture is missing before a picture; they come in their order.

    `is_certain` tells that each number was that of the picture before and 1 more.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self.is_certain = True

    def is_after_gap(self, picture: CodedPicture) -> bool:
        """Return whether a reference picture is missing between a picture and those before it."""
        last = self._last
        if picture.is_reference:
            self._last = picture.frame_num
        if last is None or picture.is_idr:
            return False
        expected = {(last + 1) % picture.n_frame_nums}
        if picture.is_field or not picture.is_reference:
            # The second field of a picture has its number, and some encoders number others so.
            expected.add(last)
        if picture.frame_num in expected:
            return False
        self.is_certain = False
        # An encoder may begin to count anew, which only the rest of the header before would tell.
        return picture.frame_num != 1 and not picture.may_have_gaps


class H264Pictures:
    """Reads packets of H.264 in their order: which pictures nothing refers to, and what is missing.

    Args:
        extradata: The parameters in the header of the file, if it has any.
    """

    def __init__(self, extradata: bytes | None) -> None:
        self._reader = H264Reader(extradata)
        self._gap_finder = GapFinder()
        self._unused: list[bool] = []
        # When each picture is shown, in the order that their numbers tell.
        self._orders: list[int] = []
        self._order_of_reference = 0
        self._highest = 0
        self._has_read_all = True

    def is_after_gap(self, packet: memoryview | bytes) -> bool:
        """Read the next packet; return whether a reference picture is missing before it."""
        picture = self._reader.read(packet)
        self._unused.append(picture is not None and picture.unused)
        self._orders.append(self._order_of(picture))
        return picture is not None and self._gap_finder.is_after_gap(picture)

    def _order_of(self, picture: CodedPicture | None) -> int:
        """Return the place of a picture in the order of showing (8.2.1.1)."""
        if picture is None or picture.order is None:
            self._has_read_all = False
            return 0
        n_orders = picture.n_orders
        if picture.is_idr:
            # All pictures before it are shown before it, and the count begins anew.
            self._order_of_reference = (self._highest // n_orders + 2) * n_orders
        ahead = (picture.order - self._order_of_reference) % n_orders
        if ahead > n_orders // 2:
            ahead -= n_orders
        order = self._order_of_reference + ahead
        self._highest = max(self._highest, order)
        if picture.is_reference:
            self._order_of_reference = order
        return order

    def unused(self, shown: Ints) -> Ints:
        """Return a number for each packet that no other picture needs, and -1 for the others.

        All have -1 if a number is missing, or if the times disagree with the order in the packets.

        Args:
            shown: The positions of the pictures in the order of their times.
        """
        orders = np.array(self._orders, np.int64)[shown]
        is_certain = self._has_read_all and self._gap_finder.is_certain
        is_certain = is_certain and bool((np.diff(orders) > 0).all())
        unused = np.array(self._unused, np.bool_) & is_certain
        return np.where(unused, np.arange(len(unused)), -1)


class HevcPictures:
    """Reads packets of HEVC: which pictures nothing refers to.

    A picture that its own temporal layer does not use may be used by a higher one, so that only
    those of the highest layer count.

    Args:
        extradata: The parameters in the header of the file, if it has any.
    """

    def __init__(self, extradata: bytes | None) -> None:
        # The header of a file such as MP4 (ISO/IEC 14496-15, hvcC) tells the bytes of a size.
        has_sizes = extradata is not None and len(extradata) > 21 and extradata[0] == 1
        self._size_bytes = (extradata[21] & 3) + 1 if extradata and has_sizes else 0
        self._highest = 0
        # The layer of each picture that its layer does not use; -1 for others.
        self._layers: list[int] = []

    def is_after_gap(self, packet: memoryview | bytes) -> bool:
        """Read the next packet; what is missing before it, the decoder will say."""
        layers = set[int]()
        for unit in _units(packet, self._size_bytes):
            kind = unit[0] >> 1 & 63
            if kind in _HEVC_WITHOUT_PICTURES:
                continue
            is_slice = kind < _HEVC_PARAMETERS and len(unit) > 1
            layer = (unit[1] & 7) - 1 if is_slice else 0
            self._highest = max(self._highest, layer)
            is_unused = is_slice and kind < _HEVC_REFERENCES and kind % 2 == 0
            # The pictures of a second view are in a layer of another kind.
            is_first_view = is_slice and not (unit[0] & 1 or unit[1] >> 3)
            layers.add(layer if is_unused and is_first_view else -1)
        self._layers.append(min(layers, default=-1))
        return False

    def unused(self, shown: Ints) -> Ints:
        """Return a number for each packet that no other picture needs, and -1 for the others.

        Neighbours have one number: nothing of them is read that tells whether they changed places.
        """
        del shown
        unused = np.array(self._layers, np.int64) == self._highest
        return np.where(unused, np.cumsum(~unused), -1)


def _units(packet: memoryview | bytes, size_bytes: int) -> Iterator[bytes]:
    """Yield the NAL units of a packet, each after its size or, without, after a start code."""
    # Some programs copy packets with start codes and keep the header of MP4.
    if not size_bytes or packet[:4] == _START_CODE:
        yield from _units_by_start_code(bytes(packet))
        return
    at = 0
    while at + size_bytes < len(packet):
        start = at + size_bytes
        at = start + int.from_bytes(packet[at:start])
        if at > start:
            yield bytes(packet[start:at])


def _units_of_header(extradata: bytes) -> Iterator[bytes]:
    """Yield the parameters in the header of a file such as MP4 (ISO/IEC 14496-15, avcC)."""
    at = 5
    # The sequences, of which the number has 5 bits, then the pictures.
    for mask in (31, 255):
        n_units = extradata[at] & mask if at < len(extradata) else 0
        at += 1
        for _ in range(n_units):
            size = int.from_bytes(extradata[at : at + 2])
            yield extradata[at + 2 : at + 2 + size]
            at += 2 + size


def _units_by_start_code(data: bytes) -> Iterator[bytes]:
    at = data.find(b"\0\0\1")
    while at >= 0:
        following = data.find(b"\0\0\1", at + 3)
        unit = data[at + 3 : following if following >= 0 else len(data)]
        if unit:
            yield unit
        at = following


def _sequence_parameters(bits: _Bits) -> tuple[int, _Parameters]:
    """Read a sequence parameter set; return its number and what is needed of it."""
    profile = bits.number(8)
    _constraints_and_level = bits.number(16)
    name = bits.golomb()
    has_separate_colours = False
    if profile in _WITH_CHROMA_FORMAT:
        chroma_format = bits.golomb()
        if chroma_format == 3:
            has_separate_colours = bits.flag()
        _bit_depth_of_luma = bits.golomb()
        _bit_depth_of_chroma = bits.golomb()
        _is_lossless = bits.flag()
        has_scaling_lists = bits.flag()
        if has_scaling_lists:
            n_lists = 12 if chroma_format == 3 else 8
            for number in range(n_lists):
                if bits.flag():
                    _skip_scaling_list(bits, 16 if number < 6 else 64)
    log2_max_frame_num = bits.golomb() + 4
    order_type = bits.golomb()
    log2_max_order = 0
    if order_type == 0:
        log2_max_order = bits.golomb() + 4
    elif order_type == 1:
        _always_zero = bits.flag()
        _offset = bits.golomb()
        _offset_of_bottom = bits.golomb()
        for _ in range(bits.golomb()):
            bits.golomb()
    _n_reference_pictures = bits.golomb()
    may_have_gaps = bits.flag()
    _width = bits.golomb()
    _height = bits.golomb()
    has_frames_only = bits.flag()
    return name, _Parameters(
        has_separate_colours,
        log2_max_frame_num,
        log2_max_order,
        may_have_gaps,
        has_frames_only,
    )


def _skip_scaling_list(bits: _Bits, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            code = bits.golomb()
            # Signed numbers alternate: 1, -1, 2, -2 ...
            change = (code + 1) // 2 if code % 2 else -(code // 2)
            following = (last + change) % 256
        last = following or last

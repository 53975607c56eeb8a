"""Find reference pictures, and missing ones, by the packets of H.264 and HEVC.

A decoder needs reference pictures to decode other pictures. In H.264, reference pictures are
numbered modulo a power of two (`frame_num`): a gap in the numbers shows that one is missing. In
both codecs, a picture states its place in display order. Only the fields of a packet that are
needed for these purposes are read. The standards are ITU-T H.264 and ITU-T H.265, sections 7.3 and
7.4.
"""

from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from obygaze_features.video.index import Bools, Ints

# Types of NAL units: a picture or the first part of one, a picture that needs no other, parameters.
_SLICE = 1
_PARTITION = 2
_IDR = 5
_SPS = 7
_PPS = 8
# Profiles whose parameters state how colours are stored.
_WITH_CHROMA_FORMAT = (44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244)
_START_CODE = b"\0\0\0\1"
# The number of bytes at the beginning of a slice that are read.
_HEAD = 32
# Types of NAL units of HEVC. Units with a type below the first number are slices; slices with an
# even type below the second number are not references. Then: types without pictures, parameters.
_HEVC_PARAMETERS = 32
_HEVC_REFERENCES = 16
_HEVC_WITHOUT_PICTURES = (35, 38, 39, 40)
_HEVC_SPS = 33
_HEVC_PPS = 34
# Pictures that need no other (whole pictures), pictures at which the count of the order begins
# again, and pictures whose order is 0. Leading pictures are stored after a whole picture but shown
# before it.
_HEVC_WHOLE = range(16, 24)
_HEVC_ANEW = range(16, 21)
_HEVC_IDR = (19, 20)
_HEVC_LEADING = range(6, 10)
_HEVC_PROFILE_BITS = 88
_HEVC_LEVEL_BITS = 8


class CodedPicture(NamedTuple):
    """The fields of the first slice of a packet.

    `is_field` is true if the packet contains one field (half the lines) of a picture. `unused` is
    true if no other picture of its temporal layer (`layer`) needs this picture. `order` is the
    place of the picture in display order, modulo `n_orders`, or None if the stream does not state
    it. In HEVC, pictures have no `frame_num`, and `n_frame_nums` is 0.
    """

    is_reference: bool
    is_idr: bool
    is_field: bool = False
    frame_num: int = 0
    n_frame_nums: int = 0
    may_have_gaps: bool = False
    unused: bool = False
    order: int | None = None
    n_orders: int = 0
    layer: int = 0


@dataclass(frozen=True)
class _Parameters:
    """The fields of a sequence parameter set that are needed to read a slice."""

    has_separate_colours: bool
    log2_max_frame_num: int
    log2_max_order: int
    may_have_gaps: bool
    has_frames_only: bool


class _Bits:
    """The bits of a NAL unit, read one after another; reading past the end raises ValueError."""

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
        """Return an unsigned number in exponential Golomb code."""
        left = self._value & ((1 << self._n_left) - 1)
        n_zeros = self._n_left - left.bit_length()
        self.number(n_zeros)
        return self.number(n_zeros + 1) - 1

    def length(self) -> int:
        """Return the number of bits of later numbers, which both standards limit to 16."""
        n_bits = self.golomb() + 4
        if n_bits > 16:
            raise ValueError("the parameter set is damaged")
        return n_bits


class _ParameterSets:
    """The parameter sets that a stream stated last, and whether one was replaced by another."""

    def __init__(self) -> None:
        self._units: dict[tuple[int, int], bytes] = {}
        self.n_stated = 0
        self.is_changed = False

    def state(self, kind: int, name: int, unit: bytes) -> None:
        """Remember a parameter set; its last byte is not 0."""
        unit = unit.rstrip(b"\0")
        self.is_changed |= self._units.get((kind, name), unit) != unit
        self._units[kind, name] = unit
        self.n_stated += 1


class H264Reader:
    """Reads the packets of a stream in their order, and remembers the parameter sets in them.

    Args:
        extradata: The parameter sets in the header of the file, if it has any.
    """

    def __init__(self, extradata: bytes | None) -> None:
        # The number of bytes that state the size of a NAL unit; 0 if units begin with a start code.
        self._size_bytes = 0
        self.sets = _ParameterSets()
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
        """Return the fields of the picture in a packet, or None if they cannot be read."""
        picture = None
        # `nal_ref_idc` is 0 for a picture that is not a reference and for supplementary units.
        # Parameters have another value.
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
        return picture._replace(unused=_is_whole(packet, self._size_bytes))

    def _read_parameters(self, unit: bytes) -> None:
        # The first byte also states an importance, which is not a setting.
        bits = _Bits(unit[1:])
        if unit[0] & 31 == _SPS:
            name, parameters = _sequence_parameters(bits)
            self._sequences[name] = parameters
            self.sets.state(_SPS, name, unit[1:])
        elif unit[0] & 31 == _PPS:
            name = bits.golomb()
            self._sequence_of[name] = bits.golomb()
            self.sets.state(_PPS, name, unit[1:])

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


class HevcReader:
    """Reads the packets of a HEVC stream in their order, and remembers the parameter sets in them.

    Args:
        extradata: The parameter sets in the header of the file, if it has any.
    """

    def __init__(self, extradata: bytes | None) -> None:
        self.sets = _ParameterSets()
        # For each sequence: whether colours are separate, and the bits of an order.
        self._sequences: dict[int, tuple[bool, int]] = {}
        # For each picture parameter set: the sequence, whether slices have a flag for showing, and
        # the number of reserved bits before the type of a slice.
        self._pictures: dict[int, tuple[int, bool, int]] = {}
        # The header of a file such as MP4 (ISO/IEC 14496-15, hvcC) states the bytes of a size.
        header = extradata or b""
        has_sizes = len(header) > 21 and header[0] == 1
        self._size_bytes = (header[21] & 3) + 1 if has_sizes else 0
        units = _units_of_hevc_header if has_sizes else _units_by_start_code
        # What is missing in a damaged header may come with the packets.
        with suppress(ValueError, IndexError):
            for unit in units(header):
                self._read_parameters(unit)

    def read(self, packet: memoryview | bytes) -> CodedPicture | None:
        """Return the fields of the picture in a packet, or None if they cannot be read."""
        first_slice = None
        is_unused = _is_whole(packet, self._size_bytes)
        try:
            for unit in _units(packet, self._size_bytes):
                kind = unit[0] >> 1 & 63
                if kind in _HEVC_WITHOUT_PICTURES:
                    continue
                is_unused &= kind < _HEVC_REFERENCES and kind % 2 == 0
                # The pictures of a second view are in a layer of another kind.
                if unit[0] & 1 or unit[1] >> 3:
                    is_unused = False
                elif kind >= _HEVC_PARAMETERS:
                    self._read_parameters(unit)
                elif first_slice is None:
                    first_slice = unit[:_HEAD]
            return self._read_slice(first_slice, is_unused) if first_slice else None
        except (ValueError, KeyError, IndexError):
            # The packet is damaged, or parameters are missing: the decoder will say so.
            return None

    def _read_parameters(self, unit: bytes) -> None:
        kind = unit[0] >> 1 & 63
        bits = _Bits(unit[2:])
        if kind == _HEVC_SPS:
            name, parameters = _hevc_sequence_parameters(bits)
            self._sequences[name] = parameters
            self.sets.state(kind, name, unit)
        elif kind == _HEVC_PPS:
            name = bits.golomb()
            self.sets.state(kind, name, unit)
            sequence = bits.golomb()
            _has_dependent_slices = bits.flag()
            says_if_shown = bits.flag()
            self._pictures[name] = (sequence, says_if_shown, bits.number(3))

    def _read_slice(self, head: bytes, is_unused: bool) -> CodedPicture:
        kind = head[0] >> 1
        layer = (head[1] & 7) - 1
        bits = _Bits(head[2:])
        if not bits.flag():
            raise ValueError("the first slice of the picture is missing")
        if kind in _HEVC_WHOLE:
            _forgets_earlier_pictures = bits.flag()
        sequence, says_if_shown, n_reserved = self._pictures[bits.golomb()]
        has_separate_colours, log2_max_order = self._sequences[sequence]
        bits.number(n_reserved)
        _slice_type = bits.golomb()
        bits.number(says_if_shown + 2 * has_separate_colours)
        is_used = kind >= _HEVC_REFERENCES or kind % 2 == 1
        return CodedPicture(
            is_reference=layer == 0 and is_used and kind not in _HEVC_LEADING,
            is_idr=kind in _HEVC_ANEW,
            unused=is_unused,
            order=0 if kind in _HEVC_IDR else bits.number(log2_max_order),
            n_orders=1 << log2_max_order,
            layer=layer,
        )


class GapFinder:
    """Finds missing reference pictures by gaps in their numbers (`frame_num`).

    Pictures must be passed in the order of the file. `is_certain` is true while the number of each
    picture follows the number of the picture before it.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self.is_certain = True

    def is_after_gap(self, picture: CodedPicture) -> bool:
        """Return whether a reference picture is missing directly before the next picture."""
        last = self._last
        if picture.is_reference:
            self._last = picture.frame_num
        if last is None or picture.is_idr or not picture.n_frame_nums:
            return False
        expected = {(last + 1) % picture.n_frame_nums}
        if picture.is_field or not picture.is_reference:
            # A second field has the number of the first field. Some encoders give pictures that are
            # not references the number of the picture before.
            expected.add(last)
        if picture.frame_num in expected:
            return False
        self.is_certain = False
        # An encoder may begin to count again, which only the rest of the header would show.
        return picture.frame_num != 1 and not picture.may_have_gaps


class CodedPictures:
    """Reads packets in their order, and finds missing references and unused pictures.

    A picture is unused if no other picture needs it. A picture that no picture of its own temporal
    layer needs may be needed by a higher layer. Therefore only pictures of the highest layer can be
    unused.

    Args:
        reader: The reader of packets of the codec.
    """

    def __init__(self, reader: H264Reader | HevcReader) -> None:
        self._reader = reader
        self._gap_finder = GapFinder()
        self._highest_layer = 0
        # The layer of each picture that its layer does not use; -1 for others.
        self._layers: list[int] = []
        # The place of each picture in the order of showing, by the numbers in the packets.
        self._orders: list[int] = []
        self._order_of_reference = 0
        self._highest = 0
        self._has_read_all = True
        # Whether each packet states parameter sets, and whether they change after the first packet.
        self.states_sets: list[bool] = []
        self.sets_change = False

    def is_after_gap(self, packet: memoryview | bytes) -> bool:
        """Read the next packet; return whether a reference picture is missing before it."""
        sets = self._reader.sets
        n_stated = sets.n_stated
        sets.is_changed = False
        picture = self._reader.read(packet)
        self.sets_change |= sets.is_changed and len(self.states_sets) > 0
        self.states_sets.append(sets.n_stated > n_stated)
        self._orders.append(self._order_of(picture))
        self._layers.append(picture.layer if picture and picture.unused else -1)
        if picture is None:
            return False
        self._highest_layer = max(self._highest_layer, picture.layer)
        return self._gap_finder.is_after_gap(picture)

    def _order_of(self, picture: CodedPicture | None) -> int:
        """Return the place of a picture in display order (H.264: 8.2.1.1, HEVC: 8.3.1)."""
        if picture is None or picture.order is None:
            self._has_read_all = False
            return 0
        n_orders = picture.n_orders
        if picture.is_idr:
            # All pictures before it are shown before it, and the count begins again.
            self._order_of_reference = (self._highest // n_orders + 2) * n_orders
        ahead = (picture.order - self._order_of_reference) % n_orders
        if ahead > n_orders // 2:
            ahead -= n_orders
        order = self._order_of_reference + ahead
        self._highest = max(self._highest, order)
        if picture.is_reference:
            self._order_of_reference = order
        return order

    def find_unused(self, shown: Ints, reorder: int) -> Bools:
        """Return for each packet whether no other picture needs it.

        No packet counts as unused if a packet cannot be read, if a `frame_num` is missing, or if
        the times contradict the display order that the packets state. In the last case, two packets
        may have been exchanged, and the decoder may report this only if it gets both.

        Args:
            shown: The positions of the pictures in the order of their times.
            reorder: The number of pictures that the decoder may delay.
        """
        is_certain = self._has_read_all and self._gap_finder.is_certain
        is_certain = is_certain and not self.find_contradicted(shown, reorder).any()
        unused: Bools = (np.array(self._layers) == self._highest_layer) & is_certain
        return unused

    def find_contradicted(self, shown: Ints, reorder: int) -> Bools:
        """Return which packets state a place in display order that contradicts their times.

        The places of pictures near each other are compared. If any packet states no place, no
        packet is marked. All packets from one contradicting picture to the other are marked: of
        three rotated packets, two are still in their order.

        Args:
            shown: The positions of the pictures in the order of their times.
            reorder: The number of pictures that the decoder may delay. Times that move a picture by
                more places are not reliable.
        """
        contradicted = np.zeros(len(self._orders), dtype=np.bool_)
        orders = np.array(self._orders, np.int64)[shown]
        if not self._has_read_all:
            return contradicted
        for apart in range(1, max(reorder, 1) + 1):
            (is_back,) = np.nonzero(orders[apart:] <= orders[:-apart])
            for place in range(apart + 1):
                contradicted[shown[is_back + place]] = True
        return contradicted


def _units(packet: memoryview | bytes, size_bytes: int) -> Iterator[bytes]:
    """Yield the NAL units of a packet; before each unit, there is its size or a start code."""
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


def _is_whole(packet: memoryview | bytes, size_bytes: int) -> bool:
    """Return whether the sizes of the NAL units of a packet add up to the size of the packet.

    If they do not, this packet is damaged, and perhaps the packet before it. Such a packet must be
    decoded, so that the decoder reports the damage. A packet with start codes states no sizes and
    counts as whole.
    """
    if not size_bytes or packet[:4] == _START_CODE:
        return True
    at = 0
    while at < len(packet):
        at += size_bytes + int.from_bytes(packet[at : at + size_bytes])
    return at == len(packet)


def _units_of_header(extradata: bytes) -> Iterator[bytes]:
    """Yield the parameter sets in the header of a file such as MP4 (ISO/IEC 14496-15, avcC)."""
    at = 5
    # First the parameters of sequences, whose number has 5 bits, then those of pictures.
    for mask in (31, 255):
        n_units = extradata[at] & mask if at < len(extradata) else 0
        at += 1
        at = yield from _units_with_sizes(extradata, at, n_units)


def _units_of_hevc_header(extradata: bytes) -> Iterator[bytes]:
    """Yield the parameter sets in the header of a file such as MP4 (ISO/IEC 14496-15, hvcC)."""
    at = 23
    for _ in range(extradata[22]):
        n_units = int.from_bytes(extradata[at + 1 : at + 3])
        at = yield from _units_with_sizes(extradata, at + 3, n_units)


def _units_with_sizes(
    extradata: bytes, at: int, n_units: int
) -> Generator[bytes, None, int]:
    """Yield NAL units; before each unit, there is its size, of two bytes. Return where they end."""
    for _ in range(n_units):
        size = int.from_bytes(extradata[at : at + 2])
        yield extradata[at + 2 : at + 2 + size]
        at += 2 + size
    return at


def _units_by_start_code(data: bytes) -> Iterator[bytes]:
    at = data.find(b"\0\0\1")
    while at >= 0:
        following = data.find(b"\0\0\1", at + 3)
        unit = data[at + 3 : following if following >= 0 else len(data)]
        if unit:
            yield unit
        at = following


def _sequence_parameters(bits: _Bits) -> tuple[int, _Parameters]:
    """Read a sequence parameter set; return its number and the needed fields."""
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
    log2_max_frame_num = bits.length()
    order_type = bits.golomb()
    log2_max_order = 0
    if order_type == 0:
        log2_max_order = bits.length()
    elif order_type == 1:
        _always_zero = bits.flag()
        _offset = bits.golomb()
        _offset_of_bottom = bits.golomb()
        n_offsets = bits.golomb()
        if n_offsets > 255:
            raise ValueError("the parameter set is damaged")
        for _ in range(n_offsets):
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


def _hevc_sequence_parameters(bits: _Bits) -> tuple[int, tuple[bool, int]]:
    """Read a sequence parameter set of HEVC; return its number and the needed fields."""
    _number_of_video = bits.number(4)
    n_layers_above = bits.number(3)
    _is_nested = bits.flag()
    bits.number(_HEVC_PROFILE_BITS + _HEVC_LEVEL_BITS)
    if n_layers_above:
        says_of_layers = bits.number(16)
        for layer in range(n_layers_above):
            if says_of_layers >> (15 - 2 * layer) & 1:
                bits.number(_HEVC_PROFILE_BITS)
            if says_of_layers >> (14 - 2 * layer) & 1:
                bits.number(_HEVC_LEVEL_BITS)
    name = bits.golomb()
    chroma_format = bits.golomb()
    has_separate_colours = chroma_format == 3 and bits.flag()
    _width = bits.golomb()
    _height = bits.golomb()
    is_cropped = bits.flag()
    if is_cropped:
        for _ in range(4):
            bits.golomb()
    _bit_depth_of_luma = bits.golomb()
    _bit_depth_of_chroma = bits.golomb()
    return name, (has_separate_colours, bits.length())

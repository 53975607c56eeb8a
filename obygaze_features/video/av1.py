"""Find the pictures of AV1 that no other picture needs, by the packets.

A packet of AV1 shows one picture, and may hold hidden pictures. A coded picture states which of
eight places it fills; later pictures refer to these places. Only the fields of a packet that are
needed for this purpose are read. The standard is the AV1 Bitstream & Decoding Process
Specification, sections 5.5 and 5.9.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from obygaze_features.video.h264 import Bits, CodedPicture, ParameterSets

# Types of units (obu_type).
_SEQUENCE = 1
_FRAME_HEADER = 3
_FRAME = 6
# Types of pictures (frame_type).
_KEY = 0
_INTRA = 2
_SWITCH = 3
_N_PLACES = 8
_ALL_PLACES = (1 << _N_PLACES) - 1
# The header of a file such as MP4 (av1C) begins with four bytes that are not a unit.
_HEADER_BYTES = 4
# The number of bytes at the beginning of a unit that are read.
_HEAD = 64
# A setting that each picture states itself.
_IN_PICTURE = 2


@dataclass(frozen=True)
class _Sequence:
    """The fields of a sequence header that are needed to read the header of a picture.

    `screen` states whether pictures may be of a screen, and `integer` whether they move by whole
    pixels.
    """

    screen: int
    integer: int
    order_bits: int


@dataclass(frozen=True)
class _Coded:
    """The fields of the header of a picture; `places` has a bit for each place that it fills."""

    is_shown: bool
    is_key: bool
    order: int
    places: int


class Av1Reader:
    """Reads the packets of a stream in their order, and remembers what fills each place.

    Args:
        extradata: The header of the stream in the header of the file, if it has any.
    """

    def __init__(self, extradata: bytes | None) -> None:
        # No sequence header is stated here: the decoder itself checks what depends on it.
        self.sets = ParameterSets()
        self._sequence: _Sequence | None = None
        self._places: list[_Coded | None] = [None] * _N_PLACES
        self.read((extradata or b"")[_HEADER_BYTES:])

    def read(self, packet: memoryview | bytes) -> CodedPicture | None:
        """Return the fields of the picture in a packet, or None if they cannot be read."""
        pictures = []
        try:
            for kind, unit in _units(packet):
                if kind == _SEQUENCE:
                    self._sequence = None
                    self._sequence = _read_sequence(Bits(unit, is_escaped=False))
                elif kind in (_FRAME_HEADER, _FRAME):
                    pictures.append(self._read_picture(Bits(unit, is_escaped=False)))
            (shown,) = (picture for picture in pictures if picture.is_shown)
        except (ValueError, IndexError):
            # The packet is damaged, or has what is not read here: all pictures are decoded.
            return None
        if self._sequence is None or not self._sequence.order_bits:
            return None
        return CodedPicture(
            is_reference=True,
            is_idr=shown.is_key,
            unused=not any(picture.places for picture in pictures),
            order=shown.order,
            n_orders=1 << self._sequence.order_bits,
        )

    def _read_picture(self, bits: Bits) -> _Coded:
        """Read the header of a picture (5.9.2), and fill its places."""
        sequence = self._sequence
        if sequence is None:
            raise ValueError("the sequence header is missing")
        shows_existing = bits.flag()
        if shows_existing:
            existing = self._places[bits.number(3)]
            if existing is None:
                raise ValueError("the place is empty")
            # A key frame that is shown later fills all places. A place that a picture is taken from
            # may be needed again, so the packet does not count as unused.
            picture = _Coded(True, False, existing.order, _ALL_PLACES)
            if existing.is_key:
                self._places = [existing] * _N_PLACES
            return picture
        kind = bits.number(2)
        is_shown = bits.flag()
        if not is_shown:
            _may_be_shown_later = bits.flag()
        is_anew = kind == _SWITCH or (kind == _KEY and is_shown)
        is_robust = is_anew or bits.flag()
        _keeps_probabilities = bits.flag()
        is_screen = sequence.screen
        if is_screen == _IN_PICTURE:
            is_screen = bits.number(1)
        if is_screen and sequence.integer == _IN_PICTURE:
            _is_integer = bits.flag()
        if kind != _SWITCH:
            _has_own_size = bits.flag()
        order = bits.number(sequence.order_bits)
        if kind not in (_KEY, _INTRA) and not is_robust:
            _primary_reference = bits.number(3)
        places = _ALL_PLACES if is_anew else bits.number(_N_PLACES)
        picture = _Coded(is_shown, kind == _KEY, order, places)
        for place in range(_N_PLACES):
            if places >> place & 1:
                self._places[place] = picture
        return picture


def _units(packet: memoryview | bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the first bytes of each unit (5.3); they must fill the packet."""
    at = 0
    while at < len(packet):
        head = packet[at]
        has_extension = head & 4
        at += 2 if has_extension else 1
        size = len(packet) - at
        has_size = head & 2
        if has_size:
            size = shift = 0
            is_last = False
            while not is_last:
                size |= (packet[at] & 127) << shift
                is_last = packet[at] < 128
                shift += 7
                at += 1
        yield head >> 3 & 15, bytes(packet[at : at + min(size, _HEAD)])
        at += size
    if at != len(packet):
        raise ValueError("a unit ends after its packet")


def _read_sequence(bits: Bits) -> _Sequence:
    """Read a sequence header (5.5.1); raise ValueError if it has layers or a decoder model."""
    _profile = bits.number(3)
    _is_still = bits.flag()
    is_reduced = bits.flag()
    has_timing = bits.flag()
    if is_reduced or has_timing:
        raise ValueError("these sequences are not read")
    has_delays = bits.flag()
    n_layers = bits.number(5) + 1
    if n_layers > 1:
        raise ValueError("these sequences are not read")
    _operating_point = bits.number(12)
    level = bits.number(5)
    if level > 7:
        _tier = bits.flag()
    if has_delays and bits.flag():
        _delay = bits.number(4)
    width_bits = bits.number(4) + 1
    height_bits = bits.number(4) + 1
    _size = bits.number(width_bits + height_bits)
    has_numbers = bits.flag()
    if has_numbers:
        raise ValueError("these sequences are not read")
    _superblock_and_intra_tools = bits.number(3)
    _inter_tools = bits.number(4)
    has_order = bits.flag()
    if has_order:
        _tools_by_order = bits.number(2)
    screen = _IN_PICTURE if bits.flag() else bits.number(1)
    integer = _IN_PICTURE
    if screen and not bits.flag():
        integer = bits.number(1)
    return _Sequence(screen, integer, bits.number(3) + 1 if has_order else 0)

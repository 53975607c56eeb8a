"""Videos with subtitles inside them, written by PyAV."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
from av.subtitles.subtitle import SubtitleSet

from support.videos import numbered

HEADER = b"""[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, \
Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, \
Alignment, MarginL, MarginR, MarginV, Encoding
Style: Default,Arial,16,&Hffffff,&Hffffff,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,0

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""
# Start, end and text.
Said = Sequence[tuple[float, float, str]]


def write_subtitled(
    path: Path,
    codecs: Sequence[str],
    said: Said,
    *,
    seconds: int = 15,
    late_s: int = 0,
) -> Path:
    """Write a video of two pictures a second, with the same subtitles in some codecs.

    All times in the file are `late_s` later.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(path, "w") as container:
        video = container.add_stream("mpeg4", rate=2)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        packets = []
        for number in range(2 * seconds):
            frame = av.VideoFrame.from_ndarray(numbered(number, 64, 48), format="gray8")
            frame = frame.reformat(format="yuv420p")
            frame.pts = number
            packets += video.encode(frame)
        packets += video.encode()
        for codec in codecs:
            packets += _packets(container, codec, said)
        packets.sort(key=lambda packet: packet.dts * packet.time_base)
        for packet in packets:
            ticks = int(late_s / packet.time_base)
            packet.pts += ticks
            packet.dts += ticks
            container.mux(packet)
    return path


def _packets(
    container: av.container.OutputContainer, codec: str, said: Said
) -> list[av.Packet]:
    stream = container.add_stream(codec)
    stream.time_base = Fraction(1, 1000)
    stream.codec_context.subtitle_header = HEADER
    packets = []
    for number, (start_s, end_s, text) in enumerate(said):
        line = f"{number},0,Default,,0,0,0,,{text}".encode()
        length_ms = round(1000 * (end_s - start_s))
        shown = SubtitleSet.create(line, 0, length_ms, round(1e6 * start_s))
        packet = stream.codec_context.encode_subtitle(shown)
        packet.stream = stream
        packet.time_base = Fraction(1, 1000)
        packet.pts = packet.dts = round(1000 * start_s)
        packet.duration = round(1000 * (end_s - start_s))
        packets.append(packet)
    return packets

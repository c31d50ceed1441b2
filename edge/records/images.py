"""Uploaded drawings and photos, re-encoded from pixels to drop all other content of the file.

One image is open at a time, and organizations take turns. The memory is known from the header before decoding: in most
modes PIL uses four bytes per pixel, and its decoder for progressive JPEG two more per component.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import NamedTuple

from PIL import Image, ImageOps, PngImagePlugin, UnidentifiedImageError
from PIL.ImageFile import ImageFile

from edge.errors import Invalid, Unavailable
from edge.fair_turns import FairTurns
from edge.memory_budget import MB, WORK
from edge.texts import N_, fill

MOST_PIXELS = 16_000_000  # of an uploaded image
MOST_MEMORY = 104 * MB  # during decoding
LONGEST_SIDE = 2_400  # of the stored image
MOST_SCANS = 100  # of a JPEG; cameras write at most 12, and each costs time for the whole image
QUALITY = 85
LONGEST_SIDE_OF_PHOTO = 1_280
QUALITIES_OF_PHOTO = (75, 60, 45, 25)  # the first that fits
WAIT_SECONDS = 5.0  # for other images
_RETRY_SECONDS = 5
_REDUCED_BYTES = 4 * LONGEST_SIDE * LONGEST_SIDE
_BYTES_OF_PIXEL = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2}  # default: 4
_READY = ("RGB", "RGBA", "L")  # modes that need no conversion
_ORIENTATION = 0x0112  # EXIF tag
_SCAN = b"\xff\xda"  # begins a scan; never occurs inside of one

PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY = MB  # limit for comments, which are not used

_MOST_WAITING = 3  # of an organization; each occupies a thread
_turns = FairTurns(1 + _MOST_WAITING)


Writer = Callable[..., "Drawing"]  # (image, is_jpeg=)


class Drawing(NamedTuple):
    content: bytes
    media_type: str
    size: tuple[int, int]


def drawing_of(organization_id: int, uploaded: bytes) -> Drawing:
    """Return a PNG or JPEG, rotated by its orientation, at most LONGEST_SIDE long.

    Raises Invalid for anything else, and Unavailable while others are processed.
    """
    return _in_turn(organization_id, uploaded, LONGEST_SIDE, _written)


def photo_of(organization_id: int, uploaded: bytes, max_bytes: int) -> Drawing:
    """Return a JPEG, rotated by its orientation, of at most `max_bytes`. Raises like `drawing_of`."""
    return _in_turn(organization_id, uploaded, LONGEST_SIDE_OF_PHOTO, lambda image, **_: _jpeg(image, max_bytes))


def _in_turn(organization_id: int, uploaded: bytes, longest: int, write: Writer) -> Drawing:
    with _turns.turn(organization_id, WAIT_SECONDS) as has_turn:
        if not has_turn:
            raise Unavailable(N_("Another image is being processed; try again in a few seconds"), _RETRY_SECONDS)
        return _checked(uploaded, longest, write)


def _checked(uploaded: bytes, longest: int, write: Writer) -> Drawing:
    try:
        return _drawing_of(uploaded, longest, write)
    except UnidentifiedImageError as error:
        raise _unusable(N_("This is not a PNG or JPEG image. Use one of these formats")) from error
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _unusable(N_("The image is damaged")) from error


def _drawing_of(uploaded: bytes, longest: int, write: Writer) -> Drawing:
    with Image.open(io.BytesIO(uploaded), formats=("PNG", "JPEG")) as opened:
        pixels = opened.width * opened.height
        if pixels > MOST_PIXELS:
            message = N_("The image has more than %(number)s million pixels. Export a smaller one")
            raise _unusable(fill(message, number=MOST_PIXELS // 1_000_000))
        if opened.format != "PNG" and uploaded.count(_SCAN) > MOST_SCANS:
            raise _unusable(N_("The image has too many scans. Save it as a JPEG that is not progressive"))
        opened.draft("RGB", (longest, longest))  # decodes a JPEG at reduced size if possible
        with WORK.holding(_memory_of(opened, pixels)):
            return write(_reduced(opened, longest), is_jpeg=opened.format == "JPEG")


def _memory_of(opened: ImageFile, pixels: int) -> int:
    """Return the bytes that decoding takes; `pixels` is the size of the file's image. Raises Invalid if it is too
    large.
    """
    of_pixel = _BYTES_OF_PIXEL.get(opened.mode, 4) + (0 if opened.mode in _READY else 4)
    memory = opened.width * opened.height * of_pixel + _REDUCED_BYTES
    if opened.info.get("progressive"):
        memory += pixels * 2 * len(opened.getbands())
    if memory > MOST_MEMORY:
        raise _unusable(N_("The image needs too much memory. Export a smaller one or a non-progressive JPEG"))
    return memory


def _reduced(opened: ImageFile, longest: int) -> Image.Image:
    """Return the image in RGB or RGBA, rotated by its orientation, at most `longest` long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one for each broken entry, up to 13 MB of log for a photo
        orientation = opened.getexif().get(_ORIENTATION)
    mode = "RGB" if opened.format == "JPEG" else "RGBA"
    image: Image.Image = opened if opened.mode in _READY else opened.convert(mode)
    image.thumbnail((longest, longest))
    reduced = image.convert(mode)
    notes = Image.Exif()
    notes[_ORIENTATION] = orientation or 1
    reduced.info = {"exif": notes.tobytes()}
    return ImageOps.exif_transpose(reduced)


def _written(image: Image.Image, *, is_jpeg: bool) -> Drawing:
    out = io.BytesIO()
    if is_jpeg:
        image.save(out, "JPEG", quality=QUALITY)
        return Drawing(out.getvalue(), "image/jpeg", image.size)
    _on_white(image).save(out, "PNG", optimize=True)
    return Drawing(out.getvalue(), "image/png", image.size)


def _on_white(image: Image.Image) -> Image.Image:
    on_white = Image.new("RGB", image.size, "white")
    on_white.paste(image, mask=image.getchannel("A"))
    return on_white


def _jpeg(image: Image.Image, max_bytes: int) -> Drawing:
    image = _on_white(image) if image.mode == "RGBA" else image
    for quality in QUALITIES_OF_PHOTO:
        out = io.BytesIO()
        image.save(out, "JPEG", quality=quality)
        if out.tell() <= max_bytes:
            return Drawing(out.getvalue(), "image/jpeg", image.size)
    raise _unusable(N_("The photo has too much detail. Take it from farther away"))


def _unusable(message: str) -> Invalid:
    return Invalid.one("image", "invalid_value", message)

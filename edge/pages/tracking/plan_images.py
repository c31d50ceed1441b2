"""Uploaded drawings, re-encoded from pixels to drop all other content of the file.

One image is open at a time. The memory is known from the header before decoding: in most modes PIL uses four bytes per
pixel, and its decoder for progressive JPEG two more per component.
"""

from __future__ import annotations

import io
import threading
from typing import NamedTuple

from PIL import Image, ImageOps, PngImagePlugin, UnidentifiedImageError
from PIL.ImageFile import ImageFile

from edge.budget import MB, WORK
from edge.errors import Invalid, Unavailable

MOST_PIXELS = 16_000_000  # of an uploaded image
MOST_MEMORY = 104 * MB  # during decoding
LONGEST_SIDE = 2_400  # of the stored image
QUALITY = 85
WAIT_SECONDS = 2.0  # for the previous image
_RETRY_SECONDS = 5
_REDUCED_BYTES = 4 * LONGEST_SIDE * LONGEST_SIDE
_BYTES_OF_PIXEL = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2}  # default: 4
_READY = ("RGB", "RGBA", "L")  # modes that need no conversion
_ORIENTATION = 0x0112  # EXIF tag

PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY = MB  # limit for comments, which are not used

_one_at_a_time = threading.Lock()


class Drawing(NamedTuple):
    content: bytes
    media_type: str
    size: tuple[int, int]


def drawing_of(uploaded: bytes) -> Drawing:
    """Return a PNG or JPEG, rotated by its orientation, at most LONGEST_SIDE long.

    Raises Invalid for anything else, and Unavailable while others are processed.
    """
    if not _one_at_a_time.acquire(timeout=WAIT_SECONDS):
        raise Unavailable("Another image is being processed; try again in a few seconds", _RETRY_SECONDS)
    try:
        return _drawing_of(uploaded)
    except UnidentifiedImageError as error:
        raise _unusable("This is not a PNG or JPEG image. Export the plan in one of these formats") from error
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _unusable("The image is damaged") from error
    finally:
        _one_at_a_time.release()


def _drawing_of(uploaded: bytes) -> Drawing:
    with Image.open(io.BytesIO(uploaded), formats=("PNG", "JPEG")) as opened:
        pixels = opened.width * opened.height
        if pixels > MOST_PIXELS:
            raise _unusable(f"The image has more than {MOST_PIXELS // 1_000_000} million pixels. Export a smaller one")
        opened.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))  # decodes a JPEG at reduced size if possible
        with WORK.holding(_memory_of(opened, pixels)):
            return _written(_reduced(opened), is_jpeg=opened.format == "JPEG")


def _memory_of(opened: ImageFile, pixels: int) -> int:
    """Return the bytes that decoding takes; `pixels` is the size of the file's image. Raises Invalid if it is too
    large.
    """
    of_pixel = _BYTES_OF_PIXEL.get(opened.mode, 4) + (0 if opened.mode in _READY else 4)
    memory = opened.width * opened.height * of_pixel + _REDUCED_BYTES
    if opened.info.get("progressive"):
        memory += pixels * 2 * len(opened.getbands())
    if memory > MOST_MEMORY:
        raise _unusable("The image needs too much memory. Export a smaller one or a non-progressive JPEG")
    return memory


def _reduced(opened: ImageFile) -> Image.Image:
    """Return the image in RGB or RGBA, rotated by its orientation, at most LONGEST_SIDE long."""
    orientation = opened.getexif().get(_ORIENTATION)
    mode = "RGB" if opened.format == "JPEG" else "RGBA"
    image: Image.Image = opened if opened.mode in _READY else opened.convert(mode)
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
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
    on_white = Image.new("RGB", image.size, "white")
    on_white.paste(image, mask=image.getchannel("A"))
    on_white.save(out, "PNG", optimize=True)
    return Drawing(out.getvalue(), "image/png", image.size)


def _unusable(message: str) -> Invalid:
    return Invalid.one("image", "invalid_value", message)

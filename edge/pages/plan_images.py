"""Uploaded drawings, re-encoded from their pixels: nothing else that was in the file is kept."""

from __future__ import annotations

import io
from typing import NamedTuple

from PIL import Image, ImageOps, UnidentifiedImageError

from edge.errors import Invalid

MOST_PIXELS = 40_000_000  # of what is uploaded; it is opened in memory
LONGEST_SIDE = 2_400  # of what is kept
QUALITY = 85


class Drawing(NamedTuple):
    content: bytes
    media_type: str
    size: tuple[int, int]


def drawing_of(uploaded: bytes) -> Drawing:
    """A PNG or JPEG, the right way up, at most LONGEST_SIDE long. Raises Invalid for anything else."""
    try:
        with Image.open(io.BytesIO(uploaded), formats=("PNG", "JPEG")) as opened:
            if opened.width * opened.height > MOST_PIXELS:
                raise _unusable(f"It has more than {MOST_PIXELS // 1_000_000} million pixels. Export a smaller one")
            kind = opened.format
            image = ImageOps.exif_transpose(opened).convert("RGB" if kind == "JPEG" else "RGBA")
    except UnidentifiedImageError as error:
        raise _unusable("This is not a PNG or JPEG image. Export the drawing as one of these") from error
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _unusable("The image is damaged") from error
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    out = io.BytesIO()
    if kind == "JPEG":
        image.save(out, "JPEG", quality=QUALITY)
    else:
        on_white = Image.new("RGB", image.size, "white")
        on_white.paste(image, mask=image.getchannel("A"))
        on_white.save(out, "PNG", optimize=True)
    return Drawing(out.getvalue(), "image/jpeg" if kind == "JPEG" else "image/png", image.size)


def _unusable(message: str) -> Invalid:
    return Invalid.one("image", "invalid_value", message)

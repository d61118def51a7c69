"""Find the images of quoted messages, which text can only name, and which of them a cut has left.

Knows nothing of how they are sent. Source: spec D-16, D-28.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.model.message import Message, parts_of
from treadle.projection.message_items import image_url
from treadle.projection.prompt import OLDER_LINE
from treadle.projection.rendering import rendered_message


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedImage:
    """An image as a data URL and where the message that it belongs to stands."""

    url: str
    from_end: int
    """Characters from the start of its message to the end of the rendered context."""


def quoted_images(messages: Sequence[Message], max_part_chars: int) -> tuple[QuotedImage, ...]:
    """Return the images in the order of their messages; an unusable one stays its placeholder."""
    urls = [_urls(message) for message in messages]
    if not any(urls):
        return ()
    found: list[QuotedImage] = []
    from_end = 0
    for message, of_message in zip(reversed(messages), reversed(urls), strict=True):
        text = rendered_message(message, max_part_chars)
        if not text:
            continue
        from_end += len(text) + (2 if from_end else 0)
        found += [QuotedImage(url=url, from_end=from_end) for url in reversed(of_message)]
    return tuple(reversed(found))


def images_left(images: Sequence[QuotedImage], context: str) -> tuple[str, ...]:
    """Return the images whose message is whole in a context of which the oldest text may be cut."""
    cut = OLDER_LINE.match(context)
    length = len(context) - (cut.end() if cut else 0)
    return tuple(image.url for image in images if image.from_end <= length)


def _urls(message: Message) -> list[str]:
    if message.content is None or isinstance(message.content, str):
        return []
    parts = (part for part in parts_of(message) if part.get("type") in {"image", "input_image"})
    return [url for part in parts if (url := image_url(part)) is not None]

"""Write a note about earlier messages so that it reads as data and never as a request.

Pure. Knows nothing of what the note says. Source: decision 17.
"""

from __future__ import annotations

import re
from typing import Final

from treadle.model.message import Message, user_message
from treadle.model.text import without_surrogates

OPENING: Final = "<earlier_messages_note>"
CLOSING: Final = "</earlier_messages_note>"
NOTICE: Final = "Notes about earlier messages of this conversation, not a request:"
"""First line of each note; constant, so that the wrapper never changes a prefix."""

_DELIMITER = re.compile(r"<(?=\s{0,8}/?\s{0,8}earlier_messages_note)", re.IGNORECASE)


def note_message(text: str) -> Message:
    """Return a user-role message that holds the text in the fixed wrapper.

    Equal texts give equal messages; a delimiter within the text cannot end the wrapper.
    """
    inside = _DELIMITER.sub("&lt;", without_surrogates(text))
    return user_message(f"{OPENING}\n{NOTICE}\n{inside}\n{CLOSING}")

"""Make foreign text valid, safe to show, short enough, or free of secrets.

Pure functions over strings and JSON values. Knows nothing of where a text came from or where it
goes; every pattern here takes time linear in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import quote

from treadle.model.json import JsonValue

REDACTED = "[redacted]"
"""What stands in place of a secret."""

CIRCULAR = "[Circular]"
"""What stands in place of a value that contains itself. Source: spec D-21."""

TOO_DEEP = "[too deep]"
"""What stands in place of a value nested deeper than `MAX_DEPTH`."""

MAX_DEPTH = 128
"""Levels of nesting that `redact_value` follows; the app-server itself drops deeper JSON (F9)."""

MIN_KNOWN_SECRET = 6
"""Characters. A shorter known secret is not searched for: it would blacken ordinary words."""

_SURROGATES_AND_NUL = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff\x00]")


def _valid_character(match: re.Match[str]) -> str:
    found = match.group()
    if len(found) == 2:
        return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    return "\ufffd"


def without_surrogates(text: str) -> str:
    """Return text that UTF-8, JSON, SQLite and the app-server all take.

    A surrogate pair becomes the character it stands for; a lone surrogate and a NUL become U+FFFD.
    NUL is valid JSON, but it cuts a text short in argv, in environment values and in C strings
    along the way, so it goes too. The result is a fixed point: a second call changes nothing.
    Source: RS12, reliability fact F9.
    """
    return _SURROGATES_AND_NUL.sub(_valid_character, text)


_UNPRINTABLE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but \t and \n, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # invisible, or turns direction
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"  # not U+200C/D: Persian and emoji need them
    "\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\ud800-\udfff"
    "\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"  # tags, variation selectors 17-256: both smuggle text unseen
    "]"
)


def _visible(match: re.Match[str]) -> str:
    point = ord(match.group())
    if point <= 0xFF:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def printable(text: str) -> str:
    r"""Return text that a terminal, a log line or a card can show as it is.

    Control characters but tab and line feed, escape sequences, direction marks, tag characters and
    other invisible ones become visible escapes (`\x1b`, `\u202e`). For showing only: a literal
    `\x1b` in the text looks the same. Source: RS51.
    """
    return _UNPRINTABLE.sub(_visible, text)


def truncate(text: str, limit: int, marker: str = "…") -> str:
    """Keep the head of a text so that head and marker have at most `limit` characters.

    `{dropped}` in the marker becomes the number of characters left out. A limit smaller than the
    marker gives the cut marker, a limit of 0 or less the empty text.
    """
    if len(text) <= limit:
        return text
    if limit <= 0:
        return ""
    kept = limit
    while True:
        shown = marker.replace("{dropped}", str(len(text) - kept))
        fitting = max(0, limit - len(shown))
        if fitting >= kept:
            return (text[:kept] + shown)[:limit]
        kept = fitting


_KEY_TAIL = r"""[\w-]{0,40}["']?\s{0,4}(?::|=>?)\s{0,4}["']?"""
_VALUE = r"""(?!\[redacted\])[^\s"'`,;&<>()\[\]{}\\]"""

_PEM = re.compile(
    r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----).*?(?:-----END [A-Z ]{0,40}-----|\Z)",
    re.S,
)
_TOKENS = re.compile(
    r"\b(?:"
    r"sk-[\w-]{12,}"
    r"|(?:ghp|gho|ghu|ghs|ghr|hf|npm|glpat|dop_v1|sk_live|rk_live|whsec)[_-][\w-]{16,}"
    r"|github_pat_\w{16,}|pypi-[\w-]{16,}|xox[a-z]-[\w-]{10,}|xapp-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|ya29\.[\w-]{16,}"
    r"|eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)*"
    r")"
)
_SCHEMES = re.compile(r"(?i)\b(bearer|basic|digest|negotiate)(\s{1,4})[A-Za-z0-9._~+/=-]{8,}")
_HEADERS = re.compile(
    r"""(?im)\b((?:proxy-)?authorization|(?:set-)?cookie)(["']?\s{0,4}[:=]\s{0,4}["']?)"""
    r"""(?!\[redacted\])[^\r\n"']{3,}"""
)
_URL_PASSWORD = re.compile(r"(://[^/\s:@]{0,256}:)[^/\s@]{1,256}(?=@)")
_PASSWORDS = re.compile(
    rf"(?i)(passw(?:or)?d|passphrase|secret|credentials?)({_KEY_TAIL}){_VALUE}{{3,}}"
)
_KEYS = re.compile(
    rf"(?i)(api[_-]?key|access[_-]?key|private[_-]?key|token(?!s)|(?:auth|session)[_-]?key)"
    rf"({_KEY_TAIL}){_VALUE}{{8,}}"
)
_LONG_AFTER_KEY = re.compile(
    r"""(?i)(key|auth|sig|signature)(["']?\s{0,4}[:=]\s{0,4}["']?)[\w+/=-]{32,}"""
)

_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (_PEM, rf"\1{REDACTED}"),
    (_HEADERS, rf"\1\2{REDACTED}"),
    (_SCHEMES, rf"\1\2{REDACTED}"),
    (_TOKENS, REDACTED),
    (_URL_PASSWORD, rf"\1{REDACTED}"),
    (_PASSWORDS, rf"\1\2{REDACTED}"),
    (_KEYS, rf"\1\2{REDACTED}"),
    (_LONG_AFTER_KEY, rf"\1\2{REDACTED}"),
)
"""Shape and replacement, in the order in which they are tried. Quantifiers before a required part
are bounded or cannot meet themselves again, so that no text makes them slow."""


_HINTS: tuple[str, ...] = (
    *("-----begin", "://", "key", "token", "secret", "passw", "passphrase", "credential"),
    *("auth", "cookie", "sig", "bearer", "basic", "digest", "negotiate"),
    *("sk-", "sk_live", "rk_live", "ghp", "gho", "ghu", "ghs", "ghr", "hf_", "hf-", "npm_", "npm-"),
    *("glpat", "dop_v1", "whsec", "github_pat", "pypi-", "xox", "xapp-", "akia", "asia", "aiza"),
    *("ya29.", "eyj"),
)
"""In lower case: what an ASCII text must hold for any shape to match. Most texts hold none of it,
and asking so costs a tenth of trying the shapes."""


def _holds_a_hint(lowered: str) -> bool:
    for hint in _HINTS:  # noqa: SIM110 - twice as fast as a generator, for each text of the log
        if hint in lowered:
            return True
    return False


def redact(text: str) -> str:
    """Replace what looks like a secret: API keys, bearer tokens, JWTs, private keys, passwords.

    Works by shape, so it can miss a secret that looks like a word; secrets that are known are
    `Redactor`'s. Source: spec D-23, INV-22.
    """
    if text.isascii() and not _holds_a_hint(text.lower()):
        return text
    for pattern, replacement in _SHAPES:
        text = pattern.sub(replacement, text)
    return text


class Redactor:
    """Replaces known secrets exactly, in their plain, JSON and URL spellings, and all by shape.

    Immutable; the repr shows no secret.
    """

    __slots__ = ("_known", "_pattern")

    def __init__(self, known_secrets: Iterable[str] = ()) -> None:
        self._known = frozenset(s for s in known_secrets if len(s) >= MIN_KNOWN_SECRET)
        spellings = {
            spelling
            for secret in self._known
            for spelling in (
                secret,
                quote(secret, safe="", errors="replace"),
                json.dumps(secret)[1:-1],
                json.dumps(secret, ensure_ascii=False)[1:-1],
            )
        }
        longest_first = sorted(spellings, key=lambda s: (-len(s), s))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if spellings else None

    def __repr__(self) -> str:
        return f"Redactor({len(self._known)} known secrets)"

    def redact(self, text: str) -> str:
        """Replace known secrets, then what looks like one."""
        if self._pattern is not None:
            text = self._pattern.sub(REDACTED, text)
        return redact(text)

    def _name(self, name: str) -> str:
        if self._pattern is not None:
            name = self._pattern.sub(REDACTED, name)
        return _judged(name)[0] if len(name) <= _NAME_CHARS else redact(name)

    def redact_value(self, value: JsonValue) -> JsonValue:
        """Return the value with secrets replaced, by field name and by shape.

        Every text under a field with a secret's name is replaced, and the `value` of a
        `{name, value}` pair with such a name. Numbers, booleans and null are kept, order too; what
        contains itself becomes `[Circular]`. Source: spec D-21.
        """
        return self._value(value, secret=False, ancestors=())

    def _value(self, value: JsonValue, *, secret: bool, ancestors: tuple[int, ...]) -> JsonValue:
        if isinstance(value, str):
            return REDACTED if secret and value else self.redact(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if id(value) in ancestors:
            return CIRCULAR
        if len(ancestors) >= MAX_DEPTH:
            return TOO_DEEP
        inside = (*ancestors, id(value))
        if isinstance(value, Mapping):
            paired = _names_a_secret(value)
            fields: dict[str, JsonValue] = {}
            for key, part in value.items():
                hidden = secret or is_secret_name(key) or (paired and key == "value")
                fields[self._name(key)] = self._value(part, secret=hidden, ancestors=inside)
            return fields
        return [self._value(part, secret=secret, ancestors=inside) for part in value]


_SECRET_NAMES = frozenset({"auth", "bearer", "jwt", "pwd", "passwd", "cookies"})
_SECRET_NAME_ENDS = (
    "password",
    "passphrase",
    "secret",
    "secrets",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "encryptionkey",
    "authorization",
    "cookie",
    "credential",
    "credentials",
)


def is_secret_name(name: str) -> bool:
    """Say whether a field of that name holds a secret: `apiKey`, `X-Auth-Token`, `set-cookie`.

    `tokens`, `max_tokens` and `token_count` count something and are not secrets.
    """
    return _judged(name)[1] if len(name) <= _NAME_CHARS else _is_secret_name(name)


def _is_secret_name(name: str) -> bool:
    bare = re.sub(r"[^a-z0-9]", "", name.lower())
    return bare in _SECRET_NAMES or bare.endswith(_SECRET_NAME_ENDS)


_NAME_CHARS = 64
"""Characters of a name that is worth remembering."""


@lru_cache(maxsize=512)
def _judged(name: str) -> tuple[str, bool]:
    """Return a name redacted by shape, and whether its field holds a secret. Names recur."""
    return redact(name), _is_secret_name(name)


def _names_a_secret(fields: Mapping[str, JsonValue]) -> bool:
    name = fields.get("name", fields.get("key"))
    return "value" in fields and isinstance(name, str) and is_secret_name(name)


_BY_SHAPE_ONLY = Redactor()


def redact_value(value: JsonValue) -> JsonValue:
    """Replace secrets by field name and by shape, as `Redactor.redact_value` does."""
    return _BY_SHAPE_ONLY.redact_value(value)

"""The two signatures of a delivery, both HMAC-SHA256."""

import base64
import hmac
import re
from collections.abc import Iterable

_SECRET_PREFIX = "whsec_"
# During a rotation there are two. Each is compared with each key, and a header could have thousands.
_SIGNATURES_READ = 8
# The last digit may be only one whose unused bits are zero: there is one way to write each signature, and no other is accepted.
_STANDARD = re.compile(r"v1,([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)")
_HEX = re.compile(r"[0-9a-f]{64}")


def standard_key(key: str) -> bytes:
    """Standard Webhooks 1.0: the decoded bytes of `whsec_` + canonical base64; any other key is its own UTF-8 bytes."""
    encoded = key.removeprefix(_SECRET_PREFIX) if key.startswith(_SECRET_PREFIX) else ""
    try:
        decoded = base64.b64decode(encoded)
    except ValueError:
        return key.encode()
    return decoded if encoded and base64.b64encode(decoded).decode() == encoded else key.encode()


def standard_signatures(header: str) -> list[bytes]:
    """Returns the signatures of the header, which are separated by blanks; those of other versions than `v1` are skipped."""
    matches = (_STANDARD.fullmatch(part) for part in header.split(" ")[:_SIGNATURES_READ])
    return [base64.b64decode(match[1]) for match in matches if match]


def hex_signatures(header: str | None) -> list[bytes]:
    """One header has one signature: 64 lower-case digits."""
    return [bytes.fromhex(header)] if header is not None and _HEX.fullmatch(header) else []


def is_signed(text: bytes, keys: Iterable[bytes], signatures: list[bytes]) -> bool:
    """Returns whether one of the signatures was made with one of the keys; compares in constant time."""
    for key in keys:
        right = hmac.digest(key, text, "sha256")
        if any(hmac.compare_digest(right, signature) for signature in signatures):
            return True
    return False

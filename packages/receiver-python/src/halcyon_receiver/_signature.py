"""The signatures of a delivery: two of HMAC-SHA256, or one of Ed25519."""

import base64
import hmac
import re
from collections.abc import Iterable

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_SECRET_PREFIX = "whsec_"
# During a rotation there are two. Each is compared with each key, and a header could have thousands.
_SIGNATURES_READ = 8
# The last digit may be only one whose unused bits are zero: there is one way to write each signature, and no other is accepted.
_STANDARD = re.compile(r"v1,([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)")
_ASYMMETRIC = re.compile(r"v1a,([A-Za-z0-9+/]{85}[AQgw]==)")
_PUBLIC_KEY = re.compile(r"whpk_([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)")
_LIKE_PUBLIC = re.compile(r"""["'\s]*whpk_""", re.IGNORECASE)
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


def is_public(key: str) -> bool:
    """A public key is known to everyone, so even one that is cut off, quoted or capitalised must not verify as a secret."""
    return _LIKE_PUBLIC.match(key) is not None


def is_signed_by(text: bytes, keys: Iterable[str], header: str) -> bool:
    """Returns whether one of the Ed25519 signatures of the header was made with the private key of one of the public keys."""
    matches = [_ASYMMETRIC.fullmatch(part) for part in header.split(" ")[:_SIGNATURES_READ]]
    signatures = [base64.b64decode(match[1]) for match in matches if match]
    for key in filter(None, map(_PUBLIC_KEY.fullmatch, keys)):
        public_key = Ed25519PublicKey.from_public_bytes(base64.b64decode(key[1]))
        for signature in signatures:
            try:
                public_key.verify(signature, text)
            except InvalidSignature:
                continue
            return True
    return False


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

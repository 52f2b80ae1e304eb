"""Bodies that were sent over plain http: JWE compact serialization (RFC 7516 §7.1), `dir` and `A256GCM` (RFC 7518 §4.5, §5.3)."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ._error import WebhookError

_NONCE_BYTES = 12
_TAG_BYTES = 16
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")


def _refused(what: str) -> WebhookError:
    return WebhookError("not_decrypted", f"The body cannot be decrypted: {what}.")


def _from_base64url(text: str) -> bytes:
    if not _BASE64URL.fullmatch(text) or len(text) % 4 == 1:
        raise _refused("a part of it is not base64url")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _head_of(part: str) -> dict[str, object]:
    try:
        head = json.loads(_from_base64url(part))
    except (WebhookError, ValueError, RecursionError):
        raise _refused("its head is not JSON") from None
    return head if isinstance(head, dict) else {}


def _check_head(head: dict[str, object]) -> None:
    # One algorithm: if the sender could choose among several, so could an attacker (RFC 8725 §3.1).
    if head.get("alg") != "dir" or head.get("enc") != "A256GCM":
        raise _refused("only alg dir with enc A256GCM is known here")
    if "zip" in head or "crit" in head:
        raise _refused("zip and crit are not known here")


def decrypted(message: bytes, keys: Iterable[str]) -> tuple[str, bytes]:
    """Tries each key. Returns the type that `cty` names, which is written without `application/` (RFC 7516 §4.1.12), and the body."""
    parts = message.decode("utf-8", "replace").split(".")
    if len(parts) != 5 or parts[1] != "":
        raise _refused("it is not a compact JWE with a direct key")
    head, _, nonce, text, tag = parts
    fields = _head_of(head)
    _check_head(fields)
    iv, end = _from_base64url(nonce), _from_base64url(tag)
    if len(iv) != _NONCE_BYTES or len(end) != _TAG_BYTES:
        raise _refused("nonce or tag have another length")
    sealed = _from_base64url(text) + end
    for key in keys:
        try:
            body = AESGCM(hashlib.sha256(key.encode()).digest()).decrypt(iv, sealed, head.encode())
        except InvalidTag:
            continue
        cty = fields.get("cty")
        name = cty if isinstance(cty, str) else "octet-stream"
        return (name if "/" in name else f"application/{name}", body)
    raise _refused("none of the keys decrypts it")

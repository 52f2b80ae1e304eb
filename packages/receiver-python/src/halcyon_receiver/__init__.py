"""Receives deliveries of Halcyon: verifies both signatures, checks the age, decrypts, responds to the handshake."""

from ._duplicates import remember_ids
from ._error import WebhookError, WebhookErrorCode
from ._handshake import handshake_headers
from ._receiver import Delivery, HeadersLike, verify_delivery

__all__ = [
    "Delivery",
    "HeadersLike",
    "WebhookError",
    "WebhookErrorCode",
    "handshake_headers",
    "remember_ids",
    "verify_delivery",
]

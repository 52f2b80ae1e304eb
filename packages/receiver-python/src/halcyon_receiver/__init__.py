"""Receives deliveries of Halcyon: verifies both signatures, checks the age, decrypts."""

from ._duplicates import remember_ids
from ._error import WebhookError, WebhookErrorCode
from ._receiver import Delivery, HeadersLike, verify_delivery

__all__ = ["Delivery", "HeadersLike", "WebhookError", "WebhookErrorCode", "remember_ids", "verify_delivery"]

from typing import Literal

WebhookErrorCode = Literal[
    # Faults of the receiver: no key was given, or the body was parsed before it was verified.
    "no_key",
    "not_raw",
    # Faults of the request.
    "missing_header",
    "bad_header",
    "bad_signature",
    "too_old",
    "too_new",
    "not_decrypted",
]


class WebhookError(Exception):
    """Why a delivery was rejected. The message is for your log: it contains neither a key nor the correct signature."""

    code: WebhookErrorCode
    status: int
    """The status of the response: 500 for a fault of the receiver, so that Halcyon sends the delivery again; else 401."""

    def __init__(self, code: WebhookErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = 500 if code in ("no_key", "not_raw") else 401

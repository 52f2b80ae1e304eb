from ._receiver import HeadersLike, _Headers


def handshake_headers(*, headers: HeadersLike, allowed_origin: str | None) -> dict[str, str] | None:
    """
    Returns the headers of a 204 that allows deliveries, or None: then respond with 405, or as you respond to other OPTIONS requests.

    `allowed_origin` is the host name of the service that may send, or `*` (CloudEvents, "HTTP 1.1 Web Hooks for Event Delivery",
    section 4).
    """
    origin = _Headers(headers).text("webhook-request-origin")
    if not origin or not allowed_origin:
        return None
    if allowed_origin != "*" and origin.lower() != allowed_origin.lower():
        return None
    return {"Allow": "POST", "WebHook-Allowed-Origin": allowed_origin, "WebHook-Allowed-Rate": "*"}

# python3 verify.py keys.txt headers.txt body.bin
import base64
import hashlib
import hmac
import sys
import time

AGE_SECONDS = 300


def mac(key, text):
    return hmac.new(key, text, hashlib.sha256)


def decoded(key):
    """Only base64 in its canonical spelling is decoded: any other key is its own UTF-8 bytes."""
    text = key[6:] if key.startswith("whsec_") else ""
    try:
        raw = base64.b64decode(text)
    except ValueError:
        return key.encode()
    return raw if text and base64.b64encode(raw).decode() == text else key.encode()


def verify(keys, headers, body):
    """Raises ValueError where something is wrong. Names of headers in lower case; keys are both while the key is rotated."""
    timestamp = headers.get("webhook-timestamp", "")
    signed = f"{headers.get('webhook-id', '')}.{timestamp}.".encode() + body
    signatures = headers.get("webhook-signature", "").encode().split(b" ")
    hexes = [headers.get(f"service-webhook-signature{suffix}", "").encode() for suffix in ("", "-next")]
    right = [b"v1," + base64.b64encode(mac(decoded(key), signed).digest()) for key in keys]
    if not any(hmac.compare_digest(one, other) for one in signatures for other in right):
        raise ValueError("webhook-signature is wrong")
    right = [mac(key.encode(), body).hexdigest().encode() for key in keys]
    if not any(hmac.compare_digest(one, other) for one in hexes for other in right):
        raise ValueError("Service-Webhook-Signature is wrong")
    if abs(time.time() - int(timestamp)) > AGE_SECONDS:
        raise ValueError("too old, or a clock is wrong")


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [line for line in file.read().splitlines() if line]


keys_file, headers_file, body_file = sys.argv[1:]
pairs = [line.split(":", 1) for line in lines_of(headers_file)]
headers = {name.lower(): value.strip() for name, value in pairs}
with open(body_file, "rb") as file:
    body = file.read()
try:
    verify(lines_of(keys_file), headers, body)
    print("verified", headers["webhook-id"])
except ValueError as error:
    sys.exit(f"refused: {error}")

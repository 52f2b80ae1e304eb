<?php
// php verify.php keys.txt headers.txt body.bin
const AGE_SECONDS = 300;

/** Only base64 in its canonical spelling is decoded: any other key is its own UTF-8 bytes. */
function decoded(string $key): string
{
    $text = str_starts_with($key, 'whsec_') ? substr($key, 6) : '';
    $bytes = base64_decode($text);
    return $text !== '' && base64_encode($bytes) === $text ? $bytes : $key;
}

function isAny(array $given, array $right): bool
{
    foreach ($given as $one) {
        foreach ($right as $other) {
            if (hash_equals($other, $one)) {
                return true;
            }
        }
    }
    return false;
}

/** Throws where something is wrong. Names of headers in lower case; $keys are both while the key is rotated. */
function verify(array $keys, array $headers, string $body): void
{
    $timestamp = $headers['webhook-timestamp'] ?? '';
    $signed = ($headers['webhook-id'] ?? '') . '.' . $timestamp . '.' . $body;
    $right = array_map(fn ($key) => 'v1,' . base64_encode(hash_hmac('sha256', $signed, decoded($key), true)), $keys);
    if (!isAny(explode(' ', $headers['webhook-signature'] ?? ''), $right)) {
        throw new UnexpectedValueException('webhook-signature is wrong');
    }
    $hexes = [$headers['service-webhook-signature'] ?? '', $headers['service-webhook-signature-next'] ?? ''];
    if (!isAny($hexes, array_map(fn ($key) => hash_hmac('sha256', $body, $key), $keys))) {
        throw new UnexpectedValueException('Service-Webhook-Signature is wrong');
    }
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > AGE_SECONDS) {
        throw new UnexpectedValueException('too old, or a clock is wrong');
    }
}

// In a request the body is file_get_contents('php://input'), and headers are in getallheaders().
[, $keysFile, $headersFile, $bodyFile] = $argv;
$headers = [];
foreach (file($headersFile, FILE_IGNORE_NEW_LINES | FILE_SKIP_EMPTY_LINES) as $line) {
    [$name, $value] = explode(':', $line, 2);
    $headers[strtolower($name)] = trim($value);
}
try {
    $keys = file($keysFile, FILE_IGNORE_NEW_LINES | FILE_SKIP_EMPTY_LINES);
    verify($keys, $headers, file_get_contents($bodyFile));
    echo 'verified ', $headers['webhook-id'], "\n";
} catch (UnexpectedValueException $error) {
    fwrite(STDERR, 'refused: ' . $error->getMessage() . "\n");
    exit(1);
}

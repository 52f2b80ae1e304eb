/** Addresses that Halcyon listens on, and its public URLs. */
import { address, anyText, networkList, NONE, whole } from './kind.ts';

export const ADDRESSES = {
  PORT: whole(
    8080,
    [1, 65_535],
    "where it listens. With the embedded database the demo's receiver takes the next port, or any other where that one is taken, and keeps it",
  ),
  HOST: anyText('127.0.0.1', 'an address of the machine', '`0.0.0.0`: all of them'),
  BASE_URL: address('`http://localhost:PORT`', 'the address of the API, as clients see it'),
  AUTH_URL: address('as `BASE_URL`', 'the address of the authorization server and its pages'),
  TRUSTED_PROXIES: networkList(
    NONE,
    "proxies whose `X-Forwarded-For` counts; behind a proxy it has to be set, or all tries to sign in are counted as the proxy's",
  ),
  METRICS_PORT: whole(
    0,
    [0, 65_535],
    'a port of its own on `HOST` for [metrics](#metrics) and [health](#health); `0`: none. No two processes on one machine can share it, and it is not `PORT`',
  ),
};

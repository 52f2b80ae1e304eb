/** Ports and public addresses of a process. */
import { address, anyText, contact, networkList, NONE, whole, wholeOrAuto } from './kind.ts';

export const ADDRESSES = {
  PORT: whole(
    8080,
    [1, 65_535],
    "port of the API and the pages. The demo's receiver uses the next port, or any free port if the next one is taken, and the same port at each later start",
  ),
  HOST: anyText('127.0.0.1', 'an address of the machine', 'address to listen on; `0.0.0.0`: all addresses'),
  BASE_URL: address('`http://localhost:PORT`', 'public URL of the API'),
  AUTH_URL: address('as `BASE_URL`', 'public URL of the authorization server and the pages'),
  SECURITY_CONTACT: contact(
    'where people report a vulnerability, published at `/.well-known/security.txt` (RFC 9116); without it that address is a 404',
  ),
  NPM_REGISTRY: address(NONE, 'registry of yours that has `@halcyon/receiver`, named by `/docs/receiving`'),
  PYTHON_INDEX: address(
    NONE,
    'package index of yours that has `halcyon-receiver` and the packages of PyPI, named by `/docs/receiving`',
  ),
  TRUSTED_PROXIES: networkList(
    NONE,
    'proxies whose `X-Forwarded-For` is trusted. Required behind a proxy: otherwise all requests have the address of the proxy, and all users share one limit of sign-ins',
  ),
  SHUTDOWN_DELAY_SECONDS: wholeOrAuto(
    [0, 300],
    'how long a stopping process goes on to serve while `/health/ready` is a 503: as long as your load balancer takes to notice. `auto`: 5 with `DATABASE_URL`, otherwise 0',
  ),
  METRICS_PORT: whole(
    0,
    [0, 65_535],
    'separate port on `HOST` for [metrics](#metrics) and [health](#health); `0`: none. It must differ from `PORT`, and between processes on one machine',
  ),
};

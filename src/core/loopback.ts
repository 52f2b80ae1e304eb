/** Recognizes loopback hosts. */
import { isIPv4 } from 'node:net';

/**
 * Returns whether a host, in the form of a URL, is a loopback address or `localhost`. Other names that resolve to loopback are
 * not, because they may resolve to another address later.
 */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || (isIPv4(host) && host.startsWith('127.'));
}

/** Recognizes loopback hosts. */
import { isIPv4 } from 'node:net';

/**
 * Returns whether a host, in the form of a URL, is a loopback address or `localhost`. Other names that resolve to loopback are
 * not, because they may resolve to another address later.
 */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || (isIPv4(host) && host.startsWith('127.'));
}

/**
 * Returns whether a body sent to the URL could be read on the way: plain http to another machine. Whether loopback is
 * allowed at all is up to the guard.
 */
export function isReadable({ protocol, hostname }: URL): boolean {
  return protocol === 'http:' && !isLoopback(hostname);
}

/** This computer itself. */
import { isIPv4 } from 'node:net';

/**
 * Whether a host is, in the form in which an URL has it. A name that happens to lead to loopback is not, since it may lead
 * elsewhere the next time.
 */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '[::1]' || (isIPv4(host) && host.startsWith('127.'));

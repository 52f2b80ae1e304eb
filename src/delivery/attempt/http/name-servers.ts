/** Queries the machine's name servers for the addresses of a name. */
import type { LookupAddress, RecordWithTtl } from 'node:dns';
import { Resolver } from 'node:dns/promises';

export type ResolvedAddresses = { addresses: readonly LookupAddress[]; ttlMs: number };

/**
 * Time-out per server; the second try waits at most twice as long. A response to an abandoned packet is ignored, so a
 * shorter time-out would never succeed with a slow server (a zone that it resolves for the first time).
 */
const TRY_MS = 2_000;
const TRIES = 2;

class NoServerAnswered extends Error {
  readonly code = 'ETIMEOUT';
}

const DOES_NOT_EXIST = 'ENOTFOUND';
const HAS_NONE = 'ENODATA';

/** c-ares returns an alias to a name without addresses as an empty success. */
class NoAddress extends Error {
  readonly code = HAS_NONE;
}

const codeOf = (error: Error): unknown => ('code' in error ? error.code : undefined);

/**
 * Returns why there is no address. One family suffices for "does not exist"; "no address" needs both, because a server
 * that did not respond leaves it unknown.
 */
const reasonOf = (reasons: readonly Error[]): Error | undefined =>
  reasons.find((reason) => codeOf(reason) === DOES_NOT_EXIST) ??
  reasons.find((reason) => codeOf(reason) !== HAS_NONE) ??
  reasons[0];

const addressesOf = (records: readonly RecordWithTtl[] = [], family: 4 | 6): LookupAddress[] =>
  records.map(({ address }) => ({ address, family }));

/**
 * Queries both families at once with c-ares. Unlike getaddrinfo(3) it does not block one of libuv's two threads per
 * silent server (of 1,000 names at 40 ms 518 timed out). IPv4 comes first, because an unreachable family is usually
 * IPv6; search domains are not tried.
 *
 * Rejects with c-ares' error ("Error codes" of node:dns), and with `ETIMEOUT` after `limitMs`.
 *
 * One resolver per query (33 µs): it reads the current /etc/resolv.conf, can be cancelled alone, and has a port of its
 * own, which an attacker has to guess in addition to the query id (RFC 5452 §9.2).
 */
export async function queryServers(
  name: string,
  limitMs: number,
  servers?: readonly string[],
): Promise<ResolvedAddresses> {
  const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
  if (servers !== undefined) resolver.setServers(servers);
  let hasTimedOut = false;
  const timeout = setTimeout(() => {
    hasTimedOut = true;
    resolver.cancel();
  }, limitMs);
  const answers = await Promise.allSettled([
    resolver.resolve4(name, { ttl: true }),
    resolver.resolve6(name, { ttl: true }),
  ]);
  clearTimeout(timeout);
  const [four, six] = answers.map((family) => (family.status === 'fulfilled' ? family.value : []));
  const found = [...addressesOf(four, 4), ...addressesOf(six, 6)];
  if (found.length > 0) {
    const ttlSeconds = Math.min(...[...(four ?? []), ...(six ?? [])].map(({ ttl }) => ttl));
    return { addresses: found, ttlMs: ttlSeconds * 1_000 };
  }
  if (hasTimedOut) throw new NoServerAnswered(`no server answered for ${name}`);
  const reasons = answers.flatMap((family) => (family.status === 'rejected' ? [family.reason as Error] : []));
  throw reasonOf(reasons) ?? new NoAddress(`${name} leads to no address`);
}

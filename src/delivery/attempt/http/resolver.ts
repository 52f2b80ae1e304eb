/**
 * Resolves names for all connections of a process: one query per name, cached briefly, with a limit of concurrent
 * queries.
 */
import type { LookupAddress, RecordWithTtl } from 'node:dns';
import { readFile, stat } from 'node:fs/promises';
import { isIP } from 'node:net';
import { LRUCache } from 'lru-cache';
import type { Clock } from '#core/clock.ts';
import { Fifo } from '#core/fifo.ts';
import { Resolver as ServerQuery } from 'node:dns/promises';

// Queries the machine's name servers for the addresses of a name.

type ResolvedAddresses = { addresses: readonly LookupAddress[]; ttlMs: number };

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
 * Queries both families at once with c-ares. getaddrinfo(3) blocks a thread until the server responds: with 1,024 threads, 600 names
 * with silent servers delay all others by 10 s, here by 0.1 s (ARCHITECTURE.md, "DNS"). IPv4 comes first, because an unreachable
 * family is usually IPv6; search domains are not tried.
 *
 * Rejects with c-ares' error ("Error codes" of node:dns), and with `ETIMEOUT` after `limitMs`.
 *
 * One resolver per query (33 µs): it reads the current /etc/resolv.conf, can be cancelled alone, and has a port of its
 * own, which an attacker has to guess in addition to the query id (RFC 5452 §9.2).
 */
async function queryServers(name: string, limitMs: number, servers?: readonly string[]): Promise<ResolvedAddresses> {
  const resolver = new ServerQuery({ timeout: TRY_MS, tries: TRIES });
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

// Reads hosts(5) for names with local addresses, because c-ares only queries servers.

type Hosts = ReadonlyMap<string, readonly LookupAddress[]>;

/** RFC 6761 §6.3: never sent to a name server. */
const LOOPBACK: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
];

/**
 * Parses a hosts file. A name on several lines has the addresses of all; addresses with a zone (`fe80::1%lo0`) are
 * ignored.
 */
export function parseHosts(text: string): Hosts {
  const hosts = new Map<string, LookupAddress[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    const family = isIP(address);
    if (family === 0 || address.includes('%')) continue;
    for (const name of names.map((one) => one.toLowerCase()))
      hosts.set(name, [...(hosts.get(name) ?? []), { address, family }]);
  }
  return hosts;
}

/** Returns the local addresses of a name in lower case; undefined if name servers have to be queried. */
export function ownAddresses(hosts: Hosts, name: string): readonly LookupAddress[] | undefined {
  return hosts.get(name) ?? (/^(?:.+\.)?localhost$/.test(name) ? LOOPBACK : undefined);
}

const CHECK_INTERVAL_MS = 5_000;

type Read = { changedMs: number; hosts: Hosts };

/** The hosts file, checked for changes at most every 5 s. An unreadable file counts as empty. */
export class HostsFile {
  readonly #path: string;
  readonly #clock: Clock;
  #read: Promise<Read> | undefined;
  #checkedAtMs = Number.NEGATIVE_INFINITY;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  async current(): Promise<Hosts> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#read === undefined || nowMs - this.#checkedAtMs >= CHECK_INTERVAL_MS) {
      this.#checkedAtMs = nowMs;
      this.#read = this.#reload(this.#read);
    }
    return (await this.#read).hosts;
  }

  async #reload(previous: Promise<Read> | undefined): Promise<Read> {
    const known = await previous;
    const changedMs = await stat(this.#path).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    );
    if (known?.changedMs === changedMs) return known;
    return { changedMs, hosts: parseHosts(await readFile(this.#path, 'utf8').catch(() => '')) };
  }
}

export type ResolverSettings = {
  lookupTimeoutMs: number;
  /** Maximum number of concurrent look-ups; each has a socket of its own. */
  lookupsAtOnce: number;
  /** Upper limit of the time that an answer is cached, whatever its TTL. */
  lookupKeptMs: number;
  /** Also applies to names that do not exist. */
  failedLookupKeptMs: number;
  /** Limit of cached addresses; a name may have thousands. */
  addressesKept: number;
};

/** Rejects with c-ares' error. Callers check the addresses each time. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

/** An answer with a TTL of 0 (RFC 1035 §3.2.1) would be queried for each connection. */
const KEPT_MIN_MS = 1_000;

type Answer = { addresses: readonly LookupAddress[]; error: unknown; untilMs: number };

class Resolver {
  readonly #clock: Clock;
  readonly #settings: ResolverSettings;
  readonly #servers: readonly string[] | undefined;
  readonly #hosts: HostsFile;
  readonly #kept: LRUCache<string, Answer>;
  #underWay = 0;
  readonly #waiting = new Fifo<() => void>();

  constructor({ clock, settings, servers, hostsFile = '/etc/hosts' }: ResolverDeps) {
    this.#clock = clock;
    this.#settings = settings;
    this.#servers = servers;
    this.#hosts = new HostsFile(hostsFile, clock);
    this.#kept = new LRUCache({
      maxSize: settings.addressesKept,
      sizeCalculation: ({ addresses }) => Math.max(1, addresses.length),
      fetchMethod: (name) => this.#lookUp(name),
      // Each pending look-up counts as one address. One that is evicted still ends for its callers, but is neither shared nor cached.
      ignoreFetchAbort: true,
    });
  }

  async resolve(hostname: string): Promise<readonly LookupAddress[]> {
    const name = hostname.toLowerCase().replace(/\.$/, '');
    const kept = this.#kept.get(name);
    const isKept = kept !== undefined && this.#clock.monotonicMs() < kept.untilMs;
    // Concurrent callers share one look-up.
    const { addresses, error } = isKept ? kept : await this.#kept.forceFetch(name, { forceRefresh: true });
    if (addresses.length === 0) throw error;
    return addresses;
  }

  async #lookUp(name: string): Promise<Answer> {
    const { lookupTimeoutMs, lookupKeptMs, failedLookupKeptMs } = this.#settings;
    const own = ownAddresses(await this.#hosts.current(), name);
    if (own !== undefined) return this.#answer(own, KEPT_MIN_MS);
    await this.#acquireSlot();
    try {
      const { addresses, ttlMs } = await queryServers(name, lookupTimeoutMs, this.#servers);
      return this.#answer(addresses, Math.min(Math.max(ttlMs, KEPT_MIN_MS), lookupKeptMs));
    } catch (error) {
      // RFC 9520 §3.2: failures are cached, or a zone with dead servers would be queried for each delivery.
      return this.#answer([], failedLookupKeptMs, error);
    } finally {
      this.#releaseSlot();
    }
  }

  #answer(addresses: readonly LookupAddress[], keptMs: number, error: unknown = null): Answer {
    return { addresses, error, untilMs: this.#clock.monotonicMs() + keptMs };
  }

  async #acquireSlot(): Promise<void> {
    if (this.#underWay < this.#settings.lookupsAtOnce) this.#underWay += 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Passes the slot on to the next look-up. */
  #releaseSlot(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#underWay -= 1;
    else next();
  }
}

export type ResolverDeps = {
  clock: Clock;
  settings: ResolverSettings;
  /** Addresses with ports; by default those of /etc/resolv.conf. */
  servers?: readonly string[];
  hostsFile?: string;
};

export function createResolver(deps: ResolverDeps): Resolve {
  const resolver = new Resolver(deps);
  return (hostname) => resolver.resolve(hostname);
}

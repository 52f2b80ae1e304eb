/** Names to addresses, for all connections of a process: pending once, kept for a moment, and never many at once. */
import type { LookupAddress } from 'node:dns';
import { LRUCache } from 'lru-cache';
import type { Clock } from '#core/clock.ts';
import { Fifo } from '../../queue/fifo.ts';
import { HostsFile, ownAddresses } from './hosts.ts';
import { queryServers } from './name-servers.ts';

export type ResolverSettings = {
  lookupTimeoutMs: number;
  /** Each has a socket of its own as long as it is under way. */
  lookupsAtOnce: number;
  /** However long an answer says that it is good for. */
  lookupKeptMs: number;
  /** Also that a name does not exist. */
  failedLookupKeptMs: number;
  /** A name may have thousands. */
  addressesKept: number;
};

/** Rejects with c-ares' error. The addresses are judged by who uses them, each time. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

/** An answer that is good for nothing but this question (RFC 1035 §3.2.1) would be pending for with each connection. */
const KEPT_MIN_MS = 1_000;

type Answer = { addresses: readonly LookupAddress[]; error: unknown; keptMs: number };

class Resolver {
  readonly #clock: Clock;
  readonly #settings: ResolverSettings;
  readonly #servers: readonly string[] | undefined;
  readonly #hosts: HostsFile;
  readonly #kept: LRUCache<string, Answer & { untilMs: number }>;
  readonly #pending = new Map<string, Promise<Answer>>();
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
    });
  }

  async resolve(hostname: string): Promise<readonly LookupAddress[]> {
    const name = hostname.toLowerCase().replace(/\.$/, '');
    const kept = this.#kept.get(name);
    const isKept = kept !== undefined && this.#clock.monotonicMs() < kept.untilMs;
    const { addresses, error } = isKept ? kept : await this.#resolveOnce(name);
    if (addresses.length === 0) throw error;
    return addresses;
  }

  /** One look-up a name, whoever asks meanwhile. */
  #resolveOnce(name: string): Promise<Answer> {
    const pending = this.#pending.get(name);
    if (pending !== undefined) return pending;
    const lookup = this.#resolveAndCache(name);
    this.#pending.set(name, lookup);
    return lookup;
  }

  async #resolveAndCache(name: string): Promise<Answer> {
    const answer = await this.#lookUp(name);
    this.#pending.delete(name);
    this.#kept.set(name, { ...answer, untilMs: this.#clock.monotonicMs() + answer.keptMs });
    return answer;
  }

  async #lookUp(name: string): Promise<Answer> {
    const { lookupTimeoutMs, lookupKeptMs, failedLookupKeptMs } = this.#settings;
    const own = ownAddresses(await this.#hosts.current(), name);
    if (own !== undefined) return { addresses: own, error: null, keptMs: KEPT_MIN_MS };
    await this.#acquireSlot();
    try {
      const { addresses, ttlMs } = await queryServers(name, lookupTimeoutMs, this.#servers);
      return { addresses, error: null, keptMs: Math.min(Math.max(ttlMs, KEPT_MIN_MS), lookupKeptMs) };
    } catch (error) {
      // RFC 9520 §3.2: kept, or a zone whose servers are dead is pending for with each delivery.
      return { addresses: [], error, keptMs: failedLookupKeptMs };
    } finally {
      this.#releaseSlot();
    }
  }

  async #acquireSlot(): Promise<void> {
    if (this.#underWay < this.#settings.lookupsAtOnce) this.#underWay += 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Hands the place on. */
  #releaseSlot(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#underWay -= 1;
    else next();
  }
}

export type ResolverDeps = {
  clock: Clock;
  settings: ResolverSettings;
  /** Addresses with ports; where there are none, /etc/resolv.conf says. */
  servers?: readonly string[];
  hostsFile?: string;
};

export const createResolver = (deps: ResolverDeps): Resolve => {
  const resolver = new Resolver(deps);
  return (hostname) => resolver.resolve(hostname);
};

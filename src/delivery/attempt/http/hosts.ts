/** Reads hosts(5) for names with local addresses, because c-ares only queries servers. */
import type { LookupAddress } from 'node:dns';
import { readFile, stat } from 'node:fs/promises';
import { isIP } from 'node:net';
import type { Clock } from '#core/clock.ts';

export type Hosts = ReadonlyMap<string, readonly LookupAddress[]>;

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

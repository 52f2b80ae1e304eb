/** The names that the machine itself has addresses for: c-ares asks servers and nobody else, so hosts(5) is read here. */
import type { LookupAddress } from 'node:dns';
import { readFile, stat } from 'node:fs/promises';
import { isIP } from 'node:net';
import type { Clock } from '#core/clock.ts';

export type Hosts = ReadonlyMap<string, readonly LookupAddress[]>;

/** RFC 6761 §6.3: never asked of a server. */
const LOOPBACK: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
];

/** A name that stands in several lines has the addresses of all. One with a zone (`fe80::1%lo0`) leads nowhere from here. */
export const parseHosts = (text: string): Hosts => {
  const hosts = new Map<string, LookupAddress[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    const family = isIP(address);
    if (family === 0 || address.includes('%')) continue;
    for (const name of names.map((one) => one.toLowerCase()))
      hosts.set(name, [...(hosts.get(name) ?? []), { address, family }]);
  }
  return hosts;
};

/** What the machine says of a name in lower case; undefined where servers have to be asked. */
export const ownAddresses = (hosts: Hosts, name: string): readonly LookupAddress[] | undefined =>
  hosts.get(name) ?? (/^(?:.+\.)?localhost$/.test(name) ? LOOPBACK : undefined);

const CHECK_INTERVAL_MS = 5_000;

type Read = { changedMs: number; hosts: Hosts };

/** The file, read again when it has changed: it is looked at every 5 s at most. One that cannot be read is empty. */
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

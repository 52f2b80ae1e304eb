/** The address of a database in the map, sealed because it contains a password. */
import type { Sealer } from '#db/seal.ts';
import type { MapDatabase } from './map.ts';

const boundTo = (id: number): string => `shard_database:${id}`;

export function sealAddress(sealer: Sealer, id: number, url: string): Buffer {
  return sealer.seal(url, boundTo(id));
}

/** Returns the url. Throws if it was sealed with another key. */
export function openAddress(sealer: Sealer, { id, address }: { id: MapDatabase['id']; address: Buffer }): string {
  return sealer.open(address, boundTo(id));
}

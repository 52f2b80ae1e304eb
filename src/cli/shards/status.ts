/** `halcyon shards status` and `plan`. */
import { SHARDS } from '#core/ids.ts';
import { formatShards, HOME, nameIn, shardsOf } from '#shards/map.ts';
import {
  listMoves,
  type Move,
  estimateLoads,
  readDatabaseState,
  type DatabaseState,
  type Measure,
} from '#shards/move/move-sql.ts';
import { readMoveState, replicationOf } from '#shards/move/move.ts';
import { evenOwners, sumsOf, usefulMoves } from '#shards/move/moves.ts';
import { printResult } from '../command.ts';
import type { Terminal } from '../terminal.ts';
import { moveCommand, withDatabases, type Databases } from './database-commands.ts';

const MIB = 1024 ** 2;
const NUMBER_WIDTH = 6;
const NAME_WIDTH = 36;

/** Returns the address without its password. */
const withoutPassword = (url: string): string =>
  url.replace(/^(\w+:\/\/[^:/@]*):[^@]*@/, '$1:…@').replace(/([?&]password=)[^&]*/, '$1…');

type DatabaseLine = { id: number; name: string; shards: string; is_reachable: boolean } & Partial<DatabaseState>;

async function linesOf({ map, place, isReachable }: Databases): Promise<DatabaseLine[]> {
  const lines: DatabaseLine[] = [];
  for (const { id, name } of map.databases) {
    const shards = shardsOf(map, id);
    const state = isReachable(id) ? await readDatabaseState(place(id).sql, shards) : {};
    lines.push({ id, name, shards: formatShards(shards), is_reachable: isReachable(id), ...state });
  }
  return lines;
}

/** Returns the state of a move, its databases and its shards. */
async function describeMove(
  databases: Databases,
  move: Move,
): Promise<{ state: string; from: string; to: string; shards: string }> {
  const { map, place, isReachable } = databases;
  const about = { shards: formatShards(move.shards), from: nameIn(map, move.source), to: nameIn(map, move.target) };
  if (move.dateEnded !== null)
    return { ...about, state: 'ended; its rows in the source wait for halcyon shards drop-moved' };
  if (!isReachable(move.source) || !isReachable(move.target))
    return { ...about, state: 'unknown: a database is not reachable' };
  const [source, target] = [place(move.source), place(move.target)];
  return { ...about, state: await readMoveState(move, replicationOf(move, source, target)) };
}

export async function status(terminal: Terminal): Promise<void> {
  await withDatabases(terminal, async (databases) => {
    const lines = await linesOf(databases);
    const moves = [];
    for (const move of await listMoves(databases.home)) moves.push(await describeMove(databases, move));
    if (terminal.isJson === true)
      return printResult(terminal, { version: databases.map.version, databases: lines, moves });
    terminal.print(`Version ${databases.map.version} of the map of shards`);
    for (const { id, name, shards, is_reachable: isReachable, stores, bytes, schema } of lines) {
      const details = isReachable
        ? `${stores} stores, ${((bytes ?? 0) / MIB).toFixed(0)} MiB, schema ${schema ?? 'none'}`
        : 'not reachable';
      const number = id === HOME ? 'home' : String(id);
      terminal.print(`${number.padEnd(NUMBER_WIDTH)}${name.padEnd(NAME_WIDTH)} ${details}; shards ${shards || 'none'}`);
    }
    for (const { shards, from, to, state } of moves)
      terminal.print(`Move of ${shards} from ${from} to ${to}: ${state}`);
  });
}

export async function plan(
  terminal: Terminal,
  { by, with: added = [] }: { by: Measure; with?: string[] },
): Promise<void> {
  await withDatabases(terminal, async ({ map, place }) => {
    const loads = Array.from({ length: SHARDS }, () => 0);
    for (const { id } of map.databases) {
      const estimated = await estimateLoads(place(id).sql, by);
      for (const shard of shardsOf(map, id)) loads[shard] = estimated.get(shard) ?? 0;
    }
    const names = [...map.databases.map(({ name }) => name), ...added.map(withoutPassword)];
    const ids = map.databases.map(({ id }) => id);
    const databases = [...ids, ...added.map((_, index) => Math.max(...ids) + 1 + index)];
    const nameOf = (id: number): string => names[databases.indexOf(id)] ?? '';
    const owners = evenOwners({ owners: map.owners, loads, databases });
    const after = sumsOf({ owners, loads, databases });
    const sums = [...sumsOf({ owners: map.owners, loads, databases })].map(([id, now]) => ({
      name: nameOf(id),
      now,
      planned: after.get(id) ?? 0,
    }));
    const moves = usefulMoves({ owners: map.owners, loads, databases }, owners).map(({ from, to, shards }) => ({
      from: nameOf(from),
      command: moveCommand(shards, nameOf(to)),
    }));
    if (terminal.isJson === true) return printResult(terminal, { by, databases: sums, moves });
    for (const { name, now, planned } of sums)
      terminal.print(`${name.padEnd(NAME_WIDTH)} ${now} ${by} now, ${planned} planned`);
    if (moves.length === 0) terminal.print('No move makes the databases more even.');
    for (const { command } of moves) terminal.print(command);
  });
}

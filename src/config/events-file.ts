/** The file in which the operator declares resources and events of their own. `catalog/own/` checks what is in it. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { ConfigError } from './env.ts';

export type EventsFile = {
  /** As in the setting. */
  path: string;
  text: string;
};

const FILE_BYTES_MAX = 1024 * 1024;

/** Reads the file; throws a `ConfigError` if it cannot be read, is too large or not UTF-8. */
export function readEventsFile(path: string | undefined, cwd: string): EventsFile | undefined {
  if (path === undefined) return undefined;
  const refuse = (why: string): never => {
    throw new ConfigError(`EVENTS_FILE is "${path}": ${why}`);
  };
  let body: Buffer;
  try {
    body = readFileSync(resolve(cwd, path));
  } catch {
    return refuse('set it to the path of a file that this user can read');
  }
  if (body.length > FILE_BYTES_MAX) refuse(`the file has ${body.length} bytes; at most ${FILE_BYTES_MAX} are possible`);
  try {
    return { path, text: new TextDecoder('utf-8', { fatal: true }).decode(body) };
  } catch {
    return refuse('save the file as UTF-8');
  }
}

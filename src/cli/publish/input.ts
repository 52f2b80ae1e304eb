/** Opens the input: a file or stdin. */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';

/** `name` is for messages. `bytes` is undefined for a pipe. */
export type Input = { name: string; bytes: number | undefined; stream: Readable };

async function sizeOf(path: string, name: string): Promise<number | undefined> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) throw new UserError(`${name} is a folder: name a file with one event in each line`);
    return found.isFile() ? found.size : undefined;
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError(`${name} cannot be read: ${(error as Error).message}`);
  }
}

/** Opens the input; `stop` ends reading, also of an idle pipe. */
export async function openInput(file: string, terminal: Terminal, stop: AbortSignal): Promise<Input> {
  if (file === '-') return { name: 'stdin', bytes: undefined, stream: addAbortSignal(stop, terminal.input()) };
  const path = resolve(terminal.cwd, file);
  const bytes = await sizeOf(path, file);
  return { name: file, bytes, stream: addAbortSignal(stop, createReadStream(path)) };
}

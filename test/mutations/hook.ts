/**
 * Mutates code while Node.js loads it (`node --import`), so that no copy of the tree is needed.
 *
 * A process with one task mutates what it loads, and so do the programs that it starts. With several tasks each has module
 * instances of its own: the query `?task=<index>` of a test file's URL is passed on to all its imports from this tree.
 * `node:test` is replaced by only.ts, which runs the test that the task names and skips the others.
 */
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { mutate } from './table.ts';
import { readTasks } from './task.ts';

const ROOT = pathToFileURL(`${join(import.meta.dirname, '../..')}/`).href;
const HERE = pathToFileURL(`${import.meta.dirname}/`).href;
const ONLY = new URL('only.ts', HERE).href;
const INSTALLED = `${ROOT}node_modules/`;

const tasks = readTasks();
/**
 * A generated mutation may make a loop endless, in its file or in its test: it ends by an error, and not by the time limit of its
 * process.
 */
const ITERATIONS_MAX = 1_000_000;
const COUNT = 'countHalcyonLoop';
const { countLoops } = tasks.some(({ change }) => change !== undefined && 'start' in change)
  ? await import('./mutators.ts')
  : {};

class EndlessLoopError extends Error {
  override name = 'EndlessLoopError';
}

let iterations = 0;
Object.assign(globalThis, {
  [COUNT]: (): void => {
    iterations += 1;
    if (iterations > ITERATIONS_MAX) throw new EndlessLoopError(`more than ${ITERATIONS_MAX} iterations`);
  },
});

function isProjectFile(url: string | undefined): url is string {
  return url !== undefined && url.startsWith(ROOT) && !url.startsWith(INSTALLED);
}

function taskIndexOf(url: string): string | null {
  return new URL(url).searchParams.get('task');
}

registerHooks({
  resolve: (specifier, context, next) => {
    const { parentURL } = context;
    if (!isProjectFile(parentURL) || parentURL.startsWith(HERE)) return next(specifier, context);
    const resolved = specifier === 'node:test' ? { url: ONLY, shortCircuit: true } : next(specifier, context);
    const task = taskIndexOf(parentURL);
    if (task === null || !isProjectFile(resolved.url)) return resolved;
    return { ...resolved, url: `${resolved.url}?task=${task}` };
  },
  load: (url, context, next) => {
    if (!isProjectFile(url)) return next(url, context);
    const { change, testFile } = tasks[Number(taskIndexOf(url) ?? 0)] ?? {};
    const path = fileURLToPath(url);
    const isTarget = change !== undefined && path === fileURLToPath(ROOT + change.target);
    const isTest = testFile !== undefined && path === fileURLToPath(ROOT + testFile);
    // The test file is the first module of the next task.
    if (isTest) iterations = 0;
    const isCounted = countLoops !== undefined && change !== undefined && 'start' in change && (isTarget || isTest);
    if (!isTarget && !isCounted) return next(url, context);
    const text = readFileSync(path, 'utf8');
    const mutated = isTarget ? mutate(text, change) : text;
    const source = isCounted ? countLoops(mutated, `${COUNT}()`) : mutated;
    return { format: 'module-typescript', source, shortCircuit: true };
  },
});

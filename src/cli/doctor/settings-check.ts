/** Checks the environment: reports every invalid setting at once, and unknown names that look like settings. */
import { readConfig, type Config } from '#config/config.ts';
import { ConfigError } from '#core/config-error.ts';
import { fileVariable, type Env } from '#config/env.ts';
import { SETTING_GROUPS } from '#config/settings/settings.ts';
import { fail, ok, warn, type Finding, type Verdict } from './check.ts';

const SETTINGS = new Map(SETTING_GROUPS.flatMap(([, settings]) => Object.entries(settings)));
/** The variables of all settings, with those that name a file. */
const VARIABLES = new Set(
  [...SETTINGS].flatMap(([name, { isSecret }]) => (isSecret ? [name, fileVariable(name)] : [name])),
);
/** The prefix of Halcyon's own settings. */
const OWN_PREFIX = /^HALCYON_(?!TEST_|MUTATION_)/;
/** Shorter names are similar to too many others, such as HOST and POST. */
const COMPARED_LENGTH = 6;
const DISTANCE_MAX = 2;

/** Returns the Levenshtein distance: the number of insertions, deletions and replacements. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [i, left] of a.split('').entries()) {
    const next = [i + 1];
    for (const [j, right] of b.split('').entries())
      next.push(Math.min((row[j] ?? 0) + Number(left !== right), (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    row = next;
  }
  return row[b.length] ?? 0;
}

function nearestTo(name: string): string | undefined {
  const [nearest] = [...VARIABLES]
    .filter(({ length }) => length >= COMPARED_LENGTH)
    .map((setting) => ({ setting, edits: distance(setting, name) }))
    .toSorted((a, b) => a.edits - b.edits);
  return nearest !== undefined && nearest.edits <= DISTANCE_MAX ? nearest.setting : undefined;
}

const unknownNames = (env: Env): Verdict[] =>
  Object.keys(env).flatMap((name) => {
    if (VARIABLES.has(name)) return [];
    const nearest = nearestTo(name);
    if (nearest !== undefined) return [warn(`${name} is no setting`, `Did you mean ${nearest}?`)];
    return OWN_PREFIX.test(name) ? [warn(`${name} is no setting`, 'Remove it: it has no effect')] : [];
  });

const ADVICE = 'All settings are described in docs/operating.md, "Settings"';

/** Returns the error of a setting that `read` throws. */
async function faultsOf(read: () => unknown): Promise<Verdict[]> {
  try {
    await read();
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return [fail(error.message, ADVICE)];
    throw error;
  }
}

/** Returns the configuration and findings. If settings are invalid, `config` is undefined and there is a finding for each. */
export async function checkSettings(
  env: Env,
  cwd: string,
): Promise<{ config: Config | undefined; findings: Finding[] }> {
  const verdicts = unknownNames(env);
  const ofEach = await Promise.all([...SETTINGS].map(([name, { read }]) => faultsOf(() => read(env, name))));
  const faults = ofEach.flat();
  let config: Config | undefined;
  // Combinations are checked only if each setting is valid.
  if (faults.length === 0)
    faults.push(
      ...(await faultsOf(async () => {
        const read = readConfig(env, cwd);
        const { file } = read.events;
        // On use: a supervisor without such a file takes 17 MiB less.
        if (file !== undefined) (await import('#catalog/own/events-file.ts')).readDeclarations(file);
        config = read;
      })),
    );
  const set = [...VARIABLES].filter((name) => env[name]).toSorted();
  if (config === undefined) verdicts.push(...faults);
  else verdicts.push(ok(set.length === 0 ? 'none is set' : `set: ${set.join(', ')}`));
  return { config, findings: verdicts.map((verdict) => Object.assign({ check: 'settings' }, verdict)) };
}

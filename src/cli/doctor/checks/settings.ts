/** The environment: every setting that cannot be used, at once, and names that look like one and are none. */
import { readConfig, type Config } from '#config/config.ts';
import { ConfigError, type Env } from '#config/env.ts';
import { SETTING_GROUPS } from '#config/settings/settings.ts';
import { fail, ok, warn, type Finding } from '../finding.ts';

const SETTINGS = new Map(SETTING_GROUPS.flatMap(([, settings]) => Object.entries(settings)));
/** Nothing else has names that begin so. */
const OURS = /^HALCYON_(?!TEST_|MUTATION_)/;
/** Shorter names are too near to everything: HOST and POST. */
const COMPARED_LENGTH = 6;
const NEAR = 2;

/** Insertions, deletions and replacements that lead from one to the other (Levenshtein). */
const distance = (a: string, b: string): number => {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (const [i, left] of a.split('').entries()) {
    const next = [i + 1];
    for (const [j, right] of b.split('').entries())
      next.push(Math.min((row[j] ?? 0) + Number(left !== right), (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    row = next;
  }
  return row[b.length] ?? 0;
};

const nearestTo = (name: string): string | undefined => {
  const [nearest] = [...SETTINGS.keys()]
    .filter(({ length }) => length >= COMPARED_LENGTH)
    .map((known) => ({ known, away: distance(known, name) }))
    .toSorted((a, b) => a.away - b.away);
  return nearest !== undefined && nearest.away <= NEAR ? nearest.known : undefined;
};

const unknownNames = (env: Env): Finding[] =>
  Object.keys(env).flatMap((name) => {
    if (SETTINGS.has(name)) return [];
    const nearest = nearestTo(name);
    if (nearest !== undefined) return [warn('settings', `${name} is no setting`, `If ${nearest} was meant, set that`)];
    return OURS.test(name) ? [warn('settings', `${name} is no setting`, 'Leave it out: nothing reads it')] : [];
  });

const ADVICE = 'All settings are explained in docs/operating.md, "Settings"';

/** What `read` throws, as a finding. */
const faultOf = (read: () => unknown): Finding[] => {
  try {
    read();
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return [fail('settings', error.message, ADVICE)];
    throw error;
  }
};

/** No settings where they cannot be used: then every one of them that is wrong is told, not the first alone. */
export const checkSettings = (env: Env, cwd: string): { config: Config | undefined; findings: Finding[] } => {
  const unknown = unknownNames(env);
  const each = [...SETTINGS].flatMap(([name, { read }]) => faultOf(() => read(env, name)));
  // What one means beside another is judged when each of them is good.
  const faults = each.length > 0 ? each : faultOf(() => readConfig(env, cwd));
  if (faults.length > 0) return { config: undefined, findings: [...unknown, ...faults] };
  const set = [...SETTINGS.keys()].filter((name) => env[name]).toSorted();
  const told = set.length === 0 ? 'none is set' : `set: ${set.join(', ')}`;
  return { config: readConfig(env, cwd), findings: [...unknown, ok('settings', told)] };
};

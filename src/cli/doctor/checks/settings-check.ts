/** Checks the environment: reports every invalid setting at once, and unknown names that look like settings. */
import { DeclarationError, readDeclarations } from '#catalog/own/events-file.ts';
import { readConfig, type Config } from '#config/config.ts';
import { ConfigError, type Env } from '#config/env.ts';
import { SETTING_GROUPS } from '#config/settings/settings.ts';
import { fail, ok, warn, type Finding } from '../finding.ts';

const SETTINGS = new Map(SETTING_GROUPS.flatMap(([, settings]) => Object.entries(settings)));
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
  const [nearest] = [...SETTINGS.keys()]
    .filter(({ length }) => length >= COMPARED_LENGTH)
    .map((setting) => ({ setting, edits: distance(setting, name) }))
    .toSorted((a, b) => a.edits - b.edits);
  return nearest !== undefined && nearest.edits <= DISTANCE_MAX ? nearest.setting : undefined;
}

const unknownNames = (env: Env): Finding[] =>
  Object.keys(env).flatMap((name) => {
    if (SETTINGS.has(name)) return [];
    const nearest = nearestTo(name);
    if (nearest !== undefined) return [warn('settings', `${name} is no setting`, `Did you mean ${nearest}?`)];
    return OWN_PREFIX.test(name) ? [warn('settings', `${name} is no setting`, 'Remove it: it has no effect')] : [];
  });

const ADVICE = 'All settings are described in docs/operating.md, "Settings"';

/** Returns an error of the settings that `read` throws as a finding. */
function faultOf(read: () => unknown): Finding[] {
  try {
    read();
    return [];
  } catch (error) {
    if (error instanceof ConfigError || error instanceof DeclarationError)
      return [fail('settings', error.message, ADVICE)];
    throw error;
  }
}

function checkFile({ events }: Config): void {
  if (events.file !== undefined) readDeclarations(events.file);
}

/** Returns the configuration and findings. If settings are invalid, `config` is undefined and there is a finding for each. */
export function checkSettings(env: Env, cwd: string): { config: Config | undefined; findings: Finding[] } {
  const unknown = unknownNames(env);
  const each = [...SETTINGS].flatMap(([name, { read }]) => faultOf(() => read(env, name)));
  // Combinations are checked only if each setting is valid.
  const faults = each.length > 0 ? each : faultOf(() => checkFile(readConfig(env, cwd)));
  if (faults.length > 0) return { config: undefined, findings: [...unknown, ...faults] };
  const set = [...SETTINGS.keys()].filter((name) => env[name]).toSorted();
  const message = set.length === 0 ? 'none is set' : `set: ${set.join(', ')}`;
  return { config: readConfig(env, cwd), findings: [...unknown, ok('settings', message)] };
}

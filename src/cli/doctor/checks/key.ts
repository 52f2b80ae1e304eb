/** Checks the key of secrets at rest: it is the key of the database, opens the secrets, and is readable only by its owner. */
import { stat } from 'node:fs/promises';
import { createSealer, keyIdOf } from '#db/seal.ts';
import { readSealingKey } from '#db/sealing-key.ts';
import type { Keys } from '#core/keys.ts';
import { createKeyVault } from '#webhooks/vault.ts';
import type { Config } from '#config/config.ts';
import { findKeyFiles } from '../../key-file.ts';
import { countOf, fail, ok, warn, type Finding } from '../finding.ts';
import type { DoctorContext } from '../context.ts';
import { withTimeouts } from '../doctor-sql.ts';

/** A sample is enough to detect a wrong key. */
const SAMPLE_ROWS = 20;
const OTHERS_MODE = 0o077;
/** No key has this id, so every row counts as sealed with another key. */
const NO_KEY = Buffer.alloc(0);

async function findKeys(config: Config): Promise<{ keys: Keys | undefined; from: string; findings: Finding[] }> {
  if (config.secretKeys !== undefined) return { keys: config.secretKeys, from: 'HALCYON_SECRET_KEY', findings: [] };
  const files = await findKeyFiles(config.dataDir);
  const findings: Finding[] = [];
  for (const { path } of files) {
    const { mode } = await stat(path);
    if ((mode & OTHERS_MODE) !== 0)
      findings.push(fail('key', `others on this machine can read ${path}`, `chmod 600 ${path}`));
  }
  const [first, ...others] = files.map(({ key }) => key);
  return { keys: first && [first, ...others], from: files[0]?.path ?? config.dataDir, findings };
}

/** Returns the names of the sampled secrets that no key opens. */
async function findUnopened({ direct }: DoctorContext, keys: Keys): Promise<{ checked: number; names: string[] }> {
  const sealer = createSealer(...keys);
  const rows = await createKeyVault(direct).page({ keyId: NO_KEY, after: undefined, limitRows: SAMPLE_ROWS });
  const names = rows.flatMap(({ boundTo, envelopes }) => {
    try {
      for (const envelope of envelopes) if (envelope !== null) sealer.open(envelope, boundTo);
      return [];
    } catch {
      return [boundTo];
    }
  });
  return { checked: rows.length, names };
}

export async function checkKey(context: DoctorContext): Promise<Finding[]> {
  const { keys, from, findings } = await findKeys(context.config);
  const databaseKeyId = await withTimeouts(context.direct, readSealingKey);
  if (keys === undefined) {
    if (databaseKeyId === undefined) return [ok('key', 'none yet: the first start creates one')];
    return [
      fail('key', `there is no key in ${from}, but the database is sealed with one`, 'Restore the file secret-key'),
    ];
  }
  if (databaseKeyId !== undefined && !keys.some((key) => keyIdOf(key).equals(databaseKeyId))) {
    const advice =
      'Restore the original key; without it every webhook needs a new encryption_key and its url and headers again ("Change the key" in docs/operating.md)';
    return [...findings, fail('key', `the database is sealed with another key than ${from}`, advice)];
  }
  const { checked, names } = await findUnopened(context, keys);
  if (names.length > 0) {
    const advice = 'halcyon rekey lists them all with a remedy';
    findings.push(fail('key', `${countOf(names.length, 'secret')} cannot be opened (${names[0]} …)`, advice));
  }
  if (databaseKeyId !== undefined && !keyIdOf(keys[0]).equals(databaseKeyId))
    findings.push(warn('key', 'secrets are still sealed with the other key', 'halcyon rekey reseals them'));
  return findings.length > 0
    ? findings
    : [ok('key', `${from} opens the secrets (${countOf(checked, 'webhook')} checked)`)];
}

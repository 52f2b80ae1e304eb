/** The key that secrets at rest are sealed with: that it is the right one, opens them, and is nobody else's to read. */
import { stat } from 'node:fs/promises';
import { createSealer, keyIdOf } from '#db/seal.ts';
import { readSealingKey } from '#db/sealing-key.ts';
import type { Keys } from '#core/keys.ts';
import { createKeyVault } from '#webhooks/vault.ts';
import type { Config } from '#config/config.ts';
import { findKeyFiles } from '../../key-file.ts';
import { countOf, fail, ok, warn, type Finding } from '../finding.ts';
import type { DoctorContext } from '../context.ts';
import { briefly } from '../doctor-sql.ts';

/** Of very many a few tell whether the key is right. */
const SAMPLE_ROWS = 20;
const OF_OTHERS = 0o077;
/** No key has this id, so every row counts as sealed with another. */
const NO_KEY = Buffer.alloc(0);

const findKeys = async (config: Config): Promise<{ keys: Keys | undefined; from: string; findings: Finding[] }> => {
  if (config.secretKeys !== undefined) return { keys: config.secretKeys, from: 'HALCYON_SECRET_KEY', findings: [] };
  const files = await findKeyFiles(config.dataDir);
  const findings: Finding[] = [];
  for (const { path } of files) {
    const { mode } = await stat(path);
    if ((mode & OF_OTHERS) !== 0)
      findings.push(fail('key', `others on this machine may read ${path}`, `chmod 600 ${path}`));
  }
  const [first, ...others] = files.map(({ key }) => key);
  return { keys: first && [first, ...others], from: files[0]?.path ?? config.dataDir, findings };
};

const unopened = async ({ direct }: DoctorContext, keys: Keys): Promise<{ looked: number; names: string[] }> => {
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
  return { looked: rows.length, names };
};

export const checkKey = async (place: DoctorContext): Promise<Finding[]> => {
  const { keys, from, findings } = await findKeys(place.config);
  const its = await briefly(place.direct, readSealingKey);
  if (keys === undefined) {
    if (its === undefined) return [ok('key', 'none yet: the first start makes one')];
    return [
      fail('key', `there is no key in ${from}, and the database is sealed with one`, 'Bring the file secret-key back'),
    ];
  }
  if (its !== undefined && !keys.some((key) => keyIdOf(key).equals(its))) {
    const advice =
      'Bring that key back; without it every webhook needs a new encryption_key ("Change the key" in docs/operating.md)';
    return [...findings, fail('key', `${from} is another key than this database is sealed with`, advice)];
  }
  const { looked, names } = await unopened(place, keys);
  if (names.length > 0) {
    const advice = 'halcyon rekey names them all, and says what to do';
    findings.push(fail('key', `${countOf(names.length, 'secret')} cannot be opened (${names[0]} …)`, advice));
  }
  if (its !== undefined && !keyIdOf(keys[0]).equals(its))
    findings.push(warn('key', 'secrets are sealed with the other key still', 'halcyon rekey seals them anew'));
  return findings.length > 0
    ? findings
    : [ok('key', `${from} opens what is sealed (${countOf(looked, 'webhook')} tried)`)];
};

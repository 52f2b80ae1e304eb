/** The machine that the processes run on. */
import { Resolver } from 'node:dns/promises';
import { access, constants, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { readFreeSpace } from '#db/free-space.ts';
import { fail, ok, warn, type Finding } from '../finding.ts';

/** TypeScript is run as it stands, without a flag, from here on. */
const OLDEST = [24, 12] as const;

export const checkNode = (version: string): Finding[] => {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isOld = major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]);
  if (!isOld) return [ok('node', `Node ${version}`)];
  return [
    fail(
      'node',
      `Node ${version} is too old: ${OLDEST.join('.')} is needed`,
      'npm ci brings one; npm run halcyon takes it',
    ),
  ];
};

const GIB = 1024 ** 3;
/** `warn` and `fail` below so many bytes. */
const FREE_BYTES = { warn: 2 * GIB, fail: GIB / 4 };

export const checkDisk = async (folder: string, freeBytes = FREE_BYTES): Promise<Finding[]> => {
  const found = await readFreeSpace(folder).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error)
    return [
      fail('disk', `${folder} cannot be looked at (${found.code})`, 'See who owns it; HALCYON_DATA names another'),
    ];
  const { freeBytes: free } = found;
  const text = `${(free / GIB).toFixed(1)} GiB free in ${found.folder}`;
  const advice =
    'Make room: where the disk is full, nothing is accepted any more. RETENTION_DAYS says how long events are kept';
  if (free < freeBytes.fail) return [fail('disk', text, advice)];
  return [free < freeBytes.warn ? warn('disk', text, advice) : ok('disk', text)];
};

/** Nothing where the folder of the embedded database may be written, or made; what the next start would end at otherwise. */
export const checkFolder = async (folder: string): Promise<Finding[]> => {
  for (let at = folder; ; at = dirname(at)) {
    const found = await stat(at).catch((error: NodeJS.ErrnoException) => error);
    const isMissing = found instanceof Error && found.code === 'ENOENT';
    if (isMissing && at !== dirname(at)) continue;
    const why =
      found instanceof Error
        ? found
        : found.isDirectory()
          ? await access(at, constants.W_OK | constants.X_OK).catch((error: NodeJS.ErrnoException) => error)
          : { code: 'ENOTDIR' };
    if (why === undefined) return [];
    const advice = 'Make it writable for this user, or set HALCYON_DATA to another folder';
    return [fail('disk', `${folder} cannot be written (${why.code})`, advice)];
  }
};

/** RFC 6761 §6.4: a name that every name server knows there is none of, so any of them that works answers at once. */
const NO_NAME = 'halcyon-doctor.invalid';
const TRY_MS = 2_000;

/** The name servers of /etc/resolv.conf, asked as deliveries ask them. */
export const checkNames = async (servers?: readonly string[]): Promise<Finding[]> => {
  const resolver = new Resolver({ timeout: TRY_MS, tries: 1 });
  if (servers !== undefined) resolver.setServers(servers);
  const asked = resolver.getServers().join(', ') || 'none';
  const { code = 'no code' } = await resolver.resolve4(NO_NAME).then(
    () => ({ code: 'ENOTFOUND' }),
    (error: NodeJS.ErrnoException) => error,
  );
  if (code === 'ENOTFOUND' || code === 'ENODATA') return [ok('names', `name servers answer: ${asked}`)];
  const advice =
    'Deliveries find no endpoint without one: see /etc/resolv.conf, and that UDP and TCP port 53 are let through';
  return [fail('names', `no name server answers (${code}): ${asked}`, advice)];
};

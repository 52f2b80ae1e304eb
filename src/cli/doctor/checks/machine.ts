/** Checks of the machine: Node, disk and name servers. */
import { Resolver } from 'node:dns/promises';
import { access, constants, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { readFreeSpace } from '#db/free-space.ts';
import { fail, ok, warn, type Finding } from '../finding.ts';

/** The first version that runs TypeScript without a flag. */
const OLDEST = [24, 12] as const;

export function checkNode(version: string): Finding[] {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isOld = major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]);
  if (!isOld) return [ok('node', `Node ${version}`)];
  return [
    fail(
      'node',
      `Node ${version} is too old: ${OLDEST.join('.')} is needed`,
      'npm ci installs a suitable one, which npm run halcyon uses',
    ),
  ];
}

const GIB = 1024 ** 3;
/** Thresholds in bytes. */
const FREE_BYTES = { warn: 2 * GIB, fail: GIB / 4 };

export async function checkDisk(folder: string, freeBytes = FREE_BYTES): Promise<Finding[]> {
  const found = await readFreeSpace(folder).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error)
    return [
      fail(
        'disk',
        `${folder} cannot be read (${found.code})`,
        'Check its owner, or set HALCYON_DATA to another folder',
      ),
    ];
  const { freeBytes: free } = found;
  const text = `${(free / GIB).toFixed(1)} GiB free in ${found.folder}`;
  const advice = 'Free space: with a full disk no events are accepted. RETENTION_DAYS sets how long events are kept';
  if (free < freeBytes.fail) return [fail('disk', text, advice)];
  return [free < freeBytes.warn ? warn('disk', text, advice) : ok('disk', text)];
}

/** Returns a finding if the folder of the embedded database cannot be written or created, so that the next start would fail. */
export async function checkFolder(folder: string): Promise<Finding[]> {
  for (let at = folder; ; at = dirname(at)) {
    const found = await stat(at).catch((error: NodeJS.ErrnoException) => error);
    const isMissing = found instanceof Error && found.code === 'ENOENT';
    if (isMissing && at !== dirname(at)) continue;
    const error =
      found instanceof Error
        ? found
        : found.isDirectory()
          ? await access(at, constants.W_OK | constants.X_OK).catch((failure: NodeJS.ErrnoException) => failure)
          : { code: 'ENOTDIR' };
    if (error === undefined) return [];
    const advice = 'Make it writable for this user, or set HALCYON_DATA to another folder';
    return [fail('disk', `${folder} cannot be written (${error.code})`, advice)];
  }
}

/** RFC 6761 §6.4: every working name server answers at once that this name does not exist. */
const NO_NAME = 'halcyon-doctor.invalid';
const TRY_MS = 2_000;

/** Checks the name servers of /etc/resolv.conf with a query like that of a delivery. */
export async function checkNames(servers?: readonly string[]): Promise<Finding[]> {
  const resolver = new Resolver({ timeout: TRY_MS, tries: 1 });
  if (servers !== undefined) resolver.setServers(servers);
  const addresses = resolver.getServers().join(', ') || 'none';
  const { code = 'no code' } = await resolver.resolve4(NO_NAME).then(
    () => ({ code: 'ENOTFOUND' }),
    (error: NodeJS.ErrnoException) => error,
  );
  if (code === 'ENOTFOUND' || code === 'ENODATA') return [ok('names', `name servers answer: ${addresses}`)];
  const advice =
    'Deliveries need one to resolve endpoints: check /etc/resolv.conf, and that UDP and TCP port 53 are allowed';
  return [fail('names', `no name server answers (${code}): ${addresses}`, advice)];
}

/** Checks of the machine and its network: Node, disk, name servers, ports, public addresses, proxy and mail server. */
import { Resolver } from 'node:dns/promises';
import { access, constants, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { connect, isIPv6 } from 'node:net';
import { readFreeSpace } from '#db/data-folder.ts';
import { rootOf } from '#http/root.ts';
import { isLoopback } from '#core/loopback.ts';
import { tryMailServer } from '#mail/mailer.ts';
import type { Config } from '#config/config.ts';
import { adviceOnPort, refusalOf } from '../ports.ts';
import { fail, graded, ok, warn, type Check, type Verdict } from './check.ts';

const ANSWER_MS = 3_000;
const OTHER_SERVER = 'something else';

/** Returns true if a Halcyon answers at this address, otherwise the reason. */
async function probeHalcyon(address: string): Promise<true | string> {
  try {
    const response = await fetch(`${address}/health/live`, {
      redirect: 'manual',
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    const text = await response.text();
    if (response.ok && /"status":\s*"live"/.test(text)) return true;
    return `${OTHER_SERVER} answers there, with ${response.status}`;
  } catch (error) {
    const { cause, message } = error as Error & { cause?: NodeJS.ErrnoException };
    return cause?.code ?? cause?.message ?? message;
  }
}

type Place = Pick<Config, 'host' | 'port' | 'metricsPort' | 'baseUrl' | 'authUrl' | 'delivery' | 'mail'>;

/** Returns the verdict on a port that a Halcyon uses, or that should be free. */
async function onPort(host: string, port: number, setting: 'PORT' | 'METRICS_PORT', root: string): Promise<Verdict> {
  const local = `http://${isIPv6(host) ? `[${host}]` : host}:${port}${root}`;
  if ((await probeHalcyon(local)) === true) return ok(`${setting}: a Halcyon answers at ${host}:${port}`);
  const refused = await refusalOf(host, port);
  if (refused === undefined) return ok(`${setting}: ${host}:${port} is free`);
  if (refused !== 'EADDRINUSE')
    return fail(`${setting}: cannot listen on ${host}:${port} (${refused})`, adviceOnPort(refused, setting));
  const message = `${setting}: something else listens on ${host}:${port}`;
  return fail(message, `Stop it, or set ${setting} to another port`);
}

async function onAddress(setting: string, address: string): Promise<Verdict> {
  const { protocol, hostname } = new URL(address);
  const isLocal = isLoopback(hostname);
  const result = await probeHalcyon(address);
  if (result !== true) {
    if (isLocal && !result.startsWith(OTHER_SERVER))
      return ok(`${setting} is ${address}, where nothing runs now (${result})`);
    const advice = `Start halcyon serve behind it, or check name, proxy and certificate: curl -i ${address}/health/live`;
    return warn(`${setting} is ${address}, but no Halcyon answers there (${result})`, advice);
  }
  if (protocol === 'https:' || isLocal) return ok(`${setting} is ${address}, and Halcyon answers`);
  const advice = `Put a proxy with TLS in front of it, and set ${setting} to https://…`;
  return warn(`${setting} is ${address}: tokens are sent unencrypted`, advice);
}

/** Returns the error code of a connection; undefined if it was accepted. */
async function connectTo(host: string, port: number): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const socket = connect({ host, port, timeout: ANSWER_MS });
  socket.once('connect', () => resolve(undefined));
  socket.once('timeout', () => resolve('ETIMEDOUT'));
  socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  return promise.finally(() => socket.destroy());
}

async function onProxy({ delivery: { outboundProxy } }: Place): Promise<Verdict> {
  if (outboundProxy === undefined) return ok('none is set: deliveries connect directly');
  const { host, port } = outboundProxy;
  const refused = await connectTo(host, port);
  if (refused === undefined) return ok(`the proxy at ${host}:${port} accepts connections`);
  const advice = 'Start it, or check host and port; until then all deliveries to public addresses wait';
  return fail(`the proxy of OUTBOUND_PROXY at ${host}:${port} cannot be reached (${refused})`, advice);
}

async function onMail({ mail }: Place): Promise<Verdict> {
  if (mail === undefined) return ok('none is set: create links for a new password with halcyon user reset-link');
  try {
    await tryMailServer(mail.url);
    return ok(`the server answers and accepts mails from ${mail.from.address}`);
  } catch (error) {
    const { code, responseCode, message } = error as Error & { code?: string; responseCode?: number };
    // The server's text may quote what was sent; its code does not.
    const reason = responseCode === undefined ? (code ?? message) : `${code ?? ''} ${responseCode}`.trim();
    const advice = 'Check its address, port and password; smtps: is TLS from the first byte';
    return fail(`the mail server of SMTP_URL cannot be used (${reason})`, advice);
  }
}

/** The first version that runs TypeScript without a flag. */
const OLDEST = [24, 12] as const;

export const NODE: Check<{ nodeVersion: string }> = {
  name: 'node',
  run: async ({ nodeVersion }) => {
    const [major = 0, minor = 0] = nodeVersion.split('.').map(Number);
    if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return [ok(`Node ${nodeVersion}`)];
    const advice = 'npm ci installs a suitable one, which npm run halcyon uses';
    return [fail(`Node ${nodeVersion} is too old: ${OLDEST.join('.')} is needed`, advice)];
  },
};

const GIB = 1024 ** 3;
/** Thresholds in bytes. */
const FREE_BYTES = { warn: 2 * GIB, fail: GIB / 4 };

/** The free space for the embedded database in `dataDir`. */
export const DISK: Check<{ dataDir: string; freeBytes?: typeof FREE_BYTES }> = {
  name: 'disk',
  run: async ({ dataDir, freeBytes = FREE_BYTES }) => {
    const found = await readFreeSpace(dataDir).catch((error: NodeJS.ErrnoException) => error);
    if (found instanceof Error) {
      const advice = 'Check its owner, or set HALCYON_DATA to another folder';
      return [fail(`${dataDir} cannot be read (${found.code})`, advice)];
    }
    const advice = 'Free space: with a full disk no events are accepted. RETENTION_DAYS sets how long events are kept';
    const is = { fail: found.freeBytes < freeBytes.fail, warn: found.freeBytes < freeBytes.warn };
    return [graded(is, `${(found.freeBytes / GIB).toFixed(1)} GiB free in ${found.folder}`, advice)];
  },
};

/** Whether the folder of the embedded database can be written or created: otherwise the next start fails. */
export const FOLDER: Check<{ dataDir: string }> = {
  name: 'disk',
  run: async ({ dataDir }) => {
    for (let at = dataDir; ; at = dirname(at)) {
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
      return [fail(`${dataDir} cannot be written (${error.code})`, advice)];
    }
  },
};

/** RFC 6761 §6.4: every working name server answers at once that this name does not exist. */
const NO_NAME = 'halcyon-doctor.invalid';
const TRY_MS = 2_000;

/** The name servers of /etc/resolv.conf, or others, with a query like that of a delivery. */
export const NAMES: Check<{ nameServers?: readonly string[] }> = {
  name: 'names',
  run: async ({ nameServers }) => {
    const resolver = new Resolver({ timeout: TRY_MS, tries: 1 });
    if (nameServers !== undefined) resolver.setServers(nameServers);
    const addresses = resolver.getServers().join(', ') || 'none';
    const { code = 'no code' } = await resolver.resolve4(NO_NAME).then(
      () => ({ code: 'ENOTFOUND' }),
      (error: NodeJS.ErrnoException) => error,
    );
    if (code === 'ENOTFOUND' || code === 'ENODATA') return [ok(`name servers answer: ${addresses}`)];
    const advice =
      'Deliveries need one to resolve endpoints: check /etc/resolv.conf, and that UDP and TCP port 53 are allowed';
    return [fail(`no name server answers (${code}): ${addresses}`, advice)];
  },
};

/** The checks of this machine and its network. */
export const NETWORK_CHECKS: readonly Check<Place>[] = [
  {
    name: 'ports',
    run: async ({ host, port, metricsPort, baseUrl }) => [
      await onPort(host, port, 'PORT', rootOf(baseUrl)),
      ...(metricsPort === 0 ? [] : [await onPort(host, metricsPort, 'METRICS_PORT', '')]),
    ],
  },
  {
    name: 'addresses',
    run: async ({ baseUrl, authUrl }) => [
      await onAddress('BASE_URL', baseUrl),
      ...(authUrl === baseUrl ? [] : [await onAddress('AUTH_URL', authUrl)]),
    ],
  },
  { name: 'proxy', run: async (config) => [await onProxy(config)] },
  { name: 'mail', run: async (config) => [await onMail(config)] },
];

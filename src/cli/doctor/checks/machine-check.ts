/** Checks of the machine and its network: Node, disk, name servers, ports, public addresses, proxy and mail server. */
import { Resolver } from 'node:dns/promises';
import { access, constants, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { connect, createServer, isIPv6 } from 'node:net';
import { readFreeSpace } from '#db/free-space.ts';
import { rootOf } from '#http/route.ts';
import { isLoopback } from '#core/loopback.ts';
import { tryMailServer } from '#mail/mailer.ts';
import type { Config } from '#config/config.ts';
import { fail, ok, warn, type Finding } from '../finding.ts';
import { adviceOnPort } from '../../port.ts';

// Checks of the ports of this machine, the public addresses, the forward proxy and the mail server.

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

async function listenOn(host: string, port: number): Promise<string | undefined> {
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  server.listen(port, host, () => server.close(() => resolve(undefined)));
  return promise;
}

async function checkPort(host: string, port: number, setting: 'PORT' | 'METRICS_PORT', root: string): Promise<Finding> {
  const local = `http://${isIPv6(host) ? `[${host}]` : host}:${port}${root}`;
  if ((await probeHalcyon(local)) === true) return ok('ports', `${setting}: a Halcyon answers at ${host}:${port}`);
  const refused = await listenOn(host, port);
  if (refused === undefined) return ok('ports', `${setting}: ${host}:${port} is free`);
  if (refused === 'EADDRINUSE')
    return fail(
      'ports',
      `${setting}: something else listens on ${host}:${port}`,
      `Stop it, or set ${setting} to another port`,
    );
  return fail('ports', `${setting}: cannot listen on ${host}:${port} (${refused})`, adviceOnPort(refused, setting));
}

/** Checks that a Halcyon uses the ports, or that they are free. */
export async function checkPorts({ host, port, metricsPort, baseUrl }: Config): Promise<Finding[]> {
  const main = await checkPort(host, port, 'PORT', rootOf(baseUrl));
  return metricsPort === 0 ? [main] : [main, await checkPort(host, metricsPort, 'METRICS_PORT', '')];
}

async function checkAddress(setting: string, address: string): Promise<Finding> {
  const { protocol, hostname } = new URL(address);
  const isLocal = isLoopback(hostname);
  const result = await probeHalcyon(address);
  if (result !== true) {
    if (isLocal && !result.startsWith(OTHER_SERVER))
      return ok('addresses', `${setting} is ${address}, where nothing runs now (${result})`);
    const advice = `Start halcyon serve behind it, or check name, proxy and certificate: curl -i ${address}/health/live`;
    return warn('addresses', `${setting} is ${address}, but no Halcyon answers there (${result})`, advice);
  }
  if (protocol === 'https:' || isLocal) return ok('addresses', `${setting} is ${address}, and Halcyon answers`);
  return warn(
    'addresses',
    `${setting} is ${address}: tokens are sent unencrypted`,
    `Put a proxy with TLS in front of it, and set ${setting} to https://…`,
  );
}

export async function checkAddresses({ baseUrl, authUrl }: Config): Promise<Finding[]> {
  const base = await checkAddress('BASE_URL', baseUrl);
  return authUrl === baseUrl ? [base] : [base, await checkAddress('AUTH_URL', authUrl)];
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

export async function checkProxy({ delivery: { outboundProxy } }: Config): Promise<Finding[]> {
  if (outboundProxy === undefined) return [ok('proxy', 'none is set: deliveries connect directly')];
  const { host, port } = outboundProxy;
  const refused = await connectTo(host, port);
  if (refused === undefined) return [ok('proxy', `the proxy at ${host}:${port} accepts connections`)];
  const advice = 'Start it, or check host and port; until then all deliveries to public addresses wait';
  return [fail('proxy', `the proxy of OUTBOUND_PROXY at ${host}:${port} cannot be reached (${refused})`, advice)];
}

export async function checkMail({ mail }: Config): Promise<Finding[]> {
  if (mail === undefined)
    return [ok('mail', 'none is set: create links for a new password with halcyon user reset-link')];
  try {
    await tryMailServer(mail.url);
    return [ok('mail', `the server answers and accepts mails from ${mail.from.address}`)];
  } catch (error) {
    const { code, responseCode, message } = error as Error & { code?: string; responseCode?: number };
    // The server's text may quote what was sent; its code does not.
    const reason = responseCode === undefined ? (code ?? message) : `${code ?? ''} ${responseCode}`.trim();
    return [
      fail(
        'mail',
        `the mail server of SMTP_URL cannot be used (${reason})`,
        'Check its address, port and password; smtps: is TLS from the first byte',
      ),
    ];
  }
}

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

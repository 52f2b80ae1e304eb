/** Checks of the ports of this machine, the public addresses, the forward proxy and the mail server. */
import { connect, createServer, isIPv6 } from 'node:net';
import { rootOf } from '#http/root.ts';
import { isLoopback } from '#core/loopback.ts';
import { tryMailServer } from '#mail/mailer.ts';
import type { Config } from '#config/config.ts';
import { adviceOnPort } from '../../port.ts';
import { fail, ok, warn, type Finding } from '../finding.ts';

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

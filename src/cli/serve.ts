/** `halcyon serve` and `halcyon deliver`: from settings to a running installation, and down again. */
import { createServer } from 'node:net';
import { systemClock } from '#core/clock.ts';
import { stopAll, type Running } from '#core/lifecycle.ts';
import { createLog, type Log } from '#core/log.ts';
import { provideCommandLineClient } from '#identity/oauth/clients/command-line.ts';
import { startApp, type Role } from '#server/app.ts';
import { VERSION } from '#server/version.ts';
import type { Config } from '#config/config.ts';
import { ConfigError } from '#config/env.ts';
import { openDemo, type Demo } from './demo.ts';
import { checkSettings } from './doctor/checks/settings.ts';
import type { Finding } from './doctor/finding.ts';
import { UserError } from './explain.ts';
import { openInstallation, type Installation } from './installation.ts';
import { adviceOnPort } from './port.ts';
import type { Terminal } from './terminal.ts';

const LAST_PORT = 65_535;

/** Before anything is made: a port that is taken must not leave half a installation behind. `setting` is what would move it. */
const requireFreePort = async (host: string, port: number, setting: 'PORT' | 'METRICS_PORT'): Promise<void> => {
  const probe = createServer();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  probe.once('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE')
      reject(
        new UserError(
          `Port ${port} on ${host} is taken: stop what uses it, or choose another, such as ${setting}=${port === LAST_PORT ? port - 1 : port + 1}`,
        ),
      );
    else
      reject(new UserError(`Cannot listen on ${host}:${port} (${error.code}). ${adviceOnPort(error.code, setting)}`));
  });
  probe.listen(port, host, resolve);
  await promise;
  await new Promise((closed) => probe.close(closed));
};

const LOOPBACK = ['127.0.0.0/8', '::1/128'];

/** The demo's receiver stands on loopback, which an operator has to allow and the demo allows by itself. */
const withDemoDefaults = (config: Config): Config => {
  const { allowedNetworks } = config.delivery;
  if (config.database.url !== undefined || allowedNetworks.length > 0) return config;
  return { ...config, delivery: { ...config.delivery, allowedNetworks: LOOPBACK } };
};

/** Throws a `ConfigError` that names every setting that cannot be used; warns of names that look like a setting and are none. */
const readSettings = ({ env, cwd, warn }: Terminal): Config => {
  const { config, findings } = checkSettings(env, cwd);
  const foundAs = (state: Finding['state']) => findings.filter((one) => one.state === state);
  for (const { message, advice } of foundAs('warn')) warn(`halcyon: ${message}. ${advice}`);
  if (config !== undefined) return config;
  throw new ConfigError(
    foundAs('fail')
      .map(({ message }) => message)
      .join('; '),
  );
};

const summary = (config: Config, demo: Demo | undefined, isElsewhere: boolean): string => {
  const lines = [
    `Halcyon ${VERSION} is ready.`,
    '',
    `  API            ${config.baseUrl}   (send the header ${config.naming.versionHeader}: 1)`,
    `  Sign in        ${config.authUrl}/sign-in`,
  ];
  if (demo !== undefined) {
    // The command finds the demo by its folder, and by nothing else.
    const publish = `${isElsewhere ? `HALCYON_DATA='${config.dataDir}' ` : ''}npm run -s halcyon -- publish -`;
    lines.push(
      `    e-mail       ${demo.file.user.email}`,
      `    password     ${demo.file.user.password}`,
      `  Demo receiver  ${demo.file.receiver.url}   (prints and verifies what is delivered)`,
      `  Credentials    ${demo.path}`,
      '',
      'Try next: publish what a shop would, in a second terminal in this folder, and see it arrive here',
      `  echo '{"event":"transaction/created","resource":{"id":1001}}' | ${publish}`,
    );
  }
  lines.push('', 'ctrl-C stops it; the data stays.');
  return lines.join('\n');
};

/** Returns on a signal to stop; throws when the embedded PostgreSQL has ended or an error was not caught. */
const untilOver = async (
  { signal, uncaught }: { signal: Promise<string>; uncaught: Promise<never> | undefined },
  installation: Installation,
  log: Log,
): Promise<void> => {
  const ended = installation.databaseEnded.then((how) => ({ how }));
  const broken = uncaught?.catch((error: unknown): never => {
    log.fatal({ err: error }, 'uncaught error; stopping');
    throw error;
  });
  const over = await Promise.race([signal, ended, ...(broken === undefined ? [] : [broken])]);
  if (typeof over === 'string') log.info({ signal: over }, 'stopping');
  else throw new UserError(`The embedded PostgreSQL ended by itself (${over.how}): start again`);
};

export const serve = async (terminal: Terminal, roles: readonly Role[]): Promise<void> => {
  const config = withDemoDefaults(readSettings(terminal));
  if (config.database.url === undefined && !roles.includes('serve')) {
    throw new UserError(
      'A process that only delivers shares a database with others: set DATABASE_URL and HALCYON_SECRET_KEY',
    );
  }
  const log = createLog(config.logLevel);
  const { allMs } = config.stopping;
  const ends = { signal: terminal.untilToldToStop(allMs), uncaught: terminal.untilUncaught?.(allMs) };
  if (roles.includes('serve')) {
    // Not a fault of the settings alone: what only delivers listens on one of them.
    if (config.port === config.metricsPort)
      throw new UserError('PORT and METRICS_PORT are the same: set one to another');
    await requireFreePort(config.host, config.port, 'PORT');
  }
  if (config.metricsPort !== 0) await requireFreePort(config.host, config.metricsPort, 'METRICS_PORT');
  const worker = roles.includes('deliver') ? { worker: config.delivery.workerId } : {};
  const installation = await openInstallation(config, log, { isGuest: false, ...worker });
  const running: Running[] = [{ stop: installation.close }];
  try {
    const demo =
      config.database.url === undefined ? await openDemo({ config, installation, print: terminal.print }) : undefined;
    if (demo !== undefined) running.push(demo);
    const { sql, direct, secretKeys } = installation;
    if (!installation.isKeyAdopted)
      log.warn(
        'the secrets in this database are sealed with another key than HALCYON_SECRET_KEY: halcyon rekey changes that',
      );
    if (roles.includes('serve')) await provideCommandLineClient(sql, new Date());
    running.push(
      await startApp({ config, sql, direct, secretKeys, clock: systemClock, random: Math.random, log, roles }),
    );
    // Somebody may have taken the demo apart, and the installation stands without it.
    await demo?.complete().catch((error: unknown) => terminal.warn(`The demo is not complete: ${String(error)}`));
    // With DATABASE_URL the standard output has lines of the log only.
    const say = config.database.url === undefined ? terminal.print : terminal.warn;
    say(
      roles.includes('serve')
        ? summary(config, demo, Boolean(terminal.env['HALCYON_DATA']))
        : `Halcyon ${VERSION} is delivering.`,
    );
    await untilOver(ends, installation, log);
  } finally {
    await stopAll(running, log);
  }
};

/** `halcyon serve` and `halcyon deliver`: starts a process from the settings and stops it. */
import { systemClock, type Clock } from '#core/clock.ts';
import { stopAll, type Running, Pace } from '#core/lifecycle.ts';
import { createLog, type Log } from '#core/log.ts';
import { PASSWORD_COST } from '#identity/accounts/users.ts';
import { sessionNameOf } from '#db/activity.ts';
import { isUnavailable } from '#db/unavailable.ts';
import { DatabaseClock, readDatabaseTime } from '#db/database-clock.ts';
import { connectionsOfEach } from '#db/usable.ts';
import type { App, AppDeps, Role, Send } from '#server/app.ts';
import { openSiblings, type Siblings, ProcessFailed, Supervisor, type Opened } from '#server/supervisor.ts';
import { VERSION } from '#server/version.ts';
import type { Config } from '#config/config.ts';
import { ConfigError } from '#core/config-error.ts';
import type { Demo } from './demo.ts';
import { checkSettings } from './doctor/settings-check.ts';
import type { Finding } from './doctor/check.ts';
import { CliCommand } from './command.ts';
import { exitCodeOf, explain, UserError } from './explain.ts';
import {
  closePools,
  createPoolOpener,
  openInstallation,
  openPools,
  OTHER_CONNECTIONS,
  type Installation,
} from './installation.ts';
import { adviceOnPort, refusalOf } from './ports.ts';
import type { Terminal } from './terminal.ts';

const LAST_PORT = 65_535;
/** Beyond the ports that the demo's receiver tries. */
const PORT_DISTANCE = 10;

/** Throws a `UserError` if the port is not free, before anything is created. `setting` is the setting of the port. */
async function requireFreePort(host: string, port: number, setting: 'PORT' | 'METRICS_PORT'): Promise<void> {
  const code = await refusalOf(host, port);
  if (code === undefined) return;
  if (code !== 'EADDRINUSE')
    throw new UserError(`Cannot listen on ${host}:${port} (${code}). ${adviceOnPort(code, setting)}`);
  const other = port > LAST_PORT - PORT_DISTANCE ? port - PORT_DISTANCE : port + PORT_DISTANCE;
  throw new UserError(
    `Port ${port} on ${host} is taken: stop the process that uses it, or choose another, such as ${setting}=${other}`,
  );
}

const LOOPBACK = ['127.0.0.0/8', '::1/128'];

/** Allows deliveries to loopback for the demo's receiver, unless the operator has set allowed networks. */
function withDemoDefaults(config: Config): Config {
  const { allowedNetworks } = config.delivery;
  if (config.database.url !== undefined || allowedNetworks.length > 0) return config;
  return { ...config, delivery: { ...config.delivery, allowedNetworks: LOOPBACK } };
}

/** Returns the configuration. Throws a `ConfigError` that names every invalid setting; warns of unknown settings. */
async function readSettings({ env, cwd, warn }: Terminal): Promise<Config> {
  const { config, findings } = await checkSettings(env, cwd);
  const foundAs = (state: Finding['state']) => findings.filter((one) => one.state === state);
  for (const { message, advice } of foundAs('warn')) warn(`halcyon: ${message}. ${advice}`);
  if (config !== undefined) return config;
  throw new ConfigError(
    foundAs('fail')
      .map(({ message }) => message)
      .join('; '),
  );
}

function summary(
  config: Config,
  demo: (Pick<Demo, 'path' | 'file'> & { isComplete: boolean }) | undefined,
  hasDataSetting: boolean,
): string {
  const lines = [
    `Halcyon ${VERSION} is ready.`,
    '',
    `  API            ${config.baseUrl}   (send the header ${config.naming.versionHeader}: 1)`,
    `  Sign in        ${config.authUrl}/sign-in`,
  ];
  if (demo !== undefined) {
    // `publish` finds the demo by the data folder.
    const publish = `${hasDataSetting ? `HALCYON_DATA='${config.dataDir}' ` : ''}npm run -s halcyon -- publish -`;
    lines.push(
      `    e-mail       ${demo.file.user.email}`,
      `    password     ${demo.file.user.password}`,
      `  Demo receiver  ${demo.file.receiver.url}   (verifies and prints deliveries)`,
      `  Credentials    ${demo.path}`,
    );
    const tryNext = [
      '',
      'Try next: publish an event in a second terminal, in this folder, and see it arrive here',
      `  echo '{"event":"transaction/created","resource":{"id":1001}}' | ${publish}`,
    ];
    if (demo.isComplete) lines.push(...tryNext);
  }
  lines.push('', 'ctrl-C stops it; the data is kept.');
  return lines.join('\n');
}

/** Resolves on a stop signal; rejects when the embedded PostgreSQL has ended, or on an uncaught error. */
async function untilStopped(
  { signal, uncaught }: { signal: Promise<string>; uncaught: Promise<never> | undefined },
  installation: Pick<Installation, 'databaseEnded'>,
  log: Log,
): Promise<void> {
  const ended = installation.databaseEnded.then((reason) => ({ reason }));
  const failed = uncaught?.catch((error: unknown): never => {
    log.fatal({ err: error }, 'uncaught error; stopping');
    throw error;
  });
  const end = await Promise.race([signal, ended, ...(failed === undefined ? [] : [failed])]);
  if (typeof end === 'string') log.info({ signal: end }, 'stopping');
  else throw new UserError(`The embedded PostgreSQL ended by itself (${end.reason}): start again`);
}

/** The supervisor observes the embedded PostgreSQL. */
const NEVER_ENDS = { databaseEnded: new Promise<never>(() => {}) };

/** Throws a `UserError` if a port is not free or the command lacks a database, before anything is created. */
async function checkStart(config: Config, roles: readonly Role[]): Promise<void> {
  if (config.database.url === undefined && !roles.includes('serve')) {
    throw new UserError(
      'A process that only delivers needs a shared database: set DATABASE_URL and HALCYON_SECRET_KEY',
    );
  }
  if (roles.includes('serve')) {
    // The settings do not check this, because a process that only delivers does not use PORT.
    if (config.port === config.metricsPort)
      throw new UserError('PORT and METRICS_PORT are the same: change one of them');
    await requireFreePort(config.host, config.port, 'PORT');
  }
  if (config.metricsPort !== 0) await requireFreePort(config.host, config.metricsPort, 'METRICS_PORT');
}

const nameOf = ({ delivery }: Config, roles: readonly Role[]) => ({
  sessionName: sessionNameOf({ id: delivery.workerId, version: VERSION, roles }),
});

type Start = { config: Config; log: Log; roles: readonly Role[] };

/** Without `playedClock` the process has the time of the database. */
async function startParts(
  { config, log, roles }: Start,
  opened: Opened & Pick<Installation, 'sql' | 'direct'>,
  { playedClock, ...how }: Pick<AppDeps, 'siblings' | 'prepare' | 'isPrivate'> & { playedClock?: Clock } = {},
): Promise<App> {
  const { secretKeys, sql } = opened;
  // A supervisor does not load the application: 60 MiB instead of 160.
  const { startApp } = await import('#server/app.ts');
  const pace = new Pace(systemClock);
  const clock = playedClock ?? (await DatabaseClock.follow({ sql, local: systemClock, pace, log }));
  const starting = startApp({
    ...opened,
    config,
    log,
    roles,
    ...how,
    clock,
    pace,
    openPools: createPoolOpener(config, { secretKeys, log, ...nameOf(config, roles) }),
    random: Math.random,
    passwordCost: PASSWORD_COST,
  });
  if (!(clock instanceof DatabaseClock)) return starting;
  const { retire, ...app } = await starting.catch(async (error: unknown) => {
    await clock.stop();
    throw error;
  });
  return { retire, stop: () => stopAll([clock, app], log) };
}

/** Runs one process of a supervisor. The supervisor reports an error of its start. */
async function serveSupervised(terminal: Terminal, start: Start, siblings: Siblings): Promise<void> {
  const { config, log, roles } = start;
  const { allMs } = config.stopping;
  const ends = { signal: terminal.untilStopSignal(allMs), uncaught: terminal.untilUncaught?.(allMs) };
  const opened = await siblings.opened;
  const { silenceMs } = config.database;
  const pools = openPools(config.database, opened.address, { ...nameOf(config, roles), silenceMs, log });
  const running: Running[] = [{ stop: () => closePools(pools, config.stopping) }];
  let app: App;
  try {
    app = await startParts(start, { ...opened, ...pools }, { siblings });
    running.push(app);
  } catch (error) {
    await siblings.failed(explain(error) ?? String(error), exitCodeOf(error));
    return await stopAll(running, log);
  }
  try {
    await untilStopped(ends, NEVER_ENDS, log);
    await app.retire();
  } finally {
    await stopAll(running, log);
  }
}

/** Starts the processes of `PROCESSES` and a supervisor in this one. */
async function startSupervisor(
  { config, log }: Start,
  { address, secretKeys, direct }: Installation,
): Promise<Supervisor> {
  const { processes, database } = config;
  // Behind PgBouncer the pools do not use connections of PostgreSQL.
  const connections =
    database.directUrl === undefined
      ? await connectionsOfEach(direct, processes, { wanted: database.connections, others: OTHER_CONNECTIONS })
      : database.connections;
  if (connections < database.connections)
    log.warn({ processes, connections }, 'DATABASE_CONNECTIONS is reduced: PostgreSQL allows too few connections');
  const supervisor = new Supervisor({
    config,
    env: { DATABASE_CONNECTIONS: String(connections) },
    opened: { address, secretKeys },
    log,
  });
  try {
    await supervisor.start();
    return supervisor;
  } catch (error) {
    await supervisor.stop();
    if (error instanceof ProcessFailed) throw new UserError(error.message, error.exitCode);
    throw error;
  }
}

/** Runs `prepare` in an application that opens no port, and stops it. */
async function runPrivately(
  { config, ...start }: Start,
  installation: Installation,
  how: { prepare: (send: Send) => Promise<void>; playedClock?: Clock },
): Promise<void> {
  const quiet = { ...start, config: { ...config, metricsPort: 0 } };
  const app = await startParts(quiet, installation, { ...how, isPrivate: true });
  await app.stop();
}

/** Plays the history of a new demo; Halcyon works without it, so an error is a warning. A stop signal ends the play. */
async function playDemo(
  demo: Demo,
  start: Start,
  installation: Installation,
  { signal, warn }: { signal: Promise<string>; warn: (text: string) => void },
): Promise<void> {
  let isStopping = false;
  void signal.then(() => (isStopping = true));
  await demo
    .playDay?.(
      (playedClock, prepare) => runPrivately(start, installation, { prepare, playedClock }),
      () => isStopping,
    )
    .catch((error: unknown) => warn(`The demo has no history: ${String(error)}`));
}

async function serve(terminal: Terminal, roles: readonly Role[]): Promise<void> {
  const siblings = openSiblings();
  const config = withDemoDefaults(
    await readSettings(siblings === undefined ? terminal : { ...terminal, warn: () => {} }),
  );
  const log = createLog(config.logLevel, undefined, { isUnavailable }).child({ pid: terminal.processId });
  const start = { config, log, roles };
  if (siblings !== undefined) return serveSupervised(terminal, start, siblings);
  const isSupervisor = config.processes > 1;
  // A supervisor also stops the database and the demo after its processes.
  const limitMs = config.stopping.allMs + (isSupervisor ? config.stopping.databaseMs : 0);
  const ends = { signal: terminal.untilStopSignal(limitMs), uncaught: terminal.untilUncaught?.(limitMs) };
  await checkStart(config, roles);
  const name = isSupervisor ? {} : nameOf(config, roles);
  const installation = await openInstallation(config, log, { usesRunningServer: false, ...name });
  const running: Running[] = [{ stop: installation.close }];
  let supervisor: Supervisor | undefined;
  try {
    const demo =
      config.database.url === undefined
        ? await (await import('./demo.ts')).openDemo({ config, installation, print: terminal.print })
        : undefined;
    if (demo !== undefined) running.push(demo);
    if (!installation.isKeyAdopted)
      log.warn('secrets in this database are sealed with another key than HALCYON_SECRET_KEY; run halcyon rekey');
    if (roles.includes('serve')) {
      const { provideCommandLineClient } = await import('#identity/oauth/clients/clients.ts');
      await provideCommandLineClient(installation.sql, await readDatabaseTime(installation.sql));
    }
    if (demo !== undefined) await playDemo(demo, start, installation, { signal: ends.signal, warn: terminal.warn });
    let isDemoComplete = false;
    // A failure is not fatal: the demo may have been changed, and Halcyon works without it.
    const prepare =
      demo &&
      (async (send: Send): Promise<void> => {
        const completed = demo.complete(send).then(() => (isDemoComplete = true));
        await completed.catch((error: unknown) => terminal.warn((error as Error).message));
      });
    if (isSupervisor && prepare !== undefined) await runPrivately(start, installation, { prepare });
    supervisor = isSupervisor ? await startSupervisor(start, installation) : undefined;
    const app = isSupervisor ? undefined : await startParts(start, installation, { prepare });
    running.push(...[supervisor, app].filter((part) => part !== undefined));
    // With DATABASE_URL, stdout contains only log lines.
    const write = config.database.url === undefined ? terminal.print : terminal.warn;
    write(
      roles.includes('serve')
        ? summary(config, demo && { ...demo, isComplete: isDemoComplete }, Boolean(terminal.env['HALCYON_DATA']))
        : `Halcyon ${VERSION} is delivering.`,
    );
    await untilStopped(ends, installation, log);
    await app?.retire();
  } finally {
    await stopAll(running, log);
  }
  if (supervisor?.hasStoppedInTime === false) throw new UserError('Some processes did not stop in time');
}

export function createServingCommands(terminal: Terminal): CliCommand[] {
  return [
    new CliCommand('serve')
      .description('serve the API, the pages and the deliveries; without DATABASE_URL on an embedded PostgreSQL')
      .option('--no-deliver', 'leave the deliveries to other processes')
      .examples('halcyon serve', 'PORT=8090 halcyon serve --no-deliver')
      .action((options: { deliver: boolean }) => serve(terminal, options.deliver ? ['serve', 'deliver'] : ['serve'])),
    new CliCommand('deliver')
      .description('deliver webhooks only; any number of processes, with DATABASE_URL')
      .examples('halcyon deliver')
      .action(() => serve(terminal, ['deliver'])),
  ];
}

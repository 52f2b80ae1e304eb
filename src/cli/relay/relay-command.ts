/** `halcyon relay` publishes the rows of an outbox table, which a shop writes in the transactions that change its data. */
import { Option } from 'commander';
import { systemClock } from '#core/clock.ts';
import { readConfig, type Config } from '#config/config.ts';
import { readSecret } from '#config/env.ts';
import { createPublisher } from '#publisher';
import { CliCommand, printResult, readFileOf } from '../command.ts';
import { EXIT, UsageError, UserError } from '../explain.ts';
import { resolveServer, type ServerOptions } from '../publish/publish-requests.ts';
import type { Terminal } from '../terminal.ts';
import { readTable, type Source, type Table } from './relay-source.ts';

type Options = ServerOptions & {
  from?: string;
  fromFile?: string;
  table: string;
  batch: number;
  metricsPort?: number;
  once?: true;
  init?: 'postgres' | 'mysql';
};

const MIB = 1024 * 1024;
const PORTS = { min: 1, max: 65_535 };
/** The limit of a request. */
const ROWS_MAX = 1_000;
/** How long the publisher repeats a request. Meanwhile the rows of other stores wait for the next round. */
const DEADLINE_MS = 10_000;
/** How long the rows that are being sent delay a stop. */
const STOP_MS = 5_000;

/** Returns the address of the database. */
export async function readAddress(
  { from, fromFile }: Pick<Options, 'from' | 'fromFile'>,
  terminal: Pick<Terminal, 'env' | 'cwd' | 'warn'>,
): Promise<string> {
  if (from !== undefined) {
    if (URL.canParse(from) && new URL(from).password !== '')
      terminal.warn(
        '--from has a password, which all users of this machine can read: use HALCYON_RELAY_FROM or --from-file',
      );
    return from;
  }
  if (fromFile === undefined) return readSecret(terminal.env, 'HALCYON_RELAY_FROM') ?? '';
  return (await readFileOf('--from-file', fromFile, terminal)).toString().trim();
}

const MISSING =
  'Set --from to an address such as postgres://shop@db.example.com/shop or mysql://shop@db.example.com/shop';

/** Connects, checks the tables, and takes the lock; returns undefined if another relay has it. */
export async function openSource(address: string, table: Table): Promise<Source | undefined> {
  // On use, because few commands need a driver of MySQL.
  if (/^postgres(?:ql)?:/.test(address)) return (await import('./relay-postgres-sql.ts')).openPostgres(address, table);
  if (/^(?:mysql|mariadb):/.test(address)) return (await import('./relay-mysql-sql.ts')).openMysql(address, table);
  throw new UsageError(MISSING);
}

/** Prints the definition of the tables. */
async function printTables(database: 'postgres' | 'mysql', table: Table, terminal: Terminal): Promise<void> {
  const sql =
    database === 'postgres'
      ? (await import('./relay-postgres-sql.ts')).postgresTables(table)
      : (await import('./relay-mysql-sql.ts')).mysqlTables(table);
  printResult(terminal, { sql }, [sql]);
}

async function run(options: Options, terminal: Terminal, config: Config): Promise<void> {
  const table = readTable(options.table);
  if (options.init !== undefined) return printTables(options.init, table, terminal);
  const { batch, metricsPort: port } = options;
  const address = await readAddress(options, terminal);
  const { url, clientId, clientSecret, versionHeader } = await resolveServer(options, terminal, config);
  const publisher = createPublisher({
    baseUrl: url,
    clientId,
    clientSecret,
    versionHeader,
    batchEvents: ROWS_MAX,
    batchBytes: 16 * MIB,
    deadlineMs: DEADLINE_MS,
  });
  const stop = new AbortController();
  const limit = new AbortController();
  void terminal.untilStopSignal().then(() => {
    stop.abort();
    setTimeout(() => limit.abort(), STOP_MS).unref();
  });
  limit.signal.addEventListener('abort', () => void publisher.close({ signal: limit.signal }));
  const { warn, print, isJson } = terminal;
  const { Relay, serveRelayMetrics } = await import('./relay-run.ts');
  const relay = new Relay({
    open: () => openSource(address, table),
    publisher,
    batch,
    once: options.once === true,
    stop: stop.signal,
    clock: systemClock,
    random: Math.random,
    warn,
    say: (text) => (isJson === true ? undefined : print(`${text} to ${url}`)),
  });
  const metrics =
    port === undefined ? undefined : await serveRelayMetrics(relay, { host: config.host, port, clock: systemClock });
  try {
    await relay.run();
  } finally {
    await metrics?.stop();
    const { published, refused } = relay;
    printResult(terminal, { published, refused }, [`${published} published, ${refused} refused`]);
  }
  if (options.once === true && relay.refused > 0)
    throw new UserError(
      `Refused rows are in ${table.dead}: correct their events, and insert these as new rows`,
      EXIT.incomplete,
    );
  return undefined;
}

const HELP = `
The shop inserts a row into the outbox table in the transaction that changes its data. The relay publishes the rows in
the order of their ids, each once, deletes what is published, and moves what Halcyon refuses to <table>_dead.
It ends at a signal. A second relay of a table waits until the first ends.

--from may contain no password, because every user of the machine can read arguments: use HALCYON_RELAY_FROM or --from-file.
The defaults of --url and --client-id are those of halcyon publish. The client must be trusted.
`;

export function createRelayCommand(terminal: Terminal): CliCommand {
  return new CliCommand('relay')
    .description('publish the rows of an outbox table in PostgreSQL, MySQL or MariaDB')
    .option('--from <address>', 'of the database: postgres://… or mysql://…; default: HALCYON_RELAY_FROM')
    .option('--from-file <file>', 'a file with this address')
    .option('--table <name>', 'the outbox table, or <schema>.<name>', 'halcyon_outbox')
    .number('--batch <rows>', 'how many rows are read at once, at most 1000', { min: 1, max: ROWS_MAX }, 500)
    .number('--metrics-port <port>', 'serve /metrics and /health/ready at this port of HOST', PORTS)
    .option('--once', 'end when the rows are published: exit code 2 if some are refused, 3 if some are left')
    .option('--url <address>', 'of the API')
    .option('--client-id <id>', 'the client of the platform')
    .option('--client-secret-file <file>', 'a file with its secret, or with the output of client create --json')
    .addOption(new Option('--init <database>', 'print the definition of the tables').choices(['postgres', 'mysql']))
    .addHelpText('after', HELP)
    .examples(
      'halcyon relay --init postgres | psql shop',
      'halcyon relay --from-file shop-database --url https://api.example.com --client-secret-file platform.json',
    )
    .action((options: Options) => run(options, terminal, readConfig(terminal.env, terminal.cwd)));
}

/**
 * A program that starts the embedded PostgreSQL, reports it in a line of JSON, and runs it until standard input ends. Tests start it
 * to kill it. It logs to standard error.
 *
 *     node test/setup/run-embedded-database.ts <data folder>
 */
import { pino } from 'pino';
import { startEmbedded } from '#db/embedded.ts';

const [dataDir = ''] = process.argv.slice(2);
const log = pino({ base: null }, pino.destination({ dest: 2, sync: true }));
const say = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

try {
  const { address, stop, exited } = await startEmbedded({ dataDir, durable: false, log });
  process.on('SIGINT', () => say({ interrupted: true }));
  say({ address });
  void exited.then((reason) => say({ exited: reason }));
  process.stdin.once('end', () => void stop()).resume();
} catch (error) {
  say({ error: error instanceof Error ? `${error.name}: ${error.message}` : String(error) });
  process.exitCode = 1;
}

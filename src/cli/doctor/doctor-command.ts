/** `halcyon doctor`: checks the environment of an installation and reports problems with remedies. */
import { systemClock } from '#core/clock.ts';
import { printResult, CliCommand } from '../command.ts';
import { EXIT, UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { countOf, type Finding } from './check.ts';

const STATE_WIDTH = 6;
const CHECK_WIDTH = 14;

/** Returns the line of a finding, and a line with its advice. */
export function lineOf({ state, check, message, advice }: Finding): string {
  const line = `${state.padEnd(STATE_WIDTH)}${check.padEnd(CHECK_WIDTH)}${message}`;
  return advice === undefined ? line : `${line}\n${' '.repeat(STATE_WIDTH + CHECK_WIDTH)}→ ${advice}`;
}

async function doctor(terminal: Terminal): Promise<void> {
  const isJson = terminal.isJson === true;
  const { env, cwd, nodeVersion } = terminal;
  const onFinding = (finding: Finding): void => {
    if (!isJson) terminal.print(lineOf(finding));
  };
  const { examine } = await import('./examine.ts');
  const findings = await examine({ env, cwd, nodeVersion, clock: systemClock, onFinding });
  const count = (state: Finding['state']): number => findings.filter((one) => one.state === state).length;
  const failed = count('fail');
  if (isJson) printResult(terminal, { ok: failed === 0, findings });
  else terminal.print(`\n${count('ok')} ok, ${countOf(count('warn'), 'warning')}, ${failed} failed`);
  if (failed > 0)
    throw new UserError(`${countOf(failed, 'check')} failed: follow the advice after each →`, EXIT.failed);
}

const HELP = `
Checks settings, every database, the map of shards, migrations, partitions, the secret key, clocks, workers, backlog,
disk, name servers, ports, addresses and the mail server, and changes nothing. Run it with the environment of your
processes, on the same machine.

"warn": works now, but may fail later. "fail": does not work. Exit code 1 if a check fails.`;

export function createDoctorCommand(terminal: Terminal): CliCommand {
  return new CliCommand('doctor')
    .description('check the installation and report problems with remedies')
    .addHelpText('after', HELP)
    .examples('halcyon doctor', 'halcyon doctor --json')
    .action(() => doctor(terminal));
}

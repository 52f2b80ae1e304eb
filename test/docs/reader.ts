/**
 * Reads a page as a newcomer would, with a terminal: types every block of `sh`, compares its output with the
 * block right below, and opens the browser for an authorization URL. CONTRIBUTING.md, "Documents", describes the comments
 * above a block.
 */
import { until } from '../setup/until.ts';
import type { Block, Page } from './page.ts';
import type { Running, Shell } from './shell.ts';
import { isShown } from './compare-output.ts';
import { addressToOpen, letAppIn } from './authorize-in-browser.ts';

const NOT_RUN = /^not run: (?<why>.+)$/;
const KEEPS_RUNNING = /^keeps running; says: (?<sign>.+)$/;
const THERE = 'where it keeps running';
/** An error response, which a page must show. */
const REFUSAL = /svc:errors|"error"\s*:|^halcyon: /m;

export function whyNotRun({ remark = '' }: Block): string | undefined {
  return NOT_RUN.exec(remark)?.groups?.['why'];
}

/** The block directly below is the output of a block. */
const shownBelow = (block: Block, next: Block | undefined): Block | undefined =>
  next !== undefined && next.language !== 'sh' && next.line - block.lastLine <= 4 ? next : undefined;

export type Place = { path: string; port: number };

export async function readWithShell(page: Page, shell: Shell, place: Place, running: Running[]): Promise<void> {
  let typed = '';
  const fault = (block: Block, what: string): Error => new Error(`${page.path}:${block.line}: ${what}\n${block.text}`);
  const commandsOf = ({ text }: Block): string => text.replaceAll('localhost:8080', `localhost:${place.port}`);

  const run = async (block: Block, below: Block | undefined): Promise<void> => {
    let visit: Promise<string | undefined> | undefined;
    const { output, failed } = await shell.run(commandsOf(block), typed, (said) => {
      const address = addressToOpen(said);
      if (address !== undefined) visit ??= letAppIn(address, place.path);
    });
    typed = `${(await visit) ?? ''}\n`;
    if (failed.length > 0) throw fault(block, `${failed.join(', ')} failed: ${output}`);
    if (below === undefined && REFUSAL.test(output))
      throw fault(block, `the page does not say that it prints ${output}`);
    if (below !== undefined && !isShown(below.text, output))
      throw fault(below, `what is printed is ${output}\nshown is`);
  };

  for (const [index, block] of page.blocks.entries()) {
    const sign = KEEPS_RUNNING.exec(block.remark ?? '')?.groups?.['sign'];
    const last = running.at(-1);
    if (block.remark === THERE) {
      if (last === undefined) throw fault(block, 'no program is running');
      await until(last.output, (said) => isShown(block.text, said)).catch((cause: unknown) => {
        throw fault(block, String(cause));
      });
    } else if (block.language !== 'sh' || whyNotRun(block) !== undefined) continue;
    else if (sign !== undefined) running.push(await shell.keepRunning(commandsOf(block), sign));
    else await run(block, shownBelow(block, page.blocks[index + 1]));
  }
}

/** A user of the command line with their own settings folder, who allows or denies in the browser. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBrowser, readForm } from '../security/oauth-server.ts';
import { runCommand, startCommand, type Ended } from './command.ts';
import type { Cleanups } from './cleanups.ts';
import { until } from './until.ts';

export type PersonAtTerminal = {
  env: Record<string, string>;
  /** The settings folder of the user. */
  folder: string;
  run: (...args: readonly string[]) => Promise<Ended>;
  start: (...args: readonly string[]) => ReturnType<typeof startCommand> & { said: () => string };
  /** Creates the settings folder, removed at the end of the test. */
  startForLong: PersonAtTerminal['start'];
  /** Runs `halcyon login` until it ends, and submits `decision` on its consent page. `address`: the URL of that page. */
  login: (
    decision?: 'allow' | 'deny',
    ...args: readonly string[]
  ) => Promise<Ended & { address: URL; cameBack: Response }>;
};

/** The time limit of a command, including its start, which takes seconds on a busy machine. */
export const QUICK_MS = 30_000;
const LONG_MS = 240_000;

type User = { email: string; password: string };

/** `user` signs in on the page of `login`. */
export async function personAtTerminal(server: string, user: User, ends: Cleanups): Promise<PersonAtTerminal> {
  const home = await mkdtemp(join(tmpdir(), 'halcyon-person-'));
  ends.after(() => rm(home, { recursive: true }));
  const env = { XDG_CONFIG_HOME: home, HALCYON_SERVER: server, PATH: process.env['PATH'] ?? '' };
  const startFor = (patienceMs: number, args: readonly string[]): ReturnType<PersonAtTerminal['start']> => {
    const child = startCommand(args, env, patienceMs);
    let said = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (said += text));
    return Object.assign(child, { said: () => said });
  };
  const start: PersonAtTerminal['start'] = (...args) => startFor(QUICK_MS, args);
  return {
    env,
    folder: join(home, 'halcyon'),
    run: (...args) => runCommand(args, env),
    start,
    startForLong: (...args) => startFor(LONG_MS, args),
    login: async (decision = 'allow', ...args) => {
      const child = start('login', '--no-browser', ...args);
      let out = '';
      child.stdout.on('data', (text: string) => (out += text));
      const closed = once(child, 'close') as Promise<[number | null]>;
      const [, found = ''] =
        /(http\S+\/authorize\?\S+)/.exec(
          await until(
            async () => child.said(),
            (said) => said.includes('/authorize?'),
            QUICK_MS,
          ),
        ) ?? [];
      const address = new URL(found);
      const browser = createBrowser(address.origin);
      await browser.signIn(user.email, user.password);
      const page = await browser.open(address.pathname + address.search);
      const form = readForm(page);
      const store = form.stores[0]?.id;
      const { location } = await browser.post(form.action, {
        nonce: form.nonce,
        decision,
        ...(store === undefined ? {} : { store: String(store) }),
      });
      if (location === null) throw new Error(`No redirect from ${page.text}`);
      const cameBack = await fetch(location);
      const [code] = await closed;
      return { code, out, err: child.said().replace(out, ''), address, cameBack };
    },
  };
}

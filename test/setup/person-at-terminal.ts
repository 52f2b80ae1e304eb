/** A user of the command line with their own settings folder, who allows or denies in the browser. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBrowser, readForm } from '../security/oauth-server.ts';
import { printed, runCommand, startCommand, untilEnded, type Ended, type Running } from './command.ts';
import type { Cleanups } from './cleanups.ts';

export type PersonAtTerminal = {
  env: Record<string, string>;
  /** The settings folder of the user. */
  folder: string;
  run: (...args: readonly string[]) => Promise<Ended>;
  start: (...args: readonly string[]) => Running;
  /** Runs `halcyon login` until it ends, and submits `decision` on its consent page. `address`: the URL of that page. */
  login: (
    decision?: 'allow' | 'deny',
    ...args: readonly string[]
  ) => Promise<Ended & { address: URL; cameBack: Response }>;
};

type User = { email: string; password: string };

/** `user` signs in on the page of `login`. */
export async function personAtTerminal(server: string, user: User, ends: Cleanups): Promise<PersonAtTerminal> {
  const home = await mkdtemp(join(tmpdir(), 'halcyon-person-'));
  ends.after(() => rm(home, { recursive: true }));
  const env = { XDG_CONFIG_HOME: home, HALCYON_SERVER: server };
  return {
    env,
    folder: join(home, 'halcyon'),
    run: (...args) => runCommand(args, env),
    start: (...args) => startCommand(args, env),
    login: async (decision = 'allow', ...args) => {
      const command = startCommand(['login', '--no-browser', ...args], env);
      const address = new URL(await printed(command, /(http\S+\/authorize\?\S+)\n/));
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
      return { ...(await untilEnded(command)), address, cameBack };
    },
  };
}

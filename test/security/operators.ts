/** A person with the role of operator, who has set up an authenticator app and confirms with its codes. */
import assert from 'node:assert/strict';
import { Secret, TOTP } from 'otpauth';
import { createBrowser, type Browser, type Page, type startAuthorizationServer } from './oauth-server.ts';
import { hiddenIn } from './page-forms.ts';

const PERIOD_MS = 30_000;

type Server = Pick<Awaited<ReturnType<typeof startAuthorizationServer>>, 'sql' | 'now' | 'wait'>;

/** Gives the role as the command does; the person has no second factor yet. */
export async function makeOperator({ sql }: Pick<Server, 'sql'>, userId: number): Promise<void> {
  await sql`update users set is_operator = true where id = ${userId}`;
}

/** Sets up an authenticator app, and returns a function that enters its next code on a page that asks to confirm. */
export async function enrol({ now, wait }: Server, browser: Browser) {
  const at = '/account/security/app';
  const { nonce = '', secret = '' } = hiddenIn(await browser.open(at), at);
  const nextCode = (): string => {
    wait(PERIOD_MS);
    return new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: now().getTime() });
  };
  await browser.post(at, { nonce, secret, code: nextCode() });
  return {
    /** Submits the form of a page that asks who the person is; `path` is the address of the form. */
    confirm: (path: string, page: Page): Promise<Page> =>
      browser.post(path, { ...hiddenIn(page, path), verification_code: nextCode() }),
  };
}

/** Opens a page of operators, and confirms first if it asks. */
export async function openConsole(
  browser: Browser,
  { confirm }: Awaited<ReturnType<typeof enrol>>,
  path = '/operator',
): Promise<Page> {
  const page = await browser.open(path);
  if (page.location?.startsWith('/account/confirm') !== true) return page;
  const returned = await confirm('/account/confirm', await browser.open(page.location));
  return returned.location === path ? browser.open(path) : returned;
}

/** Starts a browser of Bob with the role of operator, and returns a function that submits the form of a page that suspends something. */
export async function suspending(server: Awaited<ReturnType<typeof startAuthorizationServer>>) {
  const operator = createBrowser(server.origin);
  await operator.signIn(server.bob);
  await makeOperator(server, server.bobId);
  const factor = await enrol(server, operator);
  const post = async (path: string, fields: Record<string, string>): Promise<Page> =>
    operator.post(path, { ...hiddenIn(await openConsole(operator, factor, path), path), ...fields });
  return {
    operator,
    factor,
    post,
    suspend: async (path: string, reason = 'It leaks data'): Promise<void> => {
      const { status, text } = await post(path, { reason });
      assert.equal(status, 303, text);
    },
    resume: async (path: string): Promise<void> => {
      const { status, text } = await post(path, {});
      assert.equal(status, 303, text);
    },
  };
}

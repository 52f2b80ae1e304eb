/** Third-party clients with a real browser between them and the server, and those that are not written for Node. */
import { test, type TestContext } from 'node:test';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { walk as openidClient } from '../clients/node/openid-client.ts';
import { needsPython, walkInPython } from '../clients/python.ts';
import { assertWalked, kinds, openScene, type App, type Method } from '../clients/oauth-flow.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';

const PATH = '/callback';

type ClientApp = {
  redirectUri: string;
  /** Resolves with the redirect URL and its parameters. */
  cameBack: () => Promise<URL>;
  close: () => Promise<void>;
};

/** Listens on an ephemeral port. */
async function startClientApp(): Promise<ClientApp> {
  const { promise, resolve } = Promise.withResolvers<URL>();
  const server = createServer((request, response) => {
    const address = new URL(request.url ?? '', origin());
    // Browsers also request an icon.
    if (address.pathname === PATH) resolve(address);
    response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>Done</title><p>You may close this.</p>');
  }).listen(0, '127.0.0.1');
  const origin = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await once(server, 'listening');
  return {
    redirectUri: origin() + PATH,
    cameBack: () => promise,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Resolves when the browser has left our pages; `user` signs in if asked. */
async function allowInChromium(address: string | URL, user: { email: string; password: string }): Promise<void> {
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    await page.goto(String(address));
    await page.getByLabel(/e-mail/i).fill(user.email);
    await page.getByLabel(/password/i).fill(user.password);
    await page.getByRole('button', { name: /sign in/i }).click();
    await page.getByRole('radio').first().check();
    await page.getByRole('button', { name: /allow/i }).click();
    await page.getByText('You may close this').waitFor();
  } finally {
    await browser.close();
  }
}

const scene = await openScene();
const METHODS: readonly Method[] = ['basic', 'post', 'none'];

/** The app listens on loopback; the person and their browser are real. */
async function behindChromium(t: TestContext, method: Method): Promise<App> {
  const listener = await startClientApp();
  t.after(listener.close);
  const { redirectUri } = listener;
  const isPublic = method === 'none';
  const app = isPublic
    ? await scene.onComputer(Number(new URL(redirectUri).port))
    : await scene.confidential(method, redirectUri);
  const visit = async (address: string | URL): Promise<URL> => {
    await allowInChromium(address, scene.person);
    return listener.cameBack();
  };
  return { ...app, visit };
}

for (const method of ['basic', 'none'] as const) {
  test(`openid-client completes the flow in Chromium ${kinds[method]}`, needsChromium, async (t) => {
    assertWalked(await openidClient(await behindChromium(t, method)), method);
  });
}

const scripts = [
  ['with_requests_oauthlib.py', 'requests_oauthlib', 'python3-requests-oauthlib'],
  ['with_authlib.py', 'authlib', 'python3-authlib'],
] as const;

for (const [script, module, debianPackage] of scripts) {
  const walk = walkInPython(script);
  for (const method of METHODS) {
    test(`${debianPackage} completes the whole flow ${kinds[method]}`, needsPython(module, debianPackage), async () => {
      const app = method === 'none' ? await scene.onComputer() : await scene.confidential(method);
      assertWalked(await walk(app), method);
    });
  }
  const needs = { ...needsChromium, ...needsPython(module, debianPackage) };
  test(`${debianPackage} completes the flow in Chromium ${kinds.none}`, needs, async (t) => {
    assertWalked(await walk(await behindChromium(t, 'none')), 'none');
  });
}

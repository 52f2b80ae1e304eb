/** Third-party clients with a real browser between them and the server, and those that are not written for Node. */
import { test, type TestContext } from 'node:test';
import { walk as openidClient } from '../clients/node/openid-client.ts';
import { needsPython, walkInPython } from '../clients/python.ts';
import { assertWalked, kinds, openScene, type App, type Method } from '../clients/oauth-flow.ts';
import { allowInChromium } from '../setup/browser-consent.ts';
import { needsChromium } from '../setup/chromium.ts';
import { startClientApp } from '../setup/client-app.ts';

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

/** Passkeys in a real browser, with Chromium's virtual authenticators (WebAuthn domain of the DevTools protocol). */
import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import type { CDPSession, Page } from 'playwright-core';
import { createUser } from '#identity/accounts/users.ts';
import { PASSWORD, startAuthorizationServer } from '../security/oauth-server.ts';
import { needsChromium, openBrowser } from '../setup/chromium.ts';
import { passwords } from '../setup/passwords.ts';

const server = await startAuthorizationServer({}, { isResolvable: true, host: 'localhost' });
const { origin, sql } = server;
const browser = 'skip' in needsChromium ? undefined : await openBrowser();
after(() => browser?.close());

let people = 0;
async function newPerson(): Promise<string> {
  people += 1;
  const email = `person${people}@example.com`;
  await createUser(sql, passwords, { email, password: PASSWORD, now: server.now() });
  return email;
}

const OPTIONS = {
  protocol: 'ctap2',
  transport: 'internal',
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
} as const;

type Device = { page: Page; cdp: CDPSession; authenticatorId: string };

/** Opens a browser profile of its own with an authenticator. */
async function openDevice(
  t: TestContext,
  options: { javaScriptEnabled?: boolean; offersInField?: boolean } = {},
): Promise<Device> {
  assert.ok(browser !== undefined);
  const context = await browser.newContext({ javaScriptEnabled: options.javaScriptEnabled ?? true });
  t.after(() => context.close());
  // Most tests press the button: the authenticator would answer the request of the field before.
  if (options.offersInField !== true)
    await context.addInitScript('PublicKeyCredential.isConditionalMediationAvailable = async () => false');
  const page = await context.newPage();
  const cdp = await context.newCDPSession(page);
  await cdp.send('WebAuthn.enable', { enableUI: false });
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', { options: OPTIONS });
  return { page, cdp, authenticatorId };
}

/** Opens the sign-in page as a person who has not signed in. */
async function openSignIn(device: Device, path = '/sign-in'): Promise<void> {
  await device.page.context().clearCookies();
  await device.page.goto(origin + path);
}

const usePasskey = ({ page }: Device): Promise<void> => page.getByRole('button', { name: 'Use a passkey' }).click();

async function enterPassword(device: Device, email: string): Promise<void> {
  const { page } = device;
  await openSignIn(device);
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

const isSignedIn = async (page: Page): Promise<boolean> => {
  await page.goto(`${origin}/account`);
  return new URL(page.url()).pathname === '/account';
};

/** Adds a passkey on the page of the settings and returns the recovery codes that are shown then. */
async function addPasskey(device: Device, name: string): Promise<string[]> {
  const { page } = device;
  await page.goto(`${origin}/account/security`);
  await page.getByLabel('Name, such as the device').fill(name);
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await page.getByRole('status').waitFor();
  return page.locator('ul.codes code').allTextContents();
}

test('register, sign in without a password, and use it as the second step', needsChromium, async (t) => {
  const email = await newPerson();
  const device = await openDevice(t);
  const { page } = device;
  await enterPassword(device, email);
  assert.equal((await addPasskey(device, 'Laptop')).length, 10);
  await page.goto(`${origin}/account/security`);
  assert.ok(await page.getByText('Laptop', { exact: true }).isVisible());
  await openSignIn(device, '/sign-in?return_to=/account/clients');
  await usePasskey(device);
  await page.waitForURL(`${origin}/account/clients`);
  await enterPassword(device, email);
  await page.getByRole('heading', { name: 'Second step' }).waitFor();
  await usePasskey(device);
  await page.waitForURL((url) => !url.pathname.startsWith('/sign-in'));
  assert.ok(await isSignedIn(page));
});

test(
  'a second device gets a passkey of its own, and a lost device is replaced by a recovery code',
  needsChromium,
  async (t) => {
    const email = await newPerson();
    const laptop = await openDevice(t);
    await enterPassword(laptop, email);
    const [code = '', other = ''] = await addPasskey(laptop, 'Laptop');
    // The phone has no passkey of the account: a recovery code lets it in.
    const phone = await openDevice(t);
    await enterPassword(phone, email);
    await phone.page.getByLabel('Recovery code').fill(code);
    await phone.page.getByRole('button', { name: 'Sign in' }).click();
    await phone.page.waitForURL((url) => !url.pathname.startsWith('/sign-in'));
    assert.deepEqual(await addPasskey(phone, 'Phone'), [], 'recovery codes are shown once');
    await phone.page.context().clearCookies();
    await phone.page.goto(`${origin}/sign-in`);
    await usePasskey(phone);
    await phone.page.waitForURL((url) => url.pathname !== '/sign-in');
    // The laptop is lost: its passkey is removed from the phone, and signs in no longer.
    await phone.page.goto(`${origin}/account/security`);
    await phone.page.getByRole('button', { name: 'Remove Laptop' }).click();
    await phone.page.getByText('Passkey removed.').waitFor();
    await laptop.page.context().clearCookies();
    await laptop.page.goto(`${origin}/sign-in`);
    await usePasskey(laptop);
    await laptop.page.getByRole('alert').waitFor();
    assert.equal(await isSignedIn(laptop.page), false);
    // Without JavaScript a person still has the password and a recovery code.
    const plain = await openDevice(t, { javaScriptEnabled: false });
    await enterPassword(plain, email);
    assert.equal(await plain.page.getByRole('button', { name: 'Use a passkey' }).isVisible(), false);
    await plain.page.getByLabel('Recovery code').fill(other);
    await plain.page.getByRole('button', { name: 'Sign in' }).click();
    assert.ok(await isSignedIn(plain.page));
  },
);

test('a passkey without verification of the person is refused', needsChromium, async (t) => {
  const email = await newPerson();
  const device = await openDevice(t);
  const { page, cdp, authenticatorId } = device;
  await enterPassword(device, email);
  await addPasskey(device, 'Key');
  await cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false });
  await openSignIn(device);
  await usePasskey(device);
  await page.getByRole('alert').waitFor();
  assert.equal(await isSignedIn(page), false);
});

test('before a sensitive change the passkey confirms who it is', needsChromium, async (t) => {
  const email = await newPerson();
  const device = await openDevice(t);
  const { page } = device;
  await enterPassword(device, email);
  await addPasskey(device, 'Laptop');
  server.wait(10 * 60_000);
  await page.goto(`${origin}/account/security`);
  await page.getByText('Make new codes …').click();
  await page.getByRole('button', { name: 'Make new codes' }).click();
  await page.getByRole('heading', { name: 'Confirm that it is you' }).waitFor();
  await usePasskey(device);
  await page.getByRole('heading', { name: 'Recovery codes' }).waitFor();
  assert.equal(await page.locator('ul.codes code').count(), 10);
});

test('the field of the address offers passkeys by itself', needsChromium, async (t) => {
  const email = await newPerson();
  const device = await openDevice(t, { offersInField: true });
  const { page } = device;
  await enterPassword(device, email);
  await addPasskey(device, 'Laptop');
  await openSignIn(device);
  // The virtual authenticator answers the request of the field without a click.
  await page.waitForURL((url) => url.pathname !== '/sign-in');
  assert.ok(await isSignedIn(page));
});

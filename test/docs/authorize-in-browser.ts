/** Completes an authorization at the address that a command prints: opens it, signs in, chooses the store, allows. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DemoFile } from '../../src/cli/demo.ts';
import { openBrowser } from '../setup/chromium.ts';

const ADDRESS = /^.*?(https?:\/\/\S+\/authorize\?\S+)\s*$/m;

export function addressToOpen(output: string): string | undefined {
  return ADDRESS.exec(output)?.[1];
}

/** Returns the code, if the page after the authorization shows one for typing. */
export async function letAppIn(address: string, folder: string): Promise<string | undefined> {
  const { user } = JSON.parse(await readFile(join(folder, '.halcyon/demo.json'), 'utf8')) as DemoFile;
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    await page.goto(address);
    await page.getByLabel(/e-mail/i).fill(user.email);
    await page.getByLabel(/password/i).fill(user.password);
    await page.getByRole('button', { name: /sign in/i }).click();
    const stores = page.getByRole('radio');
    if ((await stores.count()) > 0) await stores.first().check();
    await page.getByRole('button', { name: /allow/i }).click();
    await page.waitForLoadState();
    const code = page.locator('#code');
    return (await code.count()) > 0 ? await code.innerText() : undefined;
  } finally {
    await browser.close();
  }
}

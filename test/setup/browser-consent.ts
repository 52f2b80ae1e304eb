/** Completes an authorization in a real browser: signs in, chooses the first store, allows. */
import { openBrowser } from './chromium.ts';

/** Resolves when the browser has left our pages; `user` signs in if asked. */
export async function allowInChromium(address: string | URL, user: { email: string; password: string }): Promise<void> {
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

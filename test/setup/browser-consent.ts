/** What a person does at an app's authorization address, in a real browser: sign in, choose the first store, allow. */
import { openBrowser } from './chromium.ts';

/** Fulfils when the browser has left our pages; `user` signs in where it is asked. */
export const allowInChromium = async (
  address: string | URL,
  user: { email: string; password: string },
): Promise<void> => {
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
};

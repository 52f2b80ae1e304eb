/** A person in a browser, whose steps are counted: clicks, texts that are typed, and keys that are pressed. */
import assert from 'node:assert/strict';
import type { Browser, Locator, Page } from 'playwright-core';

export type Effort = {
  clicks: number;
  /** Fields that were filled in. */
  texts: number;
  /** Pressed keys, except those of texts. */
  keys: number;
  seconds: number;
};

export type Person = {
  page: Page;
  click: (on: Locator) => Promise<void>;
  type: (into: Locator, text: string) => Promise<void>;
  press: (key: string) => Promise<void>;
  /** Presses Tab until the focused element has this name. */
  tabTo: (name: RegExp) => Promise<void>;
  /** Types into the focused field. */
  typeHere: (text: string) => Promise<void>;
  effort: () => Effort;
};

const TABS_MAX = 60;
/** The name of the focused element: its label, or its content. */
const FOCUSED = `(() => {
  const { activeElement: at } = document;
  const words = [...(at.labels ?? [])].map(({ textContent }) => textContent).join(' ');
  return (words || at.getAttribute('aria-label') || at.textContent).replaceAll(/\\s+/g, ' ').trim();
})()`;

/** Cookies of a session, and the page on which the person begins. */
type SignedIn = { cookies: readonly { name: string; value: string; url: string }[]; at: string };

/** Returns a person who is signed in by the form, or has the cookies of a session, and whose steps are counted from here. */
export async function signInCounted(
  browser: Browser,
  {
    origin,
    as,
    hasScripts = false,
  }: { origin: string; as: { email: string; password: string } | SignedIn; hasScripts?: boolean },
): Promise<Person & { close: () => Promise<void> }> {
  const context = await browser.newContext({ baseURL: origin, javaScriptEnabled: hasScripts });
  const page = await context.newPage();
  if ('cookies' in as) {
    await context.addCookies(as.cookies);
    await page.goto(as.at);
  } else {
    await page.goto('/sign-in');
    await page.getByLabel('E-mail').fill(as.email);
    await page.getByLabel('Password').fill(as.password);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL((url) => url.pathname !== '/sign-in');
  }
  const counts = { clicks: 0, texts: 0, keys: 0 };
  const start = performance.now();
  const press = async (key: string): Promise<void> => {
    counts.keys += 1;
    await page.keyboard.press(key);
  };
  return {
    page,
    click: async (on) => {
      counts.clicks += 1;
      await on.click();
    },
    type: async (into, text) => {
      counts.texts += 1;
      await into.fill(text);
    },
    press,
    tabTo: async (name) => {
      const seen: string[] = [];
      while (seen.length < TABS_MAX) {
        await press('Tab');
        const focused = await page.evaluate<string>(FOCUSED);
        if (name.test(focused)) return;
        seen.push(focused);
      }
      assert.fail(`no element is named ${String(name)}: ${seen.join(' · ')}`);
    },
    typeHere: async (text) => {
      counts.texts += 1;
      await page.keyboard.type(text);
    },
    effort: () => ({ ...counts, seconds: (performance.now() - start) / 1000 }),
    close: () => context.close(),
  };
}

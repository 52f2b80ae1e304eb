/** The forms of a page as a browser would send them, and an app created with them. */
import type { Browser, Page } from './oauth-server.ts';

const unescape = (text: string): string =>
  text.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&lt;', '<').replaceAll('&amp;', '&');

const INPUTS = {
  hidden: /<input\s+type="hidden"\s+name="([^"]*)"\s+value="([^"]*)"/g,
  checked: /<input\s+type="(?:checkbox|radio)"\s+name="([^"]*)"\s+value="([^"]*)"\s+checked/g,
};

/** Returns fields of the form for `action`; throws if the page has no such form. */
function inputsIn({ text }: Page, action: string, which: keyof typeof INPUTS): [name: string, value: string][] {
  const forms = [...text.matchAll(/<form method="post" action="([^"]*)"[^>]*>(.*?)<\/form>/gs)];
  const found = forms.find(([, goesTo = '']) => unescape(goesTo) === action);
  if (found === undefined) throw new Error(`No form goes to ${action}: ${forms.map(([, to]) => to).join(' ')}`);
  const inputs = [...(found[2] ?? '').matchAll(INPUTS[which])];
  return inputs.map(([, name = '', value = '']) => [name, unescape(value)]);
}

export const hiddenIn = (page: Page, action: string): Record<string, string> =>
  Object.fromEntries(inputsIn(page, action, 'hidden'));

/** Returns the boxes and choices that are selected when the page is opened. */
export const preselectedIn = (page: Page, action: string) => inputsIn(page, action, 'checked');

export const REGISTERED = 'https://mine.example.com/callback';
const SETTINGS = { name: 'My app', company: '', description: '', contact: '', redirect_uris: REGISTERED };

/** Sends the form for `action` of the page at `at` with these fields. */
export async function submit(
  browser: Browser,
  at: string,
  action: string,
  fields: Record<string, string> = {},
): Promise<Page> {
  return browser.post(action, { ...hiddenIn(await browser.open(at), action), ...fields });
}

export function makeApp(browser: Browser, fields: Record<string, string> = {}): Promise<Page> {
  return submit(browser, '/account/clients/new', '/account/clients', { ...SETTINGS, is_public: '0', ...fields });
}

/** Saves the settings of an app, with these changes to those of a new one. */
export function saveApp(browser: Browser, clientId: string, fields: Record<string, string>): Promise<Page> {
  const path = `/account/clients/${clientId}`;
  return submit(browser, path, path, { ...SETTINGS, ...fields });
}

/** Returns what the answer to a form shows: the id, and the secret if there is one. */
export function credentialsIn({ text }: Page): { clientId: string; secret: string } {
  return {
    clientId: /<code>([0-9a-f]{24})<\/code>/.exec(text)?.[1] ?? '',
    secret: /<code>(hal_cs_[A-Za-z0-9_-]{43})<\/code>/.exec(text)?.[1] ?? '',
  };
}

/** Creates an app of the signed-in user. */
export async function newApp(browser: Browser, fields: Record<string, string> = {}) {
  const page = await makeApp(browser, fields);
  const made = credentialsIn(page);
  if (made.clientId === '') throw new Error(`No app was created: ${page.status} ${page.text}`);
  return { ...made, path: `/account/clients/${made.clientId}` };
}

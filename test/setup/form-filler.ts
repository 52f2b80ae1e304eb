/** Reads pages and submits their forms like a browser, without one. */
import assert from 'node:assert/strict';

export const HTML = { Accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };

const unescape = (text: string): string =>
  text
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');

/** Returns the form with some fields changed. */
export function filled(form: URLSearchParams, changes: Record<string, string>): URLSearchParams {
  const copy = new URLSearchParams(form);
  for (const [name, value] of Object.entries(changes)) copy.set(name, value);
  return copy;
}

const attributeOf = (tag: string, name: string): string =>
  unescape(new RegExp(` ${name}="([^"]*)"`).exec(tag)?.[1] ?? '');

const SENT = new Set(['hidden', 'text', 'number', 'datetime-local']);

/** Returns the bodies that a browser would send for the unchanged forms of a page, with the paths and methods to which they are sent. */
export function formsIn(page: string): { action: string; method: string; form: URLSearchParams }[] {
  return [...page.matchAll(/<form method="post" action="([^"]*)"[^>]*>([^]*?)<\/form>/g)].map(
    ([, action = '', form = '']) => {
      const inputs = [...form.matchAll(/<input[^>]*>/g)].filter(
        ([tag]) => SENT.has(attributeOf(tag, 'type')) || / checked/.test(tag),
      );
      const selects = [...form.matchAll(/<select[^>]*?name="([^"]*)"[^>]*>([^]*?)<\/select>/g)];
      const areas = [...form.matchAll(/<textarea[^>]*?name="([^"]*)"[^>]*>\n?([^]*?)<\/textarea>/g)];
      const fields = new URLSearchParams([
        ...inputs.map(([tag]) => [attributeOf(tag, 'name'), attributeOf(tag, 'value')]),
        ...selects.map(([, name = '', options = '']) => [
          name,
          /<option value="([^"]*)"[^>]* selected/.exec(options)?.[1] ?? '',
        ]),
        ...areas.map(([, name = '', written = '']) => [name, unescape(written).replaceAll('\n', '\r\n')]),
      ]);
      return { action, method: fields.get('_method') ?? 'POST', form: fields };
    },
  );
}

export function createFiller(origin: string, browser: { cookie: () => string | undefined }) {
  const show = (path: string, headers: Record<string, string> = {}) =>
    fetch(origin + path, { redirect: 'manual', headers: { ...HTML, Cookie: browser.cookie() ?? '', ...headers } });

  /** Returns the body that a browser would send for the unchanged form of a method. */
  const formFor = async (path: string, method: string): Promise<URLSearchParams> => {
    const forms = formsIn(await (await show(path)).text());
    const found = forms.find((one) => one.method === method && one.form.has('nonce'));
    assert.ok(found !== undefined, `no form for ${method} on ${path}`);
    return found.form;
  };

  const send = (path: string, form: URLSearchParams, headers: Record<string, string> = {}) =>
    fetch(origin + path, {
      method: 'POST',
      redirect: 'manual',
      headers: { ...HTML, Cookie: browser.cookie() ?? '', 'Sec-Fetch-Site': 'same-origin', ...headers },
      body: form,
    });

  return { show, formFor, send };
}

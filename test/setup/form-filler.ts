/** Reads pages and submits their forms like a browser, without one. */
import assert from 'node:assert/strict';

export const HTML = { Accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };

const unescape = (text: string): string =>
  text.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&lt;', '<').replaceAll('&amp;', '&');

/** Returns the form with some fields changed. */
export function filled(form: URLSearchParams, changes: Record<string, string>): URLSearchParams {
  const copy = new URLSearchParams(form);
  for (const [name, value] of Object.entries(changes)) copy.set(name, value);
  return copy;
}

export function createFiller(origin: string, browser: { cookie: () => string | undefined }) {
  const show = (path: string, headers: Record<string, string> = {}) =>
    fetch(origin + path, { redirect: 'manual', headers: { ...HTML, Cookie: browser.cookie() ?? '', ...headers } });

  /** Returns the body that a browser would send for the unchanged form of a method. */
  const formFor = async (path: string, method: string): Promise<URLSearchParams> => {
    const text = await (await show(path)).text();
    const forms = [...text.matchAll(/<form method="post"[^>]*>([^]*?)<\/form>/g)].map(([, inside = '']) => inside);
    const form = forms.find(
      (inside) => (/name="_method" value="(\w+)"/.exec(inside)?.[1] ?? 'POST') === method && inside.includes('nonce'),
    );
    assert.ok(form !== undefined, `no form for ${method} on ${path}`);
    const inputs = [...form.matchAll(/<input type="(hidden|text|number)"[^>]*?name="([^"]*)"[^>]*?value="([^"]*)"/g)];
    const selects = [...form.matchAll(/<select[^>]*?name="([^"]*)"[^>]*>([^]*?)<\/select>/g)];
    const areas = [...form.matchAll(/<textarea[^>]*?name="([^"]*)"[^>]*>\n?([^]*?)<\/textarea>/g)];
    const boxes = [...form.matchAll(/<input[^>]*?type="checkbox"[^>]*>/g)].map(([box]) => box);
    const valueIn = (box: string, name: string): string => new RegExp(`${name}="([^"]*)"`).exec(box)?.[1] ?? '';
    return new URLSearchParams([
      ...inputs.map(([, , name = '', value = '']) => [name, unescape(value)]),
      ...selects.map(([, name = '', options = '']) => [
        name,
        /<option value="([^"]*)"[^>]* selected/.exec(options)?.[1] ?? '',
      ]),
      ...areas.map(([, name = '', written = '']) => [name, unescape(written).replaceAll('\n', '\r\n')]),
      ...boxes
        .filter((box) => / checked/.test(box))
        .map((box) => [valueIn(box, 'name'), unescape(valueIn(box, 'value'))]),
    ]);
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

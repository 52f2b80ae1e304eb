/** Names that others chose are shown without control characters and characters that change the direction of the text around them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { html, kept, render } from '#hypermedia/markup.ts';
import { createFiller } from '../setup/form-filler.ts';
import { REDIRECT, startAuthorizationServer } from './oauth-server.ts';

const server = await startAuthorizationServer();
const { sql, alpha, adaId, browser } = server;
const reader = createFiller(server.origin, browser);

/** `Shop gpj.exe` and the rest of the line from right to left, an escape sequence of a terminal, a line separator. */
const HOSTILE = 'Shop \u202egpj.exe\u2066\u001b[31m\u2028\u0085';
const EFFECTIVE = /[\u202a-\u202e\u2066-\u2069\u2028\u2029]|(?![\t\n])\p{Cc}/u;

test('the consent page and every page of a person, a store and an app show names without control characters', async () => {
  // As a version without today's checks of the names of apps stored them.
  await sql`update client set name = ${`App ${HOSTILE}`}, company = ${`By ${HOSTILE}`}, description = ${HOSTILE}, owner = ${adaId} where not trusted`;
  await browser.consent(server.asking());
  await sql`update store set name = name || ${HOSTILE}`;
  await sql`update session set user_agent = ${`Browser ${HOSTILE}`}`;
  const [app] = await sql<{ id: string }[]>`select client_id as id from client where redirect_uris[1] = ${REDIRECT}`;
  const consent = `/authorize?${new URLSearchParams(server.asking()).toString()}`;
  const store = `/stores/${alpha}`;
  const pages = [
    consent,
    '/account',
    '/account/security',
    '/account/clients',
    `/account/clients/${app?.id}`,
    `/account/clients/${app?.id}/delete`,
    '/stores',
    store,
    `${store}/members`,
    `${store}/webhooks`,
    `${store}/changelogs`,
    `${store}/statuses`,
    '/account/erase',
  ];
  let shown = 0;
  for (const path of pages) {
    const response = await reader.show(path);
    const page = await response.text();
    // A control sends its value back as it is.
    const text = page.replaceAll(/(?<=value=")[^"]*|(?<=<textarea[^>]*>)[^<]*/g, '');
    assert.equal(response.status, 200, path);
    assert.equal(
      EFFECTIVE.exec(text)?.[0],
      undefined,
      `${path}: ${text.slice(text.search(EFFECTIVE) - 200).slice(0, 250)}`,
    );
    if (text.includes('\ufffdgpj.exe')) shown += 1;
  }
  assert.ok(shown >= 9, `${shown} pages show a name`);
});

test('a text is shown without control characters in content and attributes, and kept in controls', () => {
  const page = render(html`<p title="${HOSTILE}">${[HOSTILE, html`${HOSTILE}`]}</p>`);
  assert.doesNotMatch(page, EFFECTIVE);
  const control = render(html`<input value="${HOSTILE}" /><textarea>${kept(`<${HOSTILE}`)}</textarea>`);
  assert.deepEqual(control, `<input value="${HOSTILE}" /><textarea>&lt;${HOSTILE}</textarea>`);
});

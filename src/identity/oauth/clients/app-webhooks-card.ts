/** The section of an app's page about its webhooks in all stores: whether they work, and what fails. */
import { badge } from '#hypermedia/html/property-values.ts';
import type { Tone } from '#hypermedia/html/words.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { Client } from './clients-sql.ts';
import { WEBHOOKS_READ_MAX, type AppWebhook, type Errors } from '../webhooks-of-apps-sql.ts';
import { pathOf } from './client-form.ts';

const STATES: Readonly<Record<AppWebhook['state'], readonly [words: string, tone: Tone]>> = {
  delivering: ['Delivering', 'fine'],
  failing: ['Failing', 'broken'],
  disabled: ['Disabled', 'plain'],
};

const SHOWN_MAX = 50;
const STATE_ORDER: readonly AppWebhook['state'][] = ['failing', 'delivering', 'disabled'];

/**
 * Returns the webhooks of the stores whose name contains the search, in any case: failing ones first, then those with the most failed
 * attempts; at most `SHOWN_MAX`.
 */
function findAppWebhooks(webhooks: readonly AppWebhook[], search: string): AppWebhook[] {
  const wanted = search.toLowerCase();
  return webhooks
    .filter(({ storeName }) => storeName.toLowerCase().includes(wanted))
    .toSorted(
      (a, b) =>
        STATE_ORDER.indexOf(a.state) - STATE_ORDER.indexOf(b.state) ||
        b.failed - a.failed ||
        a.storeName.localeCompare(b.storeName, 'en') ||
        a.id - b.id,
    )
    .slice(0, SHOWN_MAX);
}

const formatted = (count: number): string => count.toLocaleString('en');

const count = (number: number, one: string, more: string): string =>
  number === 1 ? `1 ${one}` : `${formatted(number)} ${more}`;

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0);

function summaryOf(webhooks: readonly AppWebhook[]): string {
  const stores = new Set(webhooks.map(({ storeId }) => storeId)).size;
  const places = `${count(webhooks.length, 'webhook', 'webhooks')} in ${count(stores, 'store', 'stores')}`;
  const isCut = webhooks.length >= WEBHOOKS_READ_MAX ? ' (no others are counted)' : '';
  const failing = webhooks.filter(({ state }) => state === 'failing').length;
  const state = failing === 0 ? 'none is failing' : `${formatted(failing)} ${failing === 1 ? 'is' : 'are'} failing`;
  const delivered = sumOf(webhooks.map((webhook) => webhook.delivered));
  const attempts = delivered + sumOf(webhooks.map(({ failed }) => failed));
  const success =
    attempts === 0
      ? 'No attempts in the last 24 hours.'
      : `${formatted(delivered)} of ${count(attempts, 'attempt', 'attempts')} in the last 24 hours succeeded.`;
  return `${places}${isCut}: ${state}. ${success}`;
}

function row({ storeName, name, state, delivered, failed }: AppWebhook, error: string | undefined): Markup {
  const [words, tone] = STATES[state];
  return html`<tr>
    <th scope="row">${storeName}</th>
    <td>${name}</td>
    <td>${badge(words, tone)}</td>
    <td class="number">${formatted(delivered)}</td>
    <td class="number">${formatted(failed)}</td>
    <td>${error !== undefined && html`<code>${error}</code>`}</td>
  </tr>`;
}

const list = (found: readonly AppWebhook[], errorOf: (webhook: AppWebhook) => string | undefined): Markup =>
  found.length === 0
    ? html`<p class="soft">No store with this name has a webhook of the app.</p>`
    : html`<section class="table" tabindex="0" aria-label="Webhooks of the app">
        <table>
          <thead>
            <tr>
              <th scope="col">Store</th>
              <th scope="col">Webhook</th>
              <th scope="col">State</th>
              <th scope="col" class="number">Delivered</th>
              <th scope="col" class="number">Failed</th>
              <th scope="col">Most frequent error</th>
            </tr>
          </thead>
          <tbody>
            ${found.map((webhook) => row(webhook, errorOf(webhook)))}
          </tbody>
        </table>
      </section>`;

/** Renders the section; `search`: the part of the name of a store that was searched for. */
export function appWebhooksCard(
  { root, client }: { root: string; client: Client },
  webhooks: readonly AppWebhook[],
  { all, ofWebhook }: { all: Errors; ofWebhook: ReadonlyMap<number, string> },
  search: string,
): Markup {
  if (webhooks.length === 0)
    return html`<div class="card">
      <h2>Webhooks in all stores</h2>
      <p class="soft">The app has created no webhooks yet. Here you will see whether they work in every store.</p>
    </div>`;
  return html`<div class="card">
    <h2>Webhooks in all stores</h2>
    <p>${summaryOf(webhooks)}</p>
    ${
      all.length > 0 &&
      html`<p class="soft">
        Failed attempts: ${all.map(({ outcome, attempts }) => html`<code>${outcome}</code> ${formatted(attempts)} `)}
      </p>`
    }
    <form class="filter" method="get" action="${pathOf(root, client.clientId)}" role="search" aria-label="Stores">
      <div class="field">
        <label for="store-name">Store</label>
        <input type="text" id="store-name" name="store" value="${search}" maxlength="100" />
      </div>
      <button type="submit" class="quiet">Find</button>
      ${search !== '' && html`<a href="${pathOf(root, client.clientId)}">Show all</a>`}
    </form>
    ${list(findAppWebhooks(webhooks, search), ({ id }) => ofWebhook.get(id))}
  </div>`;
}

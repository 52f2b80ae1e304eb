/** The overview of a store: whether its webhooks deliver, those that need attention with what to do, and the charts of a period. */
import type { Document, Naming } from '#hypermedia/document.ts';
import { chartsOf } from '#hypermedia/html/chart/chart.ts';
import { hrefOf, linkTo } from '#hypermedia/html/links.ts';
import { renderDesigned } from '#hypermedia/html/page.ts';
import { addressWith, parseAddress } from '#hypermedia/html/search.ts';
import { badge, cellValue } from '#hypermedia/html/values.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDateOf } from '#hypermedia/shown-date.ts';
import type { View } from '#hypermedia/view.ts';
import {
  countWords,
  healthOf,
  isDisabledByPerson,
  needsAttention,
  nextWords,
  reasonOf,
  remedyOf,
  responseTime,
  stateWords,
  type ShownHealth,
} from './health.ts';

/** The number up to which the overview counts the pending deliveries of a webhook. */
const PENDING_COUNTED_MAX = 1_000;

/** The periods of the API, with their labels and their words in a sentence. */
const PERIODS = [
  ['24h', '24 hours', 'the last 24 hours'],
  ['7d', '7 days', 'the last 7 days'],
  ['30d', '30 days', 'the last 30 days'],
] as const;

type Stated = Pick<ShownHealth, 'state' | 'isActive' | 'inactiveReason' | 'delivered'>;

/** Returns one sentence about the state of all webhooks. */
export function stateSentence(healths: readonly Stated[]): string {
  const total = healths.length;
  const attention = healths.filter(needsAttention).length;
  const disabled = healths.filter(isDisabledByPerson).length;
  const working = total - attention - disabled;
  const needs = attention === 1 ? 'needs' : 'need';
  if (attention > 0)
    return total === 1 ? 'Your webhook needs attention.' : `${attention} of ${total} webhooks ${needs} attention.`;
  if (working === 0) return total === 1 ? 'Your webhook is disabled.' : `All ${total} webhooks are disabled.`;
  const isUsed = healths.some(({ delivered }) => delivered > 0);
  const many = disabled === 0 && working > 1 ? `All ${working} webhooks` : `${working} webhooks`;
  const subject = working === 1 ? (total === 1 ? 'Your webhook' : '1 webhook') : many;
  const verb = isUsed ? (working === 1 ? 'delivers' : 'deliver') : working === 1 ? 'is ready' : 'are ready';
  const rest = disabled === 0 ? '' : disabled === 1 ? ', 1 is disabled' : `, ${disabled} are disabled`;
  return `${subject} ${verb}${rest}.`;
}

const waiting = (pending: number): string =>
  `${countWords(pending, PENDING_COUNTED_MAX)} ${pending === 1 ? 'delivery waits' : 'deliveries wait'}`;

/** Renders a webhook that needs attention. */
function concern(health: ShownHealth, { now, period }: { now: Date; period: string }): Markup {
  const { name, href, attempts, failingSince, pausedUntil, pending, successRate, trend } = health;
  const [state, tone] = stateWords(health);
  const [label, to] = remedyOf(health);
  const next = nextWords(health, now);
  const facts = [
    failingSince !== null && html`Failing since ${shownDateOf(failingSince)}`,
    pausedUntil !== null && html`Paused until ${shownDateOf(pausedUntil)}`,
    pending > 0 && waiting(pending),
    next !== undefined && `Next attempt ${next}`,
  ].filter((fact) => fact !== false);
  return html`<li class="concern">
    <div>
      <h2><a href="${href}">${name}</a> ${badge(state, tone)}</h2>
      <p>${reasonOf(health)}</p>
      ${facts.length > 0 && html`<p class="soft facts">${facts.map((fact) => html`<span>${fact}</span> `)}</p>`}
      ${
        trend !== undefined &&
        successRate !== null &&
        html`<p class="soft">
          ${cellValue(trend)} ${successRate} % of ${attempts === 1 ? '1 attempt' : `${countWords(attempts)} attempts`}
          succeeded in ${period}
        </p>`
      }
    </div>
    <a class="button" href="${to}">${label}<span class="unseen">: ${name}</span></a>
  </li>`;
}

function row(health: ShownHealth): Markup {
  const { name, href, successRate, medianMs, pending, trend } = health;
  const [words, tone] = stateWords(health);
  return html`<tr>
    <th scope="row"><a href="${href}">${name}</a></th>
    <td>${badge(words, tone)}</td>
    <td>
      ${
        successRate === null || trend === undefined
          ? html`<span class="soft">No attempts</span>`
          : html`<span class="roomy">${cellValue(trend)}</span> ${successRate} %`
      }
    </td>
    <td class="number roomy">${responseTime(medianMs)}</td>
    <td class="number roomy">${pending === 0 ? '–' : countWords(pending, PENDING_COUNTED_MAX)}</td>
  </tr>`;
}

const table = (healths: readonly ShownHealth[], heading: string): Markup =>
  html`<div class="card">
    <h2>${heading}</h2>
    <section class="table" tabindex="0" aria-label="${heading}">
      <table>
        <thead>
          <tr>
            <th scope="col">Webhook</th>
            <th scope="col">State</th>
            <th scope="col">Success</th>
            <th scope="col" class="number roomy">Median response</th>
            <th scope="col" class="number roomy">Waiting</th>
          </tr>
        </thead>
        <tbody>
          ${healths.map(row)}
        </tbody>
      </table>
    </section>
  </div>`;

function periods(document: Document, naming: Naming, current: string): Markup {
  const { path } = parseAddress(document, naming);
  return html`<nav class="states" aria-label="Period of the statistics">
    ${PERIODS.map(
      ([value, label]) =>
        html`<a
          href="${addressWith(path, value === '24h' ? [] : [['period', value]])}"
          ${value === current && html`aria-current="page"`}
          >${label}</a
        >`,
    )}
  </nav>`;
}

const empty = (webhooks: string): Markup =>
  html`<div class="card welcome">
    <h1>Send your first event</h1>
    <p>
      A webhook sends each event of this store, such as a new order, to a URL of your choice. You see here whether the
      deliveries arrive, and what to do if they do not.
    </p>
    <p><a class="button" href="${webhooks}">Create a webhook</a></p>
  </div>`;

/** Renders the overview of a store. */
export function overviewPage({
  document,
  naming,
  view,
  now,
}: {
  document: Document;
  naming: Naming;
  view: View;
  now: Date;
}): string {
  const healths = (document.embedded[0]?.documents ?? []).map((one) => healthOf(one, naming));
  if (healths.length === 0) {
    const webhooks = hrefOf(linkTo(document, 'webhooks')?.href ?? '', naming) ?? '';
    return renderDesigned({ document, naming, view, main: empty(webhooks) });
  }
  const concerns = healths.filter(needsAttention);
  const [disabled, working] = [healths.filter(isDisabledByPerson), healths.filter(({ state }) => state === 'ok')];
  const others = [...working, ...disabled];
  const current = document.properties.find(({ name }) => name === 'period')?.value;
  const shown = PERIODS.find(([value]) => value === current);
  if (shown === undefined) throw new TypeError('The overview has no period');
  const [value, , period] = shown;
  const main = html`<div class="card">
      <h1 class="${concerns.length === 0 ? 'state fine' : 'state broken'}">${stateSentence(healths)}</h1>
      ${
        concerns.length > 0 &&
        html`<ul class="concerns">
          ${concerns.map((health) => concern(health, { now, period }))}
        </ul>`
      }
    </div>
    ${others.length > 0 && table(others, concerns.length > 0 ? 'Other webhooks' : 'Webhooks')}
    <div class="card">
      <h2>All webhooks</h2>
      ${periods(document, naming, value)} ${chartsOf(view.charts)}
    </div>`;
  return renderDesigned({ document, naming, view, main });
}

/** The overview of a store: whether its webhooks deliver, those that need attention with what to do, and the charts of a period. */
import type { ShownDocument } from '#http/services.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { chartsOf } from '#hypermedia/html/charts.ts';
import { dataTable } from '#hypermedia/html/data-table.ts';
import { hrefOf, addressWith } from '#hypermedia/html/links.ts';
import { renderDesigned } from '#hypermedia/html/document-page.ts';
import { parseAddress } from '#hypermedia/html/search-form.ts';
import { badge, cellValue } from '#hypermedia/html/property-values.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { liveAttribute } from '#hypermedia/shell.ts';
import { shownDateOf } from '#hypermedia/shown-date.ts';
import {
  countWords,
  isDisabledByPerson,
  notArrivedWords,
  needsAttention,
  nextWords,
  reasonOf,
  remedyOf,
  responseTime,
  sendNotArrived,
  stateCell,
  stateWords,
} from './health-words.ts';
import { DEFAULT_PERIOD, PERIODS } from '#webhooks/health/figures.ts';
import { overviewView, type HealthView } from '#webhooks/health/health-document.ts';

/** The number up to which the overview counts the pending deliveries of a webhook. */
const PENDING_COUNTED_MAX = 1_000;

type Stated = Pick<HealthView, 'state' | 'isActive' | 'inactiveReason' | 'lastAttempt' | 'notArrived'>;

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
  const isUsed = healths.some(({ lastAttempt }) => lastAttempt === 'delivered');
  const many = disabled === 0 && working > 1 ? `All ${working} webhooks` : `${working} webhooks`;
  const subject = working === 1 ? (total === 1 ? 'Your webhook' : '1 webhook') : many;
  const verb = isUsed ? (working === 1 ? 'delivers' : 'deliver') : working === 1 ? 'is ready' : 'are ready';
  const rest = disabled === 0 ? '' : disabled === 1 ? ', 1 is disabled' : `, ${disabled} are disabled`;
  return `${subject} ${verb}${rest}.`;
}

const waiting = (pending: number): string =>
  `${countWords(pending, PENDING_COUNTED_MAX)} ${pending === 1 ? 'delivery waits' : 'deliveries wait'}`;

/** Renders a webhook that needs attention. */
function concern(health: HealthView, { shown, period }: { shown: ShownDocument; period: string }): Markup {
  const { naming, now } = shown;
  const {
    name,
    address,
    attempts,
    failingSince,
    notArrived,
    pausedUntil,
    pending,
    retrying,
    state: kind,
    successRate,
    trend,
  } = health;
  const [state, tone] = stateWords(health);
  const [label, to] = remedyOf(health, naming);
  const next = nextWords(health, now);
  const facts = [
    notArrived > 0 && kind !== 'ok' && notArrivedWords(notArrived),
    failingSince !== null && html`Failing since ${shownDateOf(failingSince)}`,
    pausedUntil !== null && html`Paused until ${shownDateOf(pausedUntil)}`,
    pending > 0 && waiting(pending),
    kind === 'failing' &&
      retrying > 0 &&
      retrying < pending &&
      `${countWords(retrying, PENDING_COUNTED_MAX)} of them after a failed attempt`,
    next !== undefined && html`Next attempt ${next}`,
  ].filter((fact) => fact !== false);
  return html`<li class="concern">
    <div>
      <h2><a href="${hrefOf(address, naming)}">${name}</a> ${badge(state, tone)}</h2>
      <p>${reasonOf(health)}</p>
      ${facts.length > 0 && html`<p class="soft facts">${facts.map((fact) => html`<span>${fact}</span> `)}</p>`}
      ${
        successRate !== null &&
        html`<p class="soft">
          ${cellValue(trend)} ${successRate} % of ${attempts === 1 ? '1 attempt' : `${countWords(attempts)} attempts`}
          succeeded in ${period}
        </p>`
      }
    </div>
    <div class="actions">
      ${kind === 'ok' && sendNotArrived(health, shown)}
      <a class="button" href="${to}">${label}<span class="unseen">: ${name}</span></a>
    </div>
  </li>`;
}

const COLUMNS = [
  { name: 'Webhook' },
  { name: 'State' },
  { name: 'Success' },
  { name: 'Median response', kind: 'number roomy' },
  { name: 'Waiting', kind: 'number roomy' },
] as const;

const cellsOf = ({ naming }: ShownDocument, health: HealthView): Markup[] => {
  const { name, address, successRate, medianMs, pending, trend } = health;
  return [
    html`<a href="${hrefOf(address, naming)}">${name}</a>`,
    stateCell(health, naming),
    successRate === null
      ? html`<span class="soft">No attempts</span>`
      : html`<span class="roomy">${cellValue(trend)}</span> ${successRate} %`,
    html`${responseTime(medianMs)}`,
    html`${pending === 0 ? '–' : countWords(pending, PENDING_COUNTED_MAX)}`,
  ];
};

const table = (healths: readonly HealthView[], heading: string, shown: ShownDocument): Markup =>
  html`<div class="card">
    <h2>${heading}</h2>
    ${dataTable(
      heading,
      COLUMNS,
      healths.map((health) => cellsOf(shown, health)),
      { hasRowHeadings: true },
    )}
  </div>`;

function periods(document: Document, naming: Naming, current: string): Markup {
  const { path } = parseAddress(document, naming);
  return html`<nav class="states" aria-label="Period of the statistics">
    ${Object.entries(PERIODS).map(
      ([value, { label }]) =>
        html`<a
          href="${addressWith(path, value === DEFAULT_PERIOD ? [] : [['period', value]])}"
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

/** Renders the overview of a store; undefined for a document without its view. */
export function overviewPage(shown: ShownDocument): string | undefined {
  const { document, naming, view } = shown;
  const overview = overviewView.of(document);
  if (overview === undefined) return undefined;
  const { healths, webhooks } = overview;
  if (healths.length === 0)
    return renderDesigned({ document, naming, view, main: empty(hrefOf(webhooks, naming) ?? '') });
  const concerns = healths.filter(needsAttention);
  const rest = healths.filter((health) => !needsAttention(health));
  const [disabled, working] = [rest.filter(isDisabledByPerson), rest.filter(({ state }) => state === 'ok')];
  const others = [...working, ...disabled];
  const total = concerns.reduce((sum, { notArrived }) => sum + notArrived, 0);
  const period = PERIODS[overview.period].words;
  const live = liveAttribute(view.liveAddress);
  const main = html`<div class="card" ${live}>
      <h1 class="${concerns.length === 0 ? 'state fine' : 'state broken'}">
        ${total > 0 ? `${notArrivedWords(total)}.` : stateSentence(healths)}
      </h1>
      ${total > 0 && html`<p>${stateSentence(healths)}</p>`}
      ${
        concerns.length > 0 &&
        html`<ul class="concerns">
          ${concerns.map((health) => concern(health, { shown, period }))}
        </ul>`
      }
    </div>
    <div ${live}>
      ${others.length > 0 && table(others, concerns.length > 0 ? 'Other webhooks' : 'Webhooks', shown)}
      <div class="card">
        <h2>All webhooks</h2>
        ${periods(document, naming, overview.period)} ${chartsOf(view.charts)}
      </div>
    </div>`;
  return renderDesigned({ document, naming, view, main });
}

/** The page of a webhook: its state and numbers, the actions of its document where their buttons are, and its settings. */
import type { Action, Document, Naming, Property, Value } from '#hypermedia/document.ts';
import { chartsOf } from '#hypermedia/html/chart/chart.ts';
import { fixedForm, refusedAlert, shownForms, type ShownForm } from '#hypermedia/html/form.ts';
import { crumbs, hrefOf, linkTo } from '#hypermedia/html/links.ts';
import { adviceOf, renderDesigned } from '#hypermedia/html/page.ts';
import { plainText } from '#hypermedia/html/structured.ts';
import { badge, isTrue, isUnset, shownValue, stateBadge } from '#hypermedia/html/values.ts';
import { labelOf, phraseOf } from '#hypermedia/html/words.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { momentOf } from '#hypermedia/shown-date.ts';
import type { View } from '#hypermedia/view.ts';
import { countWords, healthOf, nextWords, responseTime, stateWords, type ShownHealth } from './health.ts';

type Shown = { document: Document; naming: Naming; view: View; now: Date };

/** The number up to which the health of a webhook counts its pending deliveries. */
const PENDING_COUNTED_MAX = 10_000;

const NEEDED = ['id', 'name', 'url', 'state', 'is_active', 'is_held', 'event_resource', 'events', 'date_created'];

/** Returns whether the document has all properties that the page needs; `fields` may have removed some. */
export function isWholeWebhook({ properties }: Document): boolean {
  const names = new Set(properties.map(({ name }) => name));
  return NEEDED.every((name) => names.has(name));
}

type Properties = ReadonlyMap<string, Property>;

const isActive = (properties: Properties): boolean => isTrue(properties.get('is_active')?.value ?? null);

function stateOf(properties: Properties, health: ShownHealth | undefined): Markup {
  return health === undefined
    ? stateBadge(plainText(properties.get('state')?.value ?? ''))
    : badge(...stateWords(health));
}

/** Labels of buttons, by the name of the action. An action without one has its form at the end of the page. */
const BUTTONS: Readonly<Record<string, string>> = {
  test: 'Send test',
  retry_pending: 'Retry now',
  change: 'Edit',
  rotate_key: 'Rotate key',
  recover: 'Recover',
};

const DELETE = 'delete';

/** Renders a form that is shown while the address names it, or open if it was rejected. */
const panel = (
  { id, title, isOpen = false }: { id: string; title: string; isOpen?: boolean },
  content: Markup | false,
): Markup =>
  html`<section class="${isOpen ? 'panel open' : 'panel'}" id="${id}" aria-labelledby="${id}-title">
    <h2 id="${id}-title">${title}</h2>
    ${!isOpen && html`<a class="close" href="#main">Close</a>`} ${content}
  </section>`;

const formPanel = ({ action, form, isRefused }: ShownForm): Markup =>
  panel({ id: action.name, title: action.title, isOpen: isRefused }, form);

const opener = (id: string, label: string): Markup => html`<a class="button quiet" href="#${id}">${label}</a>`;

/** Returns what disabling does to the pending deliveries. */
function lossWords(health: ShownHealth | undefined): string {
  if (health === undefined || health.pending === 0) return '';
  const { pending } = health;
  return `${countWords(pending, PENDING_COUNTED_MAX)} pending ${pending === 1 ? 'delivery fails' : 'deliveries fail'}.`;
}

type Switch = { button: Markup; panel: Markup | false };

/** Returns the button that enables the webhook, or the one that opens the confirmation to disable it. */
function switchOf(shown: Shown, change: Action, health: ShownHealth | undefined): Switch {
  const properties = new Map(shown.document.properties.map((property) => [property.name, property]));
  if (!isActive(properties)) {
    const button = html`<button type="submit">Enable</button>`;
    return {
      button: html`<div id="enable">${fixedForm(change, { values: { is_active: '1' }, button }, shown)}</div>`,
      panel: false,
    };
  }
  const button = html`<div class="buttons"><button type="submit" class="danger">Disable this webhook</button></div>`;
  return {
    button: opener('disable', 'Disable'),
    panel: panel(
      { id: 'disable', title: 'Disable this webhook' },
      html`<p>
          Nothing is sent until you enable it again. ${lossWords(health)} Events of the meantime are not sent
          automatically: recover them afterwards.
        </p>
        ${fixedForm(change, { values: { is_active: '0' }, button }, shown)}`,
    ),
  };
}

/** Renders the buttons, and the forms that they open. */
function actions(shown: Shown, forms: readonly ShownForm[], health: ShownHealth | undefined) {
  const change = forms.find(({ action }) => action.name === 'change')?.action;
  const toggle = change && switchOf(shown, change, health);
  const top = Object.entries(BUTTONS).flatMap(([name, label]) => {
    const found = forms.find(({ action }) => action.name === name);
    const isIdle = name === 'retry_pending' && health?.pending === 0;
    return found === undefined || isIdle ? [] : [{ ...found, label }];
  });
  return {
    buttons: html`${top.map(({ action, label, isButton }) => {
      const button = html`<button type="submit" class="quiet">${label}</button>`;
      return isButton ? fixedForm(action, { values: {}, button }, shown) : opener(action.name, label);
    })}
    ${toggle?.button}`,
    panels: html`${top.filter(({ isButton }) => !isButton).map(formPanel)} ${toggle?.panel}`,
  };
}

const figure = (label: string, value: Markup | string, note?: Markup | string | false): Markup =>
  html`<div>
    <dt>${label}</dt>
    <dd>${value}</dd>
    ${note !== undefined && note !== false && html`<dd class="soft">${note}</dd>`}
  </div>`;

const moment = (written: string): Markup => html`<time datetime="${written}">${momentOf(written)}</time>`;

/** Renders since when the webhook is in its state, as far as it is known. */
function sinceFigure(health: ShownHealth): Markup {
  const { failingSince, pausedUntil, lastFailure } = health;
  if (failingSince !== null) return figure('Failing since', moment(failingSince));
  if (pausedUntil !== null) return figure('Paused until', moment(pausedUntil));
  return lastFailure === null
    ? figure('Last failed attempt', 'None', 'in 24 hours')
    : figure('Last failed attempt', moment(lastFailure));
}

/** Renders the current numbers of the webhook. */
function summary(health: ShownHealth, now: Date): Markup {
  const { attempts, delivered, successRate, medianMs, slowMs, pending, oldestPending } = health;
  const isAsked = attempts > 0;
  return html`<dl class="figures strip">
    ${sinceFigure(health)}
    ${figure(
      'Success rate',
      successRate === null ? '–' : `${successRate} %`,
      isAsked ? `${countWords(delivered)} of ${countWords(attempts)} in 24 h` : 'No attempts in 24 hours',
    )}
    ${figure('Median response', responseTime(medianMs), slowMs !== null && `p95 ${responseTime(slowMs)}`)}
    ${figure(
      'Pending',
      countWords(pending, PENDING_COUNTED_MAX),
      oldestPending !== null && html`since ${moment(oldestPending)}`,
    )}
    ${figure('Next attempt', nextWords(health, now) ?? 'None')}
  </dl>`;
}

/** Renders the kinds of failures of the last 24 hours, each with a link to its attempts. */
function failures(health: Document, naming: Naming): Markup | false {
  const documents = health.embedded.flatMap((embedded) => (embedded.rel === 'failures' ? embedded.documents : []));
  const rows = documents.map((failure) => {
    const values = new Map(failure.properties.map(({ name, value }) => [name, plainText(value)]));
    const href = hrefOf(linkTo(failure, 'logs')?.href ?? '', naming) ?? '';
    const [reason, outcome, last] = ['reason', 'outcome', 'date_last'].map((name) => values.get(name) ?? '');
    return html`<tr>
      <td>${reason === undefined || reason === '' ? phraseOf(outcome ?? '') : reason}</td>
      <td class="number">
        <a href="${href}"
          >${values.get('attempts') ?? ''}<span class="unseen"> attempts: ${phraseOf(outcome ?? '')}</span></a
        >
      </td>
      <td>${moment(last ?? '')}</td>
    </tr>`;
  });
  const heading = 'Failed attempts in the last 24 hours';
  return (
    rows.length > 0 &&
    html`<h2>${heading}</h2>
      <section class="table" tabindex="0" aria-label="${heading}">
        <table>
          <thead>
            <tr>
              <th scope="col">Reason</th>
              <th scope="col" class="number">Attempts</th>
              <th scope="col">Last</th>
            </tr>
          </thead>
          <tbody>
            ${rows}
          </tbody>
        </table>
      </section>`
  );
}

function tabs(document: Document, naming: Naming): Markup {
  const links = [
    ['statuses', 'Deliveries'],
    ['logs', 'Attempts'],
    ['recoveries', 'Recoveries'],
  ].flatMap(([rel = '', label]) => {
    const href = hrefOf(linkTo(document, rel)?.href ?? '', naming);
    return href === undefined ? [] : [html`<a href="${href}">${label}</a>`];
  });
  const self = hrefOf(linkTo(document, 'self')?.href ?? '', naming) ?? '';
  return html`<nav class="states" aria-label="This webhook">
    <a href="${self}" aria-current="page">Overview</a>${links}<a href="#settings">Settings</a>
  </nav>`;
}

const setting = (label: string, value: Markup | string | false): Markup | false =>
  value !== false &&
  html`<dt>${label}</dt>
    <dd>${value}</dd>`;

/** Renders the key; readers without the right to it do not learn whether there is one. */
/** Returns whether the property has a value, also if it is withheld until the reader proves who they are. */
const hasValue = ({ value, confirmAt }: Property): boolean => confirmAt !== undefined || !isUnset(value);

function keyOf(property: Property | undefined, canSee: boolean): Markup | string | false {
  if (property === undefined) return false;
  if (hasValue(property)) return shownValue(property);
  return canSee ? 'None' : html`<span class="soft">Shown only to the owner of the store</span>`;
}

function eventList(events: Value | undefined): Markup {
  const names = Array.isArray(events) ? events.map(plainText) : [];
  if (names.length === 0) return html`<span class="soft">None yet</span>`;
  return html`<ul class="values side">
    ${names.map((name) => html`<li><code>${name}</code></li>`)}
  </ul>`;
}

/** How long deliveries are retried, by retry profile. */
const RETRIES: Readonly<Record<string, string>> = { hour: 'For about an hour', long: 'For about three days' };

/** Renders the filter, with a link to the resources that pass it. */
function filterOf(document: Document, filter: Markup | string | false, naming: Naming): Markup | string | false {
  const href = hrefOf(linkTo(document, 'passing')?.href ?? '', naming);
  return filter !== false && href !== undefined ? html`${filter} <a href="${href}">Show what passes</a>` : filter;
}

/** Properties with a place of their own on the page, or not shown; `settings` lists all others by their names. */
const PLACED = new Set(
  (
    'id name format version url query filter encryption_key next_encryption_key rotation_ends event_resource events is_active ' +
    'inactive_reason is_held headers rate_per_second retry_profile ordering state reason date_created date_modified'
  ).split(' '),
);

/** Renders the settings without those that are not set. */
function settings(document: Document, naming: Naming): Markup {
  const properties = new Map(document.properties.map((property) => [property.name, property]));
  const shown = (name: string): Markup | string | false => {
    const property = properties.get(name);
    return property !== undefined && hasValue(property) && shownValue(property);
  };
  const text = (name: string): string | undefined => {
    const value = properties.get(name)?.value;
    return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
  };
  const [format, version, rate, profile] = ['format', 'version', 'rate_per_second', 'retry_profile'].map(text);
  const headers = properties.get('headers')?.value;
  const hasHeaders = typeof headers === 'object' && headers !== null && Object.keys(headers).length > 0;
  const canSee = linkTo(document, 'rotate_key') !== undefined;
  const isHeld = isTrue(properties.get('is_held')?.value ?? null);
  const others = document.properties.map(({ name }) => !PLACED.has(name) && setting(labelOf(name), shown(name)));
  return html`<dl>
    ${setting('URL', isHeld ? 'None: a listener fetches the deliveries' : shown('url') || html`<span class="soft">None yet</span>`)}
    ${setting('Events', eventList(properties.get('events')?.value))}
    ${setting('Format', format !== undefined && `${phraseOf(format)}${version === undefined ? '' : `, version ${version}`}`)}
    ${setting('Query', shown('query'))} ${setting('Filter', filterOf(document, shown('filter'), naming))}
    ${setting('Headers', hasHeaders && shown('headers'))}
    ${setting('Encryption key', keyOf(properties.get('encryption_key'), canSee))}
    ${setting('Next encryption key', shown('next_encryption_key'))} ${setting('Rotation ends', shown('rotation_ends'))}
    ${setting('Rate limit', rate === undefined ? 'None' : `${rate} per second`)}
    ${setting('Retries', profile !== undefined && (Object.hasOwn(RETRIES, profile) ? (RETRIES[profile] ?? '') : profile))}
    ${setting('Order', properties.get('ordering')?.value === 'resource' && 'Events of a resource one after the other')}${others}
    ${setting('Created', shown('date_created'))} ${setting('Last changed', shown('date_modified'))}
    ${setting('ID', shown('id'))}
  </dl>`;
}

/** Renders the page of a webhook. */
export function webhookPage(shown: Shown): string {
  const { document, naming, view, now } = shown;
  const properties = new Map(document.properties.map((property) => [property.name, property]));
  const health = view.summary && healthOf(view.summary, naming);
  const forms = shownForms(shown);
  const { buttons, panels } = actions(shown, forms, health);
  const removal = forms.find(({ action }) => action.name === DELETE);
  const others = forms.filter(({ action: { name } }) => !Object.hasOwn(BUTTONS, name) && name !== DELETE);
  const url = properties.get('url')?.value;
  const resource = properties.get('event_resource')?.value;
  const main = html`${refusedAlert(shown)}
    <div class="card">
      ${crumbs(document, naming)}
      <div class="head">
        <div class="title">
          <h1>${document.title ?? ''}</h1>
          ${stateOf(properties, health)}
        </div>
        <div class="actions">${buttons}</div>
      </div>
      <p class="soft">
        ${typeof resource === 'string' && html`${phraseOf(resource)} events`}
        ${typeof url === 'string' && url !== '' && html`to <code>${url}</code>`}
      </p>
      ${panels} ${adviceOf(view)} ${health && summary(health, now)} ${tabs(document, naming)} ${chartsOf(view.charts)}
      ${view.summary && failures(view.summary, naming)}
    </div>
    <div class="card" id="settings">
      <div class="head">
        <h2>Settings</h2>
        ${removal && html`<a class="button quiet danger" href="#${DELETE}">Delete</a>`}
      </div>
      ${removal && formPanel(removal)} ${settings(document, naming)}
    </div>
    ${others.map(({ action, form, isRefused, isButton }) =>
      isButton
        ? form
        : html`<details class="card" ${isRefused && html`open`}>
            <summary>${action.title}</summary>
            ${form}
          </details>`,
    )}`;
  return renderDesigned({ document, naming, view, main });
}

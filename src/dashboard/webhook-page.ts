/** The page of a webhook: its state and numbers, the actions of its document where their buttons are, and its settings. */
import type { ShownDocument } from '#http/services.ts';
import type { Action, Document, Naming, Property } from '#hypermedia/document.ts';
import { chartsOf } from '#hypermedia/html/charts.ts';
import { fixedForm, refusedAlert, shownForms, type ShownForm } from '#hypermedia/html/form.ts';
import { dataTable } from '#hypermedia/html/data-table.ts';
import { crumbs, hrefOf, linkTo, addressWith } from '#hypermedia/html/links.ts';
import { adviceOf, renderDesigned } from '#hypermedia/html/document-page.ts';
import { badge, isUnset, shownValue, stateBadge } from '#hypermedia/html/property-values.ts';
import { labelOf, phraseOf } from '#hypermedia/html/words.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { liveAttribute } from '#hypermedia/shell.ts';
import { shownMoment } from '#hypermedia/shown-date.ts';
import { healthView, type HealthView } from '#webhooks/health/health-document.ts';
import { webhookView, type WebhookView } from '#webhooks/webhook-document.ts';
import { countWords, notArrivedWords, nextWords, responseTime, sendNotArrived, stateWords } from './health-words.ts';

/** The number up to which the health of a webhook counts its pending deliveries. */
const PENDING_COUNTED_MAX = 10_000;

/** Labels of buttons, by the name of the action. An action without one has its form at the end of the page. */
const BUTTONS: Readonly<Record<string, string>> = {
  test: 'Send test',
  retry_pending: 'Retry now',
  change: 'Edit',
  rotate_key: 'Rotate key',
  recover: 'Recover',
};

/** What a suspended webhook refuses. */
const SENDING: ReadonlySet<string> = new Set(['test', 'retry_pending', 'recover']);

const DELETE = 'delete';
const ROTATE = 'rotate_key';

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

/** Returns the document with a form for another key, without the field that finishes a rotation; none while a rotation is active. */
function withoutFinish({ document, view }: ShownDocument, { rotationEnds }: WebhookView): Document {
  if (view.refused?.action === ROTATE) return document;
  const offered = document.actions?.flatMap((action) => {
    if (action.name !== ROTATE) return [action];
    return rotationEnds === null ? [{ ...action, fields: action.fields.filter(({ name }) => name !== 'finish') }] : [];
  });
  return { ...document, ...(offered && { actions: offered }) };
}

/** Renders the second key of a webhook, with the button that makes it the only one; false without a rotation. */
function rotation(shown: ShownDocument, { rotationEnds }: WebhookView): Markup | false {
  const action = shown.document.actions?.find(({ name }) => name === ROTATE);
  const key = shown.document.properties.find(({ name }) => name === 'next_encryption_key');
  if (rotationEnds === null || action === undefined || key === undefined) return false;
  const button = html`<button type="submit">Finish the rotation</button>`;
  return html`<div class="alert mild">
    <p>
      <strong>This webhook has a new key.</strong> Deliveries are signed with both keys until
      ${shownMoment(rotationEnds)}. Give the new key to the receiver, and finish the rotation.
    </p>
    <p>${shownValue(key)}</p>
    ${fixedForm(action, { values: { finish: '1' }, button }, shown)}
  </div>`;
}

/** Returns what disabling does to the pending deliveries. */
function lossWords(health: HealthView | undefined): string {
  if (health === undefined || health.pending === 0) return '';
  const { pending } = health;
  return `${countWords(pending, PENDING_COUNTED_MAX)} pending ${pending === 1 ? 'delivery fails' : 'deliveries fail'}.`;
}

type Numbers = { health: HealthView | undefined };
type Switch = { button: Markup | false; panel: Markup | false };

const isSuspended = (health: HealthView | undefined): boolean => health?.inactiveReason === 'suspended';

/** Returns the button that enables the webhook, or the one that opens the confirmation to disable it. A suspended one can only be kept disabled. */
function switchOf(
  shown: ShownDocument,
  change: Action,
  { isActive, health }: Numbers & Pick<WebhookView, 'isActive'>,
): Switch {
  if (isSuspended(health)) {
    const button = html`<button type="submit" class="quiet">Keep disabled after the suspension</button>`;
    return { button: fixedForm(change, { values: { is_active: '0' }, button }, shown), panel: false };
  }
  if (!isActive) {
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
function actions(shown: ShownDocument, forms: readonly ShownForm[], state: Numbers & Pick<WebhookView, 'isActive'>) {
  const change = forms.find(({ action }) => action.name === 'change')?.action;
  const toggle = change && switchOf(shown, change, state);
  const top = Object.entries(BUTTONS).flatMap(([name, label]) => {
    const found = forms.find(({ action }) => action.name === name);
    const isIdle =
      (name === 'retry_pending' && state.health?.pending === 0) || (SENDING.has(name) && isSuspended(state.health));
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

/** Renders since when the webhook is in its state, as far as it is known. */
function sinceFigure(health: HealthView): Markup {
  const { failingSince, pausedUntil } = health;
  const lastFailure = health.failures[0]?.dateLast;
  if (failingSince !== null) return figure('Failing since', shownMoment(failingSince));
  if (pausedUntil !== null) return figure('Paused until', shownMoment(pausedUntil));
  return lastFailure === undefined
    ? figure('Last failed attempt', 'None', 'in 24 hours')
    : figure('Last failed attempt', shownMoment(lastFailure));
}

/** Renders what did not arrive, with the button that sends it again. */
function notArrived(health: HealthView, shown: ShownDocument): Markup | false {
  const { notArrived: count, notArrivedSince, state } = health;
  if (count === 0 || notArrivedSince === null) return false;
  const advice = state === 'inactive' && !isSuspended(health) && ' Enable the webhook, and send them again.';
  return html`<div class="alert">
    <p><strong>${notArrivedWords(count)}</strong> since ${shownMoment(notArrivedSince)}.${advice}</p>
    ${sendNotArrived(health, shown)}
  </div>`;
}

/** Renders the current numbers of the webhook. */
function summary(health: HealthView, now: Date): Markup {
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
      oldestPending !== null && html`since ${shownMoment(oldestPending)}`,
    )}
    ${figure('Next attempt', nextWords(health, now) ?? 'None')}
  </dl>`;
}

/** Renders the kinds of failures of the last 24 hours, each with a link to its attempts. */
function failures(health: HealthView, naming: Naming): Markup | false {
  const rows = health.failures.map(({ outcome, reason, attempts, dateLast, logs }) => [
    reason ?? phraseOf(outcome),
    html`<a href="${hrefOf(logs, naming)}">${attempts}<span class="unseen"> attempts: ${phraseOf(outcome)}</span></a>`,
    shownMoment(dateLast),
  ]);
  const heading = 'Failed attempts in the last 24 hours';
  const columns = [{ name: 'Reason' }, { name: 'Attempts', kind: 'number' }, { name: 'Last' }] as const;
  return (
    rows.length > 0 &&
    html`<h2>${heading}</h2>
      ${dataTable(heading, columns, rows)}`
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

/** Returns whether the property has a value, also if it is withheld until the reader proves who they are. */
const hasValue = ({ value, confirmAt }: Property): boolean => confirmAt !== undefined || !isUnset(value);

/** Renders the key; readers without the right to it do not learn whether there is one. */
function keyOf(property: Property | undefined, canSee: boolean): Markup | string | false {
  if (property === undefined) return false;
  if (hasValue(property)) return shownValue(property);
  return canSee ? 'None' : html`<span class="soft">Shown only to the owner of the store</span>`;
}

function eventList(events: readonly string[]): Markup {
  if (events.length === 0) return html`<span class="soft">None yet</span>`;
  return html`<ul class="values side">
    ${events.map((name) => html`<li><code>${name}</code></li>`)}
  </ul>`;
}

/** How long deliveries are retried, by retry profile. */
const RETRIES: Readonly<Record<WebhookView['retryProfile'], string>> = {
  hour: 'For about an hour',
  long: 'For about three days',
};

/** Renders the filter, with a link to the resources that pass it. */
function filterOf(document: Document, filter: Markup | string | false, naming: Naming): Markup | string | false {
  const href = hrefOf(linkTo(document, 'passing')?.href ?? '', naming);
  return filter !== false && href !== undefined ? html`${filter} <a href="${href}">Show what passes</a>` : filter;
}

/** Properties with a place of their own on the page, or not shown; `settings` lists all others by their names. */
const PLACED = new Set(
  (
    'id name format version url query filter encryption_key next_encryption_key rotation_ends public_key next_public_key event_resource events is_active ' +
    'inactive_reason is_held headers rate_per_second retry_profile ordering state reason date_created date_modified'
  ).split(' '),
);

/** Renders the link to what the changelog of the store has about the webhook: who created, changed and disabled it. */
function changesLink(document: Document, naming: Naming): Markup | false {
  const store = linkTo(document, 'store')?.href;
  const id = document.properties.find(({ name }) => name === 'id')?.value;
  if (store === undefined || typeof id !== 'number') return false;
  const changes = addressWith(`${hrefOf(store, naming) ?? ''}/changelogs`, [
    ['resource', 'webhook'],
    ['resource_id', String(id)],
  ]);
  return html`<a href="${changes}">Who created, changed and disabled it</a>`;
}

/** Renders the settings without those that are not set. */
function settings(document: Document, webhook: WebhookView, naming: Naming): Markup {
  const { events, format, version, hasHeaders, isHeld, isRotatable, ordering, ratePerSecond, retryProfile } = webhook;
  const properties = new Map(document.properties.map((property) => [property.name, property]));
  const shown = (name: string): Markup | string | false => {
    const property = properties.get(name);
    return property !== undefined && hasValue(property) && shownValue(property);
  };
  const others = document.properties.map(({ name }) => !PLACED.has(name) && setting(labelOf(name), shown(name)));
  return html`<dl>
    ${setting('URL', isHeld ? 'None: a listener fetches the deliveries' : shown('url') || html`<span class="soft">None yet</span>`)}
    ${setting('Events', eventList(events))} ${setting('Format', `${phraseOf(format)}, version ${version}`)}
    ${setting('Query', shown('query'))} ${setting('Filter', filterOf(document, shown('filter'), naming))}
    ${setting('Headers', hasHeaders && shown('headers'))}
    ${setting('Encryption key', keyOf(properties.get('encryption_key'), isRotatable))}
    ${setting('Public key', shown('public_key'))} ${setting('Next public key', shown('next_public_key'))}
    ${setting('Next encryption key', shown('next_encryption_key'))} ${setting('Rotation ends', shown('rotation_ends'))}
    ${setting('Rate limit', ratePerSecond === null ? 'None' : `${ratePerSecond} per second`)}
    ${setting('Retries', RETRIES[retryProfile])}
    ${setting('Order', ordering === 'resource' && 'Events of a resource one after the other')}${others}
    ${setting('Created', shown('date_created'))} ${setting('Last changed', shown('date_modified'))}
    ${setting('Changes', changesLink(document, naming))} ${setting('ID', shown('id'))}
  </dl>`;
}

/** Renders the page of a webhook; undefined for a document of which `fields` has left properties out. */
export function webhookPage(shown: ShownDocument): string | undefined {
  const { document, naming, view, now } = shown;
  const webhook = webhookView.of(document);
  if (webhook === undefined) return undefined;
  const { url, eventResource, isActive, state } = webhook;
  const health = view.summary && healthView.of(view.summary);
  const forms = shownForms({ ...shown, document: withoutFinish(shown, webhook) });
  const { buttons, panels } = actions(shown, forms, { isActive, health });
  const removal = forms.find(({ action }) => action.name === DELETE);
  const others = forms.filter(({ action: { name } }) => !Object.hasOwn(BUTTONS, name) && name !== DELETE);
  const live = liveAttribute(view.liveAddress);
  const main = html`${refusedAlert(shown)}
    <div class="card">
      ${crumbs(document, naming)}
      <div class="head">
        <div class="title" ${live}>
          <h1>${document.title ?? ''}</h1>
          ${health === undefined ? stateBadge(state) : badge(...stateWords(health))}
        </div>
        <div class="actions">${buttons}</div>
      </div>
      <p class="soft">
        ${eventResource !== null && html`${phraseOf(eventResource)} events`}
        ${url !== null && html`to <code>${url}</code>`}
      </p>
      ${panels} ${rotation(shown, webhook)} ${adviceOf(view)}
      <div ${live}>${health && notArrived(health, shown)} ${health && summary(health, now)}</div>
      ${tabs(document, naming)}
      <div ${live}>${chartsOf(view.charts)} ${health && failures(health, naming)}</div>
    </div>
    <div class="card" id="settings">
      <div class="head">
        <h2>Settings</h2>
        ${removal && html`<a class="button quiet danger" href="#${DELETE}">Delete</a>`}
      </div>
      ${removal && formPanel(removal)} ${settings(document, webhook, naming)}
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

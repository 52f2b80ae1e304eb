/** The page of one delivery: what happened and what to do about it, its attempts with their responses, and its request. */
import { parseDate } from '#hypermedia/date.ts';
import type { Document, Naming, Value } from '#hypermedia/document.ts';
import { actionForms } from '#hypermedia/html/form.ts';
import { crumbs, hrefOf, linkRow, linkTo } from '#hypermedia/html/links.ts';
import { refreshNote, renderDesigned } from '#hypermedia/html/page.ts';
import { shownCode } from '#hypermedia/html/structured.ts';
import { badge, stateBadge } from '#hypermedia/html/values.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { exactDateOf, shownDateOf } from '#hypermedia/shown-date.ts';
import type { View } from '#hypermedia/view.ts';
import { harmless } from '#core/legible.ts';
import { bodyBlock, isJson } from './code.ts';
import { inShort, nextAttempt, stateOf } from './deliveries-page.ts';

// A shell command that repeats the request of a delivery, without its secrets.

type ShownRequest = {
  method: string;
  url: string;
  /** One `name: value` per line, in the order in which they are sent. */
  headers: string;
  body: string;
};

/** Returns the text as one word of a POSIX shell: between single quotes only a single quote has a meaning. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/**
 * The last header that Halcyon sends beside the secret ones: the additional headers of the webhook follow, then signatures or the
 * token of a platform (`delivery/attempt/request.ts`).
 */
const LAST_OPEN_HEADER = /^webhook-timestamp:/im;
/** Made by curl itself. */
const OF_CURL = /^(?:host|content-length|connection|accept-encoding):/i;

/** Returns the headers without additional ones, signatures and tokens. */
function openHeaders(headers: string): string[] {
  const lines = headers.split('\n');
  const last = lines.findIndex((line) => LAST_OPEN_HEADER.test(line));
  return lines.slice(0, last + 1).filter((line) => !OF_CURL.test(line));
}

/** Returns the argument of `--header`; curl sends an empty value only if a semicolon ends the name. */
const headerArgument = (line: string): string => line.replace(/^([^:]+):\s*$/, '$1;');

/** Returns the address without user, query and fragment, which may contain a token. */
function openUrl(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined;
  const { origin, pathname, protocol } = new URL(url);
  return /^https?:$/.test(protocol) ? origin + pathname : undefined;
}

/** Returns the code unit as JSON writes it in a string: `\u202e`. */
const escaped = (character: string): string => String.raw`\u` + character.charCodeAt(0).toString(16).padStart(4, '0');

/** Returns the body with characters that a page must not contain escaped; undefined if it is not JSON, where they cannot be escaped. */
function printable(body: string): string | undefined {
  if (harmless(body) === body) return body;
  const printed = Array.from(body, (character) => (harmless(character) === character ? character : escaped(character)));
  const text = printed.join('');
  return isJson(body) && isJson(text) ? text : undefined;
}

/** Returns the command; undefined if no command sends this request. */
export function curlCommand({ method, url, headers, body }: ShownRequest): string | undefined {
  const [target, data] = [openUrl(url), printable(body)];
  // An encrypted body is shown decrypted.
  if (target === undefined || data === undefined || /^content-type: application\/jose/im.test(headers))
    return undefined;
  const parts = [
    // Without --globoff, curl would expand brackets in the address.
    `curl --globoff --request ${method} ${shellWord(target)}`,
    ...openHeaders(headers).map((line) => `--header ${shellWord(headerArgument(line))}`),
    // --data would read a file if the body began with @.
    `--data-raw ${shellWord(data)}`,
  ];
  return parts.join(' \\\n  ');
}

type Values = ReadonlyMap<string, Value>;

const valuesOf = ({ properties }: Document): Values => new Map(properties.map(({ name, value }) => [name, value]));

function textIn(values: Values, name: string): string | null {
  const value = values.get(name);
  return typeof value === 'string' && value !== '' ? value : null;
}

function numberIn(values: Values, name: string): number | null {
  const value = values.get(name);
  return typeof value === 'number' ? value : null;
}

export type DeliveryState = {
  status: string;
  attempts: number;
  attemptsMax: number | null;
  reason: string | null;
  waitsFor: string | null;
  dateNext: string | null;
  dateEnded: string | null;
};

export type ShownDetails = {
  state: DeliveryState;
  /** Newest first. */
  attempts: readonly Document[];
  request: Document;
};

const NEEDED = ['status', 'attempts', 'attempts_max', 'reason', 'waits_for', 'date_next', 'date_ended'];

/** Returns the details in a document; undefined if it lacks a part that the page needs. */
export function detailsOf(document: Document): ShownDetails | undefined {
  const values = valuesOf(document);
  const [status, attempts] = [textIn(values, 'status'), numberIn(values, 'attempts')];
  const embedded = (rel: string) => document.embedded.find((one) => one.rel === rel)?.documents;
  const [logs, [request] = []] = [embedded('logs'), embedded('request')];
  if (NEEDED.some((name) => !values.has(name)) || status === null || attempts === null) return undefined;
  if (logs === undefined || request === undefined) return undefined;
  const [reason, waitsFor, dateNext, dateEnded] = ['reason', 'waits_for', 'date_next', 'date_ended'].map((name) =>
    textIn(values, name),
  ) as [string | null, string | null, string | null, string | null];
  return {
    state: { status, attempts, attemptsMax: numberIn(values, 'attempts_max'), reason, waitsFor, dateNext, dateEnded },
    attempts: logs.toReversed(),
    request,
  };
}

const counted = (attempts: number): string => (attempts === 1 ? '1 attempt' : `${attempts} attempts`);

/** Returns what happened to the delivery and what comes next, in a sentence. */
export function outcomeOf(state: DeliveryState, now: Date): Markup {
  const { status, attempts, attemptsMax, dateNext, dateEnded } = state;
  const at = dateEnded === null ? undefined : shownDateOf(dateEnded);
  if (status === 'successful')
    return html`Delivered ${at}, at ${attempts === 1 ? 'the first attempt' : `attempt ${attempts}`}.`;
  if (status === 'failed')
    return attempts === 0
      ? html`Failed ${at}, without an attempt.`
      : html`Failed ${at}, after ${counted(attempts)}. There are no more automatic attempts.`;
  const due = dateNext === null ? undefined : parseDate(dateNext);
  const next = nextAttempt({ status, attempts, attemptsMax, dateNext: due }, now);
  const isLater = dateNext !== null && due !== undefined && due > now;
  return isLater ? html`${next}: ${shownDateOf(dateNext)}.` : html`${next}.`;
}

/** Returns what a delivery waits for, unless its next date says so already. */
function waiting({ waitsFor }: DeliveryState): Markup | false {
  if (waitsFor === null || waitsFor.startsWith('The time of ')) return false;
  return html`<p class="soft">It waits for: ${waitsFor.charAt(0).toLowerCase()}${waitsFor.slice(1)}</p>`;
}

/** Renders the reason of a failure: what happened, emphasized, and the advice. */
function reasonText(reason: string): Markup {
  const short = inShort(reason);
  return html`<strong>${short}</strong>${reason.slice(short.length)}`;
}

/** Renders what identifies the delivery: its event, its date and its id. */
function facts(values: Values): Markup {
  const [event, created, id] = [textIn(values, 'event'), textIn(values, 'date_created'), numberIn(values, 'id')];
  return html`<p class="moment soft">
    ${event !== null && html`<span>${event}</span>`} <span>${shownDateOf(created ?? '')}</span>
    ${id !== null && html`<span>ID ${id}</span>`}
  </p>`;
}

/** Renders the response of an attempt, if there was one: its body, and its headers folded. */
function response(values: Values, attempt: string, isOpen: boolean): Markup | false {
  const code = numberIn(values, 'response_code');
  const [body, headers] = [textIn(values, 'response_body'), textIn(values, 'response_headers')];
  if (code === null && body === null && headers === null) return false;
  const unseen = html`<span class="unseen"> to ${attempt}</span>`;
  return html`<details class="fold" ${isOpen && html`open`}>
    <summary>Response${code !== null && ` ${code}`}${unseen}</summary>
    ${body === null && html`<p class="soft">No body is stored.</p>`}
    ${body !== null && (isOpen ? bodyBlock(body, { name: 'body' }) : shownCode(body))}
    ${
      headers !== null &&
      html`<details class="fold">
        <summary>Headers of the response${unseen}</summary>
        ${shownCode(headers)}
      </details>`
    }
  </details>`;
}

/** Renders an attempt; the response of the newest one is open if it failed. */
function attemptEntry(document: Document, at: number, shownReason: string | null): Markup {
  const values = valuesOf(document);
  const [outcome, reason, date] = ['outcome', 'reason', 'date_created'].map((name) => textIn(values, name));
  const [number, duration] = [numberIn(values, 'attempt'), numberIn(values, 'duration')];
  const called = `attempt ${number ?? ''}`;
  return html`<li>
    <p class="moment">
      <strong>Attempt ${number}</strong> ${stateBadge(outcome ?? 'unknown')}
      <span class="soft">${exactDateOf(date ?? '')}</span>
      ${duration !== null && html`<span class="soft">${duration} ms</span>`}
    </p>
    ${typeof reason === 'string' && reason !== shownReason && html`<p>${reason}</p>`}
    ${response(values, called, at === 0 && outcome !== 'delivered')}
  </li>`;
}

const attemptsCard = ({ attempts, state }: ShownDetails): Markup =>
  html`<div class="card">
    <h2>Attempts</h2>
    ${
      attempts.length === 0
        ? html`<p class="soft">None yet.</p>`
        : html`<ol class="timeline">
            ${attempts.map((attempt, at) => attemptEntry(attempt, at, state.reason))}
          </ol>`
    }
  </div>`;

/** Returns the size in the unit that a person would choose. */
const sizeOf = (bytes: number): string => (bytes < 1_000 ? `${bytes} bytes` : `${(bytes / 1_000).toFixed(1)} kB`);

/** Renders the command, or why there is none. */
function command(values: Values, body: string, isCut: boolean): Markup {
  const [method, url, headers] = ['method', 'url', 'headers'].map((name) => textIn(values, name) ?? '') as [
    string,
    string,
    string,
  ];
  const text = isCut ? undefined : curlCommand({ method, url, headers, body });
  if (text === undefined)
    return html`<p class="soft">
      There is no curl command for this request, because its url or its exact body cannot be shown.
    </p>`;
  return html`<details class="fold">
    <summary>Copy as curl</summary>
    <p class="soft">
      A command for a shell. Signatures, additional headers and the query of the url are left out, so an endpoint that
      verifies signatures refuses it.
    </p>
    <pre class="command copyable">${'\n'}${text}</pre>
  </details>`;
}

function requestCard({ request }: ShownDetails, naming: Naming): Markup {
  const values = valuesOf(request);
  const [note, url, headers, body] = ['note', 'url', 'headers', 'body'].map((name) => textIn(values, name));
  const bytes = numberIn(values, 'body_length');
  const payload = hrefOf(linkTo(request, 'payload')?.href ?? '', naming);
  const isCut = typeof body === 'string' && bytes !== null && Buffer.byteLength(body) < bytes;
  return html`<div class="card">
    <h2>Request</h2>
    ${typeof note === 'string' && html`<p class="soft">${note}</p>`}
    ${typeof url === 'string' && html`<p><code>${textIn(values, 'method') ?? 'POST'} ${url}</code></p>`}
    ${
      typeof headers === 'string' &&
      html`<h3>Headers</h3>
        ${shownCode(headers)}`
    }
    ${
      typeof body === 'string' &&
      html`<h3>Body</h3>
        <p class="soft">
          ${bytes !== null && `${sizeOf(bytes)}.`}
          ${isJson(body, isCut) && 'Shown with line breaks that were not sent.'}
        </p>
        ${bodyBlock(body, { name: 'body', isCut })} ${command(values, body, isCut)}`
    }
    ${payload !== undefined && html`<p><a href="${payload}">The complete payload of the event</a></p>`}
  </div>`;
}

/** Renders the page of a delivery. */
export function deliveryPage(
  { document, naming, view, now }: { document: Document; naming: Naming; view: View; now: Date },
  details: ShownDetails,
): string {
  const { state } = details;
  const [words, tone] = stateOf(state);
  const { buttons } = actionForms({ document, naming, view }, false);
  const main = html`<div class="card">
      ${crumbs(document, naming)}
      <p class="kind">Delivery</p>
      <div class="title">
        <h1>${document.title ?? ''}</h1>
        ${badge(words, tone)}
      </div>
      <p class="lead">${outcomeOf(state, now)}</p>
      ${state.reason !== null && html`<p class="${state.status === 'failed' ? 'alert' : 'alert mild'}">${reasonText(state.reason)}</p>`}
      ${waiting(state)} ${buttons.length > 0 && html`<div class="actions">${buttons}</div>`} ${refreshNote(view)}
      ${facts(valuesOf(document))} ${linkRow(document, naming, 'Related pages')}
    </div>
    ${attemptsCard(details)} ${requestCard(details, naming)}`;
  return renderDesigned({ document, naming, view, main });
}

/** The page of one delivery: what happened and what to do about it, its attempts with their responses, and its request. */
import type { ShownDocument } from '#http/services.ts';
import type { Naming } from '#hypermedia/document.ts';
import { actionForms } from '#hypermedia/html/form.ts';
import { crumbs, hrefOf, linkRow } from '#hypermedia/html/links.ts';
import { renewNote, renderDesigned } from '#hypermedia/html/document-page.ts';
import { badge, shownCode, stateBadge } from '#hypermedia/html/property-values.ts';
import type { Tone } from '#hypermedia/html/words.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { liveAttribute } from '#hypermedia/shell.ts';
import { exactDateOf, shownDateOf } from '#hypermedia/shown-date.ts';
import { harmless } from '#core/text.ts';
import { detailedView, type AttemptView, type DetailedView } from '#webhooks/history/delivery-details.ts';
import type { RequestView } from '#webhooks/history/delivery-request.ts';
import type { DeliveryView, Reason } from '#webhooks/history/history-documents.ts';
import { nextAttempt, stateOf } from './deliveries-page.ts';

// A shell command that repeats the request of a delivery, without its secrets.

type ShownRequest = Record<'method' | 'url' | 'headers' | 'body', string>;

/** Returns the text as one word of a POSIX shell: between single quotes only a single quote has a meaning. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/**
 * The last header that Halcyon sends beside the secret ones: the additional headers of the webhook follow, then signatures or the
 * token of a platform (`delivery/attempt/attempt-request.ts`).
 */
const LAST_OPEN_HEADER = /^webhook-timestamp:/im;
/** curl makes these headers itself. */
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

const counted = (attempts: number): string => (attempts === 1 ? '1 attempt' : `${attempts} attempts`);

type Stated = Pick<DetailedView, 'status' | 'attempts' | 'attemptsMax' | 'dateNext' | 'dateEnded' | 'resent'>;

/** Returns what became of the delivery that sent the event again. */
function laterWords({ status, dateEnded }: DeliveryView): Markup {
  if (status === 'pending') return html`The event was sent again, and waits for its next attempt.`;
  const at = shownDateOf(dateEnded ?? '');
  return status === 'successful'
    ? html`The event was sent again, and arrived ${at}.`
    : html`The event was sent again, and failed again ${at}.`;
}

/** Returns what happened to the delivery and what comes next, in a sentence. */
export function outcomeOf(delivery: Stated, now: Date): Markup {
  const { status, attempts, dateEnded, resent } = delivery;
  const at = dateEnded === null ? undefined : shownDateOf(dateEnded);
  if (status === 'successful')
    return html`Delivered ${at}, at ${attempts === 1 ? 'the first attempt' : `attempt ${attempts}`}.`;
  if (status === 'failed' && resent !== null)
    return html`Failed ${at}, ${attempts === 0 ? 'without an attempt' : `after ${counted(attempts)}`}.
    ${laterWords(resent)}`;
  if (status === 'failed')
    return attempts === 0
      ? html`Failed ${at}, without an attempt.`
      : html`Failed ${at}, after ${counted(attempts)}. There are no more automatic attempts.`;
  return html`${nextAttempt(delivery, now)}.`;
}

/** Returns what a delivery waits for, unless its next date says so already. */
function waiting({ waitsFor }: DetailedView): Markup | false {
  if (waitsFor === null || waitsFor.kind === 'attempt') return false;
  const { text } = waitsFor;
  return html`<p class="soft">It waits for ${text.charAt(0).toLowerCase()}${text.slice(1)}</p>`;
}

/** Renders the reason of a failure: what happened, emphasized, and the advice. */
const reasonText = ({ what, text }: Reason): Markup => html`<strong>${what}</strong>${text.slice(what.length)}`;

/** Renders what identifies the delivery: its event, its date and its id. */
const facts = ({ event, dateCreated, id }: DetailedView): Markup =>
  html`<p class="moment soft">
    ${event !== null && html`<span>${event}</span>`} <span>${shownDateOf(dateCreated ?? '')}</span>
    <span>ID ${id}</span>
  </p>`;

/** Renders the response of an attempt, if there was one: its body, and its headers folded. */
function response({ responseCode, responseBody, responseHeaders, n }: AttemptView, isOpen: boolean): Markup | false {
  if (responseCode === null && responseBody === null && responseHeaders === null) return false;
  const unseen = html`<span class="unseen"> to attempt ${n}</span>`;
  return html`<details class="fold" ${isOpen && html`open`}>
    <summary>Response${responseCode !== null && ` ${responseCode}`}${unseen}</summary>
    ${!responseBody && html`<p class="soft">No body is stored.</p>`}
    ${responseBody && (isOpen ? bodyBlock(responseBody, { name: 'body' }) : shownCode(responseBody))}
    ${
      responseHeaders &&
      html`<details class="fold">
        <summary>Headers of the response${unseen}</summary>
        ${shownCode(responseHeaders)}
      </details>`
    }
  </details>`;
}

/** Renders an attempt; the response of the newest one is open if it failed. */
function attemptEntry(
  attempt: AttemptView,
  at: number,
  { shownReason, naming }: { shownReason: string | undefined; naming: Naming },
): Markup {
  const { n, request, outcome, reason, date, durationMs } = attempt;
  return html`<li>
    <p class="moment">
      <strong>Attempt ${n}</strong> ${stateBadge(outcome)}
      <span class="soft">${exactDateOf(date)}</span>
      <span class="soft">${durationMs} ms</span>
      <a href="${hrefOf(request, naming) ?? ''}#request">Request<span class="unseen"> of attempt ${n}</span></a>
    </p>
    ${reason !== null && reason.text !== shownReason && html`<p>${reason.text}</p>`}
    ${response(attempt, at === 0 && outcome !== 'delivered')}
  </li>`;
}

const attemptsCard = ({ tried, reason }: DetailedView, naming: Naming): Markup =>
  html`<div class="card">
    <h2>Attempts</h2>
    ${
      tried.length === 0
        ? html`<p class="soft">None yet.</p>`
        : html`<ol class="timeline">
            ${tried.toReversed().map((attempt, at) => attemptEntry(attempt, at, { shownReason: reason?.text, naming }))}
          </ol>`
    }
  </div>`;

/** Returns the size in the unit that a person would choose. */
const sizeOf = (bytes: number): string => (bytes < 1_000 ? `${bytes} bytes` : `${(bytes / 1_000).toFixed(1)} kB`);

/** Renders the command, or why there is none. */
function command({ method, url, headers }: RequestView, body: string, isCut: boolean): Markup {
  const text = isCut ? undefined : curlCommand({ method, url: url ?? '', headers: headers ?? '', body });
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

function requestCard(request: RequestView, naming: Naming): Markup {
  const { attempt, note, method, url, headers, body, bodyBytes } = request;
  const payload = hrefOf(request.payload ?? '', naming);
  const isCut = body !== null && bodyBytes !== null && Buffer.byteLength(body) < bodyBytes;
  return html`<div class="card" id="request">
    <h2>Request${attempt !== null && ` of attempt ${attempt}`}</h2>
    <p class="soft">${note}</p>
    ${url !== null && html`<p><code>${method} ${url}</code></p>`}
    ${
      headers !== null &&
      html`<h3>Headers</h3>
        ${shownCode(headers)}`
    }
    ${
      body !== null &&
      html`<h3>Body</h3>
        <p class="soft">
          ${bodyBytes !== null && `${sizeOf(bodyBytes)}.`}
          ${isJson(body, isCut) && 'Shown with line breaks that were not sent.'}
        </p>
        ${bodyBlock(body, { name: 'body', isCut })} ${command(request, body, isCut)}`
    }
    ${payload !== undefined && html`<p><a href="${payload}">The complete payload of the event</a></p>`}
  </div>`;
}

/** Renders the page of a delivery; undefined for a document without its attempts and its request. */
export function deliveryPage({ document, naming, view, now }: ShownDocument): string | undefined {
  const delivery = detailedView.of(document);
  if (delivery === undefined) return undefined;
  const { title, status, reason, resent } = delivery;
  const hasArrivedLater = resent?.status === 'successful';
  const [words, tone]: [string, Tone] = hasArrivedLater ? ['Arrived later', 'fine'] : stateOf(delivery);
  // What arrived by another delivery is not offered to be sent once more.
  const buttons = hasArrivedLater ? [] : actionForms({ document, naming, view }, false).buttons;
  const live = liveAttribute(document.refreshSeconds);
  const main = html`<div class="card">
      ${crumbs(document, naming)}
      <p class="kind">Delivery</p>
      <div ${live}>
        <div class="title">
          <h1>${title}</h1>
          ${badge(words, tone)}
        </div>
        <p class="lead">${outcomeOf(delivery, now)}</p>
        ${reason !== null && html`<p class="${status === 'failed' && !hasArrivedLater ? 'alert' : 'alert mild'}">${reasonText(reason)}</p>`}
        ${waiting(delivery)}
      </div>
      ${buttons.length > 0 && html`<div class="actions">${buttons}</div>`} ${renewNote(document, naming)}
      ${facts(delivery)} ${linkRow(document, naming, 'Related pages')}
    </div>
    <div ${live}>${attemptsCard(delivery, naming)}</div>
    ${requestCard(delivery.request, naming)}`;
  return renderDesigned({ document, naming, view, main });
}

// Bodies of requests and responses on pages: JSON indented and coloured, other texts as they are, long ones folded.

/** Longer bodies are folded. */
const OPEN_LINES = 60;
const OPEN_CHARACTERS = 4_000;

/** From here on, tokens have no colour: each coloured one takes about 30 bytes of the page. */
const COLOURED_TOKENS_MAX = 2_000;
/** Deeper levels are not indented further, or the indentation of 8,000 nested arrays would take 100 MB. */
const INDENTED_LEVELS_MAX = 20;

/** A string (the last one may be cut), a mark, white space, or a number or literal. Every text is a sequence of them, without backtracking. */
const TOKEN = /"(?:[^"\\]|\\[^])*"?|[{}[\],:]|\s+|[^\s"{}[\],:]+/g;

const OPENING = new Set(['{', '[']);
const CLOSING = new Set(['}', ']']);

/** Returns whether the text is JSON; of a cut text only the beginning is known. */
export function isJson(text: string, isCut = false): boolean {
  if (!/^\s*[{[]/.test(text)) return false;
  if (isCut) return true;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

type Piece = { text: string; kind: 'key' | 'text' | 'value' | 'mark' };

function kindOf(token: string, next: string | undefined): Piece['kind'] {
  if (token.startsWith('"')) return next === ':' ? 'key' : 'text';
  return OPENING.has(token) || CLOSING.has(token) || token === ',' || token === ':' ? 'mark' : 'value';
}

/**
 * Returns JSON in pieces, with line ends and indentation. Token by token, because `JSON.parse` would change numbers (`1.0`, ids above
 * 2^53), repeated names and the order of names like `1`.
 */
export function indentedPieces(json: string): Piece[] {
  const tokens = (json.match(TOKEN) ?? []).filter((token) => !/^\s/.test(token));
  const pieces: Piece[] = [];
  let level = 0;
  const mark = (text: string): void => void pieces.push({ text, kind: 'mark' });
  const line = (): void => mark(`\n${'  '.repeat(Math.min(level, INDENTED_LEVELS_MAX))}`);
  for (const [at, token] of tokens.entries()) {
    const [previous = '', next = ''] = [tokens[at - 1], tokens[at + 1]];
    if (CLOSING.has(token)) {
      level = Math.max(0, level - 1);
      if (!OPENING.has(previous)) line();
    }
    pieces.push({ text: token, kind: kindOf(token, next) });
    if (OPENING.has(token)) {
      level += 1;
      if (!CLOSING.has(next)) line();
    } else if (token === ',') line();
    else if (token === ':') mark(' ');
  }
  return pieces;
}

const coloured = ({ text, kind }: Piece, at: number): Markup | string =>
  kind === 'mark' || at >= COLOURED_TOKENS_MAX ? text : html`<span class="${kind}">${text}</span>`;

function folded(code: Markup, { characters, lines }: { characters: number; lines: number }, name: string): Markup {
  if (lines <= OPEN_LINES && characters <= OPEN_CHARACTERS) return code;
  return html`<details class="fold">
    <summary>Show the ${name} (${lines === 1 ? `${characters} characters` : `${lines} lines`})</summary>
    ${code}
  </details>`;
}

/** Renders a body. `name` is what the fold of a long one is called; `isCut`: the end of the body is missing. */
export function bodyBlock(body: string, { name, isCut = false }: { name: string; isCut?: boolean }): Markup {
  const text = harmless(body);
  const characters = text.length;
  if (!isJson(text, isCut)) return folded(shownCode(text), { characters, lines: text.split('\n').length }, name);
  const pieces = indentedPieces(text);
  const lines = 1 + pieces.filter((piece) => piece.text.startsWith('\n')).length;
  // The line break after <pre> is not part of its text.
  return folded(html`<pre class="code">${'\n'}${pieces.map(coloured)}</pre>`, { characters, lines }, name);
}

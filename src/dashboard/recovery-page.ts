/** The page of a recovery: how far it is, what it sends, and the button that cancels it. */
import type { ShownDocument } from '#http/services.ts';
import { actionForms } from '#hypermedia/html/form.ts';
import { renderDesigned, renewNote } from '#hypermedia/html/document-page.ts';
import { crumbs, hrefOf, linkTo } from '#hypermedia/html/links.ts';
import { stateBadge } from '#hypermedia/html/property-values.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { liveAttribute } from '#hypermedia/shell.ts';
import { shownDateOf } from '#hypermedia/shown-date.ts';
import { recoveryView, type RecoveryView } from '#webhooks/recovery/recovery.ts';
import { countWords } from './health-words.ts';

/** Returns how many of the things that it sends there are: events, or resources of a loaded history. */
function things(count: number, { isLoaded }: Pick<RecoveryView, 'isLoaded'>): string {
  const one = isLoaded ? 'resource' : 'event';
  return `${countWords(count)} ${count === 1 ? one : `${one}s`}`;
}

/** Returns what the recovery has done, in a sentence. */
export function outcomeOf(recovery: RecoveryView): Markup {
  const { state, total, seen, recovered, ended } = recovery;
  const at = ended === null ? undefined : shownDateOf(ended);
  const sent = `${things(recovered, recovery)} ${recovered === 1 ? 'was' : 'were'} sent`;
  switch (state) {
    case 'waiting':
      return html`It begins when the events that were being published have been stored.`;
    case 'running':
      return html`${countWords(seen)} of ${things(total, recovery)} checked, and ${things(recovered, recovery)} sent so
      far.`;
    case 'finished':
      return recovered === 0
        ? html`Finished ${at}: none of ${things(total, recovery)} had to be sent.`
        : html`Finished ${at}: ${sent}.`;
    case 'cancelled':
      return html`Cancelled ${at}: ${sent} until then.`;
    case 'stopped':
      return html`Stopped ${at}, because the webhook was disabled or has no URL: ${sent} until then.`;
  }
}

const fact = (label: string, value: Markup | string | number | null | false): Markup | false =>
  value !== null &&
  value !== false &&
  html`<dt>${label}</dt>
    <dd>${value}</dd>`;

/** Renders what the recovery was asked to send. */
const request = (asked: RecoveryView): Markup =>
  html`<dl>
    ${fact('From', shownDateOf(asked.since) ?? asked.since)}
    ${fact('Until', asked.until === null ? 'The time of the request' : (shownDateOf(asked.until) ?? asked.until))}
    ${fact('Events', asked.event ?? 'All that the webhook subscribes to')}
    ${fact('Only', asked.isOnlyFailed && 'Events with a failed delivery')} ${fact('Resource', asked.resourceId)}
    ${fact('Failed with response code', asked.responseCode)} ${fact('Failed with response', asked.responseBody)}
    ${fact('Requested', shownDateOf(asked.created) ?? asked.created)}
  </dl>`;

/** Renders the page of a recovery; undefined for a document of which `fields` has left properties out. */
export function recoveryPage({ document, naming, view }: ShownDocument): string | undefined {
  const recovery = recoveryView.of(document);
  if (recovery === undefined) return undefined;
  const { state, total, seen, recovered } = recovery;
  const deliveries = hrefOf(`${linkTo(document, 'webhook')?.href ?? ''}/statuses`, naming);
  const { buttons } = actionForms({ document, naming, view }, false);
  const main = html`<div class="card">
    ${crumbs(document, naming)}
    <div ${liveAttribute(document.refreshSeconds)}>
      <div class="title">
        <h1>${document.title ?? ''}</h1>
        ${stateBadge(state)}
      </div>
      <p class="lead">${outcomeOf(recovery)}</p>
      ${
        state === 'running' &&
        total > 0 &&
        html`<p><progress value="${seen}" max="${total}" aria-label="Checked">${seen} of ${total}</progress></p>`
      }
      ${recovered > 0 && deliveries !== undefined && html`<p><a href="${deliveries}">See the deliveries</a></p>`}
    </div>
    ${buttons} ${renewNote(document, naming)} ${request(recovery)}
  </div>`;
  return renderDesigned({ document, naming, view, main });
}

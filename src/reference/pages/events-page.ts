/** The event catalogue as a page: one section per resource type, whose events have the same body. */
import type { EventType } from '#http/relation.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { bodyOf } from '../event-types-document.ts';
import type { Setting } from '../setting.ts';
import { frame, listed, namedTable, pathOf, relationLink } from './page-frame.ts';

const code = (text: string): Markup => html`<code>${text}</code>`;

const PUBLISHERS = { platform: 'the platform', halcyon: 'Halcyon' } as const;

const folded = (title: Markup | string, text: string): Markup =>
  html`<details>
    <summary>${title}</summary>
    <pre class="copyable">${text}</pre>
  </details>`;

const indented = (text: string): string => JSON.stringify(JSON.parse(text), null, 2);

function resourceCard(types: readonly EventType[], { naming }: Setting): Markup {
  const [first] = types;
  if (first === undefined) return html``;
  const { resource, version, zooms, schema, examples } = first;
  const versionNote = version === null ? '' : ` Version ${version}.`;
  return html`<section class="card" id="${resource.type}">
    <h2>${resource.title}</h2>
    <p>${resource.about} See ${relationLink(resource.type, naming)}.${versionNote}</p>
    ${namedTable(
      `Events of ${resource.type}`,
      ['Event', 'When', 'Published by', 'Since'],
      types.map(({ event, when, publishedBy, since }) => [
        event,
        when,
        publishedBy.map((one) => PUBLISHERS[one]).join(' or '),
        since,
      ]),
    )}
    <p>
      ${
        zooms.length === 0
          ? 'It has no relations to embed.'
          : html`${code('zoom')} can embed ${listed(zooms.map((zoom) => code(zoom)))}, and below an embedded resource
            the relations of its type.`
      }
    </p>
    ${folded('JSON Schema of the body', JSON.stringify(schema, null, 2))}
    ${examples.map((example) => {
      const title = example.query === '' ? 'Example of a body' : html`Example with every ${code('zoom')}`;
      return folded(title, indented(bodyOf(example, naming)));
    })}
  </section>`;
}

const introduction = ({ naming, webhookHeaderPrefix }: Setting): Markup =>
  html`<div class="card">
    <h1>Event types</h1>
    <p>
      A ${relationLink('webhook', naming)} receives the events in its ${code('events')}, or all events of its
      ${code('event_resource')}. The header ${code(`${webhookHeaderPrefix}-Webhook-Event`)} of a delivery names the
      event. The body is the complete resource after the change: a representation like that of GET, selected by the
      ${code('zoom')} and ${code('fields')} in the ${code('query')} of the webhook.
    </p>
    <p>
      The schemas below are for the format ${code('json')}, without ${code('fields')}. The platform decides which
      properties its resources have: a schema lists typical names, and types only where Halcyon guarantees them. Accept
      additional properties. A webhook can also receive ${code('<resource>/refeed')}, if the resource is sent again
      (${relationLink('send_webhooks', naming)}), and ${code('<resource>/test')}, a test delivery, whose body has
      ${code('is_sample')}.
    </p>
    <p>For programs: ${relationLink('event_types', naming)} at ${code(`${naming.baseUrl}/docs/events`)}.</p>
  </div>`;

/** Renders all event types, or those of one address. */
export function eventsPage(types: readonly EventType[], setting: Setting, view: View): string {
  const [first, ...others] = types;
  const isOne = first !== undefined && others.length === 0;
  const { naming } = setting;
  return frame({
    title: isOne ? first.event : 'Event types',
    at: 'events',
    naming,
    view,
    main: html`${
      isOne
        ? html`<div class="card">
            <h1>${first.event}</h1>
            <p>${first.when} <a href="${pathOf('/docs/events', naming)}">All event types</a></p>
          </div>`
        : introduction(setting)
    }
    ${[...Map.groupBy(types, ({ resource }) => resource.type).values()].map((one) => resourceCard(one, setting))}`,
  });
}

/** A relation for people: what it means, what can be done there, what is read there, and how it looks. */
import { fieldsOf } from '#http/actions.ts';
import type { Endpoint } from '#http/relation.ts';
import type { Document, Field, Naming } from '#hypermedia/document.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { nameOf } from '#hypermedia/relations.ts';
import type { View } from '#hypermedia/view.ts';
import { writtenExamples } from '../examples.ts';
import type { Doing, Explained, Place } from '../explained.ts';
import { aboutModifier, constraintsOf, kindOf, kindOfProperty, WHO_MAY } from '../words.ts';
import { frame, listed, namedTable, relationLink, table } from './frame.ts';

const meaningOf = (field: Field): Markup => {
  const constraints = constraintsOf(field);
  return html`${field.hint} ${constraints !== '' && html`<span class="soft">${constraints}</span>`}`;
};

const fieldTable = (label: string, fields: readonly Field[]): Markup =>
  namedTable(
    label,
    ['Field', 'Type', 'Required', 'Meaning'],
    fields.map((field) => [field.name, kindOf(field), field.isRequired ? 'yes' : 'no', meaningOf(field)]),
  );

const namesOf = (fields: readonly Field[]): string => fields.map(({ name }) => name).join(' ');

/** Told once where PATCH and PUT of one address take the same. */
const fieldsPart = (label: string, { method, fields }: Doing, doings: readonly Doing[]): Markup => {
  const same = doings.find((doing) => namesOf(doing.fields) === namesOf(fields));
  if (same === undefined || same.method === method) return fieldTable(label, fields);
  const required = fields.filter(({ isRequired }) => isRequired).map(({ name }) => html`<code>${name}</code>`);
  return html`<p>The fields of ${same.method}${required.length > 0 && html`; required: ${listed(required)}`}.</p>`;
};

const modifierTable = (label: string, { modifiers, comparable }: Doing): Markup =>
  html`${namedTable(
    label,
    ['Parameter', 'Meaning'],
    modifiers.map((name) => [name, aboutModifier(name) ?? '']),
  )}
  ${
    comparable.length > 0 &&
    html`<p>It is ordered and narrowed by ${listed(comparable.map((name) => html`<code>${name}</code>`))}.</p>`
  }`;

const doingPart =
  ({ address, doings }: Place) =>
  (doing: Doing): Markup => {
    const { method, title, summary, access, fields, modifiers } = doing;
    const label = `${method} ${address}`;
    return html`<h3><code>${method}</code> ${title}</h3>
      ${summary !== title && html`<p>${summary}.</p>`}
      <p class="soft">Who may: ${WHO_MAY[access]}</p>
      ${fields.length > 0 && fieldsPart(`${label}: fields`, doing, doings)}
      ${modifiers.length > 0 && modifierTable(`${label}: parameters`, doing)}`;
  };

const placeCard = (place: Place): Markup =>
  html`<section class="card">
    <h2><code>${place.address}</code></h2>
    ${place.doings.map(doingPart(place))}
  </section>`;

const endpointCard = ({ method, address, summary, access, specification, takes, answers, example }: Endpoint): Markup =>
  html`<section class="card">
    <h2><code>${address}</code></h2>
    <h3><code>${method}</code></h3>
    <p>${summary}.</p>
    <p class="soft">Who may: ${access}. Standard: ${specification}.</p>
    ${takes !== undefined && fieldTable(`${method} ${address}: fields`, fieldsOf(takes.schema))}
    ${namedTable('Answers', ['Status', 'Meaning'], Object.entries(answers))}
    ${example !== undefined && html`<pre>${JSON.stringify(example, null, 2)}</pre>`}
  </section>`;

/** What its fields say of a property that is read. */
const hintOf = (name: string, doings: readonly Doing[]): string =>
  doings.flatMap(({ fields }) => fields).find((field) => field.name === name)?.hint ?? '';

const contentCard = ({ properties, links, embedded }: Document, doings: readonly Doing[], naming: Naming): Markup =>
  html`<section class="card">
    <h2>What is read there</h2>
    ${
      properties.length > 0 &&
      namedTable(
        'Properties',
        ['Property', 'Type', 'Meaning'],
        properties.map((property) => [property.name, kindOfProperty(property), hintOf(property.name, doings)]),
      )
    }
    ${
      links.length > 0 &&
      table(
        'Links',
        ['Link', 'Leads to'],
        links.map(({ rel, title }) => [relationLink(rel, naming), title ?? '']),
      )
    }
    ${embedded.length > 0 && html`<p>Embedded: ${listed(embedded.map(({ rel }) => relationLink(rel, naming)))}.</p>`}
  </section>`;

const exampleCard = (example: Document, naming: Naming): Markup =>
  html`<section class="card">
    <h2>How it looks</h2>
    ${writtenExamples(example, naming).map(
      ({ mediaType, text }, at) =>
        html`<details ${at === 0 && 'open'}>
          <summary><code>${mediaType}</code></summary>
          <pre>${text}</pre>
        </details>`,
    )}
  </section>`;

export const relationPage = (explained: Explained, naming: Naming, view: View): string => {
  const { rel, title, about, places, chapter, endpoints, example } = explained;
  const doings = places.flatMap((place) => place.doings);
  return frame({
    title,
    at: undefined,
    naming,
    view,
    main: html`<div class="card">
        <h1>${title}</h1>
        <p>${about}</p>
        <dl>
          <dt>Relation</dt>
          <dd><code>${nameOf(rel, naming)}</code></dd>
          <dt>Chapter</dt>
          <dd>${chapter}</dd>
        </dl>
      </div>
      ${places.map(placeCard)} ${endpoints.map(endpointCard)}
      ${example !== undefined && contentCard(example, doings, naming)}
      ${example !== undefined && exampleCard(example, naming)}`,
  });
};

/** The pages of relations: all of them, one with its methods and examples, and the list of addresses on `/docs`. */
import { fieldsOf } from '#http/actions.ts';
import type { Chapter, Endpoint } from '#http/relation.ts';
import { type Document, type Field, type Naming, nameOf } from '#hypermedia/document.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { renderExamples } from './reference-document.ts';
import {
  aboutModifier,
  accessText,
  comparableOf,
  constraintsOf,
  kindOf,
  kindOfProperty,
  templateOf,
  type AddressDoc,
  type MethodDoc,
  type RelationDoc,
  type RelationDocs,
} from './relation-docs.ts';
import { frame, listed, namedTable, relationLink, table } from './page-frame.ts';

function meaningOf(field: Field): Markup {
  const constraints = constraintsOf(field);
  return html`${field.hint} ${constraints !== '' && html`<span class="soft">${constraints}</span>`}`;
}

const fieldTable = (label: string, fields: readonly Field[]): Markup =>
  namedTable(
    label,
    ['Field', 'Type', 'Required', 'Meaning'],
    fields.map((field) => [field.name, kindOf(field), field.isRequired ? 'yes' : 'no', meaningOf(field)]),
  );

const namesOf = (fields: readonly Field[]): string => fields.map(({ name }) => name).join(' ');

/** Renders the fields of a method; refers to another method of the address that has the same. */
function fieldsPart(label: string, { method, fields }: MethodDoc, methodDocs: readonly MethodDoc[]): Markup {
  const same = methodDocs.find((methodDoc) => namesOf(methodDoc.fields) === namesOf(fields));
  if (same === undefined || same.method === method) return fieldTable(label, fields);
  const required = fields.filter(({ isRequired }) => isRequired).map(({ name }) => html`<code>${name}</code>`);
  return html`<p>Same fields as ${same.method}${required.length > 0 && html`; required: ${listed(required)}`}.</p>`;
}

const modifierTable = (label: string, { modifiers, properties }: MethodDoc): Markup => {
  const comparable = comparableOf({ properties });
  return html`${namedTable(
    label,
    ['Parameter', 'Meaning'],
    modifiers.map((name) => [name, aboutModifier(name) ?? '']),
  )}
  ${
    comparable.length > 0 &&
    html`<p>Sort and filter by ${listed(comparable.map((name) => html`<code>${name}</code>`))}.</p>`
  }`;
};

const methodPart =
  ({ address, methodDocs }: AddressDoc) =>
  (methodDoc: MethodDoc): Markup => {
    const { method, title, summary, fields, modifiers } = methodDoc;
    const label = `${method} ${address}`;
    return html`<h3><code>${method}</code> ${title}</h3>
      ${summary !== title && html`<p>${summary}.</p>`}
      <p class="soft">Access: ${accessText(methodDoc)}</p>
      ${fields.length > 0 && fieldsPart(`${label}: fields`, methodDoc, methodDocs)}
      ${modifiers.length > 0 && modifierTable(`${label}: parameters`, methodDoc)}`;
  };

const addressCard = (addressDoc: AddressDoc): Markup =>
  html`<section class="card">
    <h2><code>${addressDoc.address}</code></h2>
    ${addressDoc.methodDocs.map(methodPart(addressDoc))}
  </section>`;

const endpointCard = ({ method, address, summary, access, specification, takes, answers, example }: Endpoint): Markup =>
  html`<section class="card">
    <h2><code>${address}</code></h2>
    <h3><code>${method}</code></h3>
    <p>${summary}.</p>
    <p class="soft">Access: ${access}. Standard: ${specification}.</p>
    ${takes !== undefined && fieldTable(`${method} ${address}: fields`, fieldsOf(takes.schema))}
    ${namedTable('Responses', ['Status', 'Meaning'], Object.entries(answers))}
    ${example !== undefined && html`<pre class="copyable">${JSON.stringify(example, null, 2)}</pre>`}
  </section>`;

/** Returns the description of a property from the fields of the methods. */
const hintOf = (name: string, methodDocs: readonly MethodDoc[]): string =>
  methodDocs.flatMap(({ fields }) => fields).find((field) => field.name === name)?.hint ?? '';

const contentCard = (
  { properties, links, embedded }: Document,
  methodDocs: readonly MethodDoc[],
  naming: Naming,
): Markup =>
  html`<section class="card">
    <h2>Representation</h2>
    ${
      properties.length > 0 &&
      namedTable(
        'Properties',
        ['Property', 'Type', 'Meaning'],
        properties.map((property) => [property.name, kindOfProperty(property), hintOf(property.name, methodDocs)]),
      )
    }
    ${
      links.length > 0 &&
      table(
        'Links',
        ['Link', 'Target'],
        links.map(({ rel, title }) => [relationLink(rel, naming), title ?? '']),
      )
    }
    ${embedded.length > 0 && html`<p>Embedded: ${listed(embedded.map(({ rel }) => relationLink(rel, naming)))}.</p>`}
  </section>`;

const exampleCard = (example: Document, naming: Naming): Markup =>
  html`<section class="card">
    <h2>Examples</h2>
    ${renderExamples(example, naming).map(
      ({ mediaType, text }, at) =>
        html`<details ${at === 0 && 'open'}>
          <summary><code>${mediaType}</code></summary>
          <pre class="copyable">${text}</pre>
        </details>`,
    )}
  </section>`;

export function relationPage(relationDoc: RelationDoc, naming: Naming, view: View): string {
  const { rel, title, about, addressDocs, chapter, endpoints, example } = relationDoc;
  const methodDocs = addressDocs.flatMap((addressDoc) => addressDoc.methodDocs);
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
      ${addressDocs.map(addressCard)} ${endpoints.map(endpointCard)}
      ${example !== undefined && contentCard(example, methodDocs, naming)}
      ${example !== undefined && exampleCard(example, naming)}`,
  });
}

export function indexPage({ chapters }: RelationDocs, naming: Naming, view: View): string {
  return frame({
    title: 'All relations',
    at: 'rels',
    naming,
    view,
    main: html`<div class="card">
        <h1>All relations</h1>
        <p>
          The relation of a link describes its target. <code>${nameOf('store', naming)}</code> in a representation is
          documented at <code>${naming.baseUrl}/rels/store</code>: follow links by relation, without building addresses.
        </p>
      </div>
      ${chapters.map(
        ({ title, about, relations }) =>
          html`<section class="card">
            <h2>${title}</h2>
            <p>${about}</p>
            ${table(
              title,
              ['Relation', 'Meaning'],
              relations.map((relation) => [relationLink(relation.rel, naming), relation.title]),
            )}
          </section>`,
      )}`,
  });
}

/** An address with the relation that leads to it, if any. */
type AddressRow = { path: string; methods: string; title: string; rel: string | undefined };

const addressRows = ({ relations, endpoints = [] }: Chapter, { byRel }: RelationDocs, naming: Naming): AddressRow[] => [
  ...relations.flatMap(({ rel, title }) =>
    (byRel.get(rel)?.addressDocs ?? []).map(({ path, methodDocs }): AddressRow => {
      const methods = methodDocs.map(({ method }) => method).join(', ');
      return { path: templateOf(path), methods, title, rel };
    }),
  ),
  ...endpoints.map(({ address, method, title, rel }): AddressRow => {
    return { path: address.replace(naming.baseUrl, ''), methods: method, title, rel };
  }),
];

/** Returns the relations of an address, with a title if it is only one. */
function relationsCell(addresses: readonly AddressRow[], naming: Naming): Markup {
  const links = listed(addresses.flatMap(({ rel }) => (rel === undefined ? [] : [relationLink(rel, naming)])));
  const [only, ...others] = addresses;
  return others.length > 0 ? links : html`${only?.title}<br />${links}`;
}

function chapterPart(chapter: Chapter, relationDocs: RelationDocs, naming: Naming): Markup {
  const byPath = Map.groupBy(addressRows(chapter, relationDocs, naming), ({ path }) => path);
  const rows = [...byPath].map(([path, addresses]) => [
    relationsCell(addresses, naming),
    addresses[0]?.methods ?? '',
    html`<code>${path}</code>`,
  ]);
  return html`<h3>${chapter.title}</h3>
    <p>${chapter.about}</p>
    ${rows.length > 0 && table(chapter.title, ['Relation', 'Methods', 'Address'], rows)}`;
}

/** Returns all addresses, by chapter. */
export function addressList(relationDocs: RelationDocs, naming: Naming): Markup {
  return html`${relationDocs.chapters.map((chapter) => chapterPart(chapter, relationDocs, naming))}`;
}

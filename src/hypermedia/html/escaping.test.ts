import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Action, Document, Field, Kind, Property, Value } from '../document.ts';
import { html, render } from '../markup.ts';
import { scriptElements } from '../shell.ts';
import type { View } from '../view.ts';
import { renderHtml } from './document-page.ts';
import { anyText } from '../../../test/setup/any-text.ts';

const KINDS: readonly Kind[] = 'text number count boolean date url code secret enumeration money json'.split(
  ' ',
) as Kind[];

const evil = fc.oneof(
  anyText(),
  fc.constantFrom('<evil>', '</textarea><evil>', '</pre></style><evil>', '" evil="', "' evil='", '&lt;evil&gt;', '-->'),
  fc.tuple(fc.string(), fc.string()).map(([a, b]) => `${a}"><evil evil="${b}`),
);
const kind = fc.constantFrom(...KINDS);
const value: fc.Arbitrary<Value> = fc.oneof(
  evil,
  evil,
  fc.double(),
  fc.boolean(),
  fc.constant(null),
  fc.array(evil, { maxLength: 3 }),
  fc.dictionary(evil, evil, { maxKeys: 3 }),
  fc.array(fc.dictionary(evil, evil, { maxKeys: 2 }), { maxLength: 2 }),
);
const property: fc.Arbitrary<Property> = fc.record({ name: evil, value, kind, currency: evil });
const link = fc.record({ rel: evil, href: evil, title: evil, crumb: evil }, { requiredKeys: ['rel', 'href'] });
const self = fc.record({ rel: fc.constantFrom('self', 'prev', 'next'), href: evil, title: evil });
const field: fc.Arbitrary<Field> = fc.record(
  {
    name: evil,
    kind,
    isRequired: fc.boolean(),
    isMultiple: fc.boolean(),
    choices: fc.array(evil, { maxLength: 3 }),
    hint: evil,
    isGenerated: fc.constant(true as const),
    isMinor: fc.constant(true as const),
    value,
  },
  { requiredKeys: ['name', 'kind', 'isRequired', 'isMultiple'] },
);
const action: fc.Arbitrary<Action> = fc.record({
  name: evil,
  title: evil,
  method: fc.constantFrom('POST', 'PATCH', 'DELETE'),
  href: evil,
  fields: fc.array(field, { maxLength: 4 }),
});

const documentOf = (embedded: fc.Arbitrary<Document['embedded']>): fc.Arbitrary<Document> =>
  fc.record(
    {
      name: evil,
      title: evil,
      version: evil,
      properties: fc.array(property, { maxLength: 4 }),
      links: fc.array(fc.oneof(link, self), { maxLength: 3 }),
      embedded,
      actions: fc.array(action, { maxLength: 2 }),
      search: fc.record({
        fields: fc.array(field, { maxLength: 3 }),
        timeZone: fc.constantFrom('UTC', 'Asia/Kolkata'),
      }),
    },
    { requiredKeys: ['name', 'properties', 'links', 'embedded', 'actions'] },
  );

const embedding = (below: fc.Arbitrary<Document>): fc.Arbitrary<Document['embedded']> =>
  fc.array(fc.record({ rel: evil, documents: fc.array(below, { maxLength: 2 }), single: fc.boolean() }), {
    maxLength: 1,
  });

const leaf = documentOf(fc.constant([]));
const document = documentOf(embedding(documentOf(embedding(leaf))));

const fault = fc.record({ code: evil, message: evil, field: evil }, { requiredKeys: ['code', 'message'] });

/** The signed-in user: one of the forms was refused. */
function viewOf(
  { actions = [] }: Document,
  faults: { code: string; message: string; field?: string }[],
  typed: string,
): View {
  const [first] = actions;
  const view: View = { nav: html``, session: { nonceOf: () => typed, onceKey: typed }, done: typed };
  if (first === undefined) return view;
  const values = Object.fromEntries(first.fields.map(({ name }) => [name, [typed]]));
  return { ...view, refused: { action: first.name, values, version: typed, faults } };
}

const NAMES = new Set(
  (
    'html head meta title style body header span nav form button main p div h1 h2 h3 h4 h5 h6 a dl dt dd ul li code pre ' +
    'details summary section table thead tbody tr th td time input select option textarea label fieldset legend footer br progress'
  ).split(' '),
);
const ATTRIBUTES = new Set(
  (
    'lang charset name content class href rel role id type value action method autocomplete data-unsaved open required rows spellcheck ' +
    'selected checked min max step minlength inputmode for scope colspan tabindex datetime aria-label aria-describedby ' +
    'aria-invalid aria-hidden data-label data-of'
  ).split(' '),
);

const TAG = /<\/?([a-z0-9]+)((?:\s+[a-z-]+(?:="[^"<]*")?)*)\s*\/?>/g;

/** The page's own scripts; no other script is allowed. */
const SCRIPTS = render(scriptElements((path) => path));

/** Everything in the page that a browser would take for markup and that the renderer did not write. */
function strange(page: string): string[] {
  const found: string[] = [];
  const body = page
    .replace(/^<!doctype html>/, '')
    .replace(/<style>[^<]*<\/style>/, '')
    .replace(SCRIPTS, '');
  const rest = body.replaceAll(TAG, (_tag, name: string, attributes: string) => {
    if (!NAMES.has(name)) found.push(name);
    for (const [, attribute = ''] of attributes.matchAll(/([a-z-]+)(?:="[^"]*")?/g)) {
      if (!ATTRIBUTES.has(attribute)) found.push(attribute);
    }
    return '';
  });
  const left = /.{0,40}[<>"].{0,40}/s.exec(rest);
  return left === null ? found : [...found, left[0]];
}

test('for any content of a document, the page has only the markup of the renderer', () => {
  fc.assert(
    fc.property(document, fc.array(fault, { maxLength: 3 }), evil, (made, faults, typed) => {
      const page = renderHtml(
        made,
        { baseUrl: 'https://api.example.com', relationPrefix: 'svc' },
        viewOf(made, faults, typed),
      );
      assert.deepEqual(strange(page), []);
    }),
    { numRuns: 200 },
  );
});

test('a link of a document never runs a script', () => {
  fc.assert(
    fc.property(
      fc.constantFrom('javascript:', 'JAVASCRIPT:', 'data:', 'vbscript:', ' javascript:', '\tjavascript:'),
      evil,
      (scheme, rest) => {
        const links = [
          { rel: 'store', href: scheme + rest },
          { rel: 'self', href: scheme + rest },
        ];
        const made: Document = {
          name: 'thing',
          links,
          properties: [],
          embedded: [{ rel: 'x', documents: [{ name: 'x', links, properties: [], embedded: [] }] }],
        };
        const page = renderHtml(made, { baseUrl: 'https://api.example.com', relationPrefix: 'svc' });
        const targets = [...page.matchAll(/href="([^"]*)"/g)].map(([, href]) => href);
        assert.deepEqual(targets, ['#main', '/rels/thing', '/docs']);
      },
    ),
  );
});

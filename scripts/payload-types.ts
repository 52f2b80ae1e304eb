/**
 * Writes the types of webhook bodies for receivers from the event catalogue: `node scripts/payload-types.ts`. With
 * `--events-file <path>` it prints those of the file of an operator (`EVENTS_FILE`), too. They have the default prefix of relations.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { eventTypes } from '#catalog/event-types.ts';
import { declareFile } from '#catalog/own/events-file.ts';

export const PAYLOADS = join(import.meta.dirname, '../packages/receiver/src/payloads.ts');

type Schema = {
  type?: string | readonly string[];
  enum?: readonly unknown[];
  const?: unknown;
  anyOf?: readonly Schema[];
  items?: Schema | boolean;
  properties?: Readonly<Record<string, Schema | boolean>>;
  required?: readonly string[];
  description?: string;
};

const NAMES: Readonly<Record<string, string>> = {
  integer: 'number',
  array: 'readonly unknown[]',
  object: 'Properties',
};

const isIdentifier = (name: string): boolean => /^[a-z_]\w*$/i.test(name);

/** Returns a text that does not end the comment that contains it. */
const commented = (text: string): string => text.replaceAll('*/', '* /');

const indented = (text: string): string => text.replaceAll('\n', '\n  ');

/** Returns the type with one value; objects and arrays have no such type. */
function literalOf(value: unknown): string {
  if (typeof value === 'string')
    return `'${value.replaceAll(/['\\]/g, String.raw`\$&`).replaceAll('\n', String.raw`\n`)}'`;
  return typeof value === 'object' && value !== null ? 'unknown' : String(value);
}

/**
 * Returns the type of a schema: `unknown` if it depends on keywords other than those of the built-in types, which operators may use.
 * The platform chooses the types of the others; `anyOf` is one embedded copy or a list of them.
 */
function typeOf(schema: Schema | boolean): string {
  if (typeof schema === 'boolean') return 'unknown';
  if (schema.enum !== undefined) return schema.enum.map(literalOf).join(' | ');
  if (schema.const !== undefined) return literalOf(schema.const);
  const copy = schema.anyOf?.find(({ properties }) => properties !== undefined);
  if (copy !== undefined) return `Embedded<${typeOf(copy)}>`;
  if (schema.properties !== undefined) return objectOf(schema);
  if (schema.items !== undefined) return `readonly ${typeOf(schema.items)}[]`;
  const types = schema.type === undefined ? ['unknown'] : [schema.type].flat();
  return types.map((type) => NAMES[type] ?? type).join(' | ');
}

function memberOf(name: string, schema: Schema | boolean, isRequired: boolean): string {
  const key = isIdentifier(name) ? name : literalOf(name);
  const description = typeof schema === 'boolean' ? undefined : schema.description;
  const about = description === undefined ? '' : `  /** ${commented(description)} */\n`;
  return `${about}  readonly ${key}${isRequired ? '' : '?'}: ${indented(typeOf(schema))};\n`;
}

/** Returns an object type. It permits further members, because receivers must accept them. */
function objectOf({ properties = {}, required = [] }: Schema): string {
  const members = Object.entries(properties).map(([name, one]) => memberOf(name, one, required.includes(name)));
  return `{\n${members.join('')}  readonly [name: string]: unknown;\n}`;
}

/** The links of all bodies, as the type `Links` has them. */
const COMMON_LINKS: ReadonlySet<string> = new Set(['curies', 'self', 'svc:store']);

/** Returns the type of a body: the links by name, and the alternatives of `anyOf` with the members of all. */
function bodyOf({ anyOf, properties = {}, ...schema }: Schema): string {
  const { _links: described } = properties;
  const { required = [], properties: named = {} } = typeof described === 'object' ? described : {};
  const own = required.filter((name) => !COMMON_LINKS.has(name));
  const links =
    own.length === 0 ? 'Links' : `Links & {\n${own.map((name) => memberOf(name, { type: 'Link' }, true)).join('')}}`;
  const optional = Object.keys(named).filter((name) => !required.includes(name));
  const further = optional.length === 0 ? '' : ` & LinksTo<${optional.map(literalOf).join(' | ')}>`;
  const common: Schema = {
    ...schema,
    properties: { ...properties, _links: { type: `${links}${further}` } },
  };
  return anyOf === undefined ? objectOf(common) : `${objectOf(common)} & (${anyOf.map(objectOf).join(' | ')})`;
}

const pascal = (type: string): string => type.replaceAll(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase());

/** Returns the text of the file. */
export function payloadTypes(): string {
  const all = eventTypes({ baseUrl: 'http://localhost:8080', relationPrefix: 'svc' });
  const byType = Map.groupBy(all, ({ resource }) => resource.type);
  const bodies = [...byType].map(([type, ofType]) => {
    const first = ofType.find(({ isBare }) => isBare !== true);
    const body = bodyOf(first?.schema ?? {});
    return `/** ${commented(first?.resource.about ?? '')} */\nexport type ${pascal(type)} = ${body};\n`;
  });
  const events = all.map(({ event, resource, when, isBare }) => {
    const body = isBare === true ? `Bare<${pascal(resource.type)}>` : pascal(resource.type);
    return `  /** ${commented(when)} */\n  '${event}': ${body};\n`;
  });
  return `/** Types of the bodies of webhooks with the format json, made from the event catalogue by scripts/payload-types.ts. */

type Link = { readonly href: string; readonly title?: string };
type Properties = { readonly [name: string]: unknown };
/** The platform decides whether it embeds one resource or a list. */
type Embedded<Copy> = Copy | readonly Copy[];
type Links = { readonly curies: readonly unknown[]; readonly self: Link; readonly 'svc:store': Link };
/** Links that a resource has if there is something at the end. */
type LinksTo<Rel extends string> = { readonly [Name in Rel]?: Link };
/** The body of an event that has only the id of its resource. */
type Bare<Body extends { readonly _links: Links; readonly id: unknown }> = Pick<Body, 'id'> & { readonly _links: Pick<Body['_links'], keyof Links> };

${bodies.join('\n')}
/** The body of each event, without \`fields\` in the query of the webhook. */
export type Payloads = {
${events.join('')}};

/** An event with its body. \`event\` decides the type of \`payload\`. */
export type WebhookEvent = { [Event in keyof Payloads]: { event: Event; payload: Payloads[Event] } }[keyof Payloads];
`;
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { 'events-file': { type: 'string' } } });
  const path = values['events-file'];
  if (path === undefined) await writeFile(PAYLOADS, payloadTypes());
  else {
    declareFile({ path, text: await readFile(path, 'utf8') });
    process.stdout.write(payloadTypes());
  }
}

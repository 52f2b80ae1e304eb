/**
 * Writes the types of webhook bodies for receivers from the event catalogue: `node scripts/payload-types.ts`. They have the
 * default prefix of relations.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eventTypes } from '#catalog/event-types.ts';

export const PAYLOADS = join(import.meta.dirname, '../packages/receiver/src/payloads.ts');

type Schema = {
  type?: string | readonly string[];
  enum?: readonly string[];
  anyOf?: readonly Schema[];
  items?: Schema;
  properties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  description?: string;
};

const NAMES: Readonly<Record<string, string>> = {
  integer: 'number',
  array: 'readonly unknown[]',
  object: 'Properties',
};

const isIdentifier = (name: string): boolean => /^[a-z_]\w*$/i.test(name);

const indented = (text: string): string => text.replaceAll('\n', '\n  ');

/** Returns the type of a schema. The platform chooses the types of the others; `anyOf` is one embedded copy or a list of them. */
function typeOf(schema: Schema): string {
  if (schema.enum !== undefined) return schema.enum.map((value) => `'${value}'`).join(' | ');
  const copy = schema.anyOf?.find(({ properties }) => properties !== undefined);
  if (copy !== undefined) return `Embedded<${typeOf(copy)}>`;
  if (schema.properties !== undefined) return objectOf(schema);
  if (schema.items !== undefined) return `readonly ${typeOf(schema.items)}[]`;
  const types = schema.type === undefined ? ['unknown'] : [schema.type].flat();
  return types.map((type) => NAMES[type] ?? type).join(' | ');
}

function memberOf(name: string, schema: Schema, isRequired: boolean): string {
  const key = isIdentifier(name) ? name : `'${name}'`;
  const about = schema.description === undefined ? '' : `  /** ${schema.description} */\n`;
  return `${about}  readonly ${key}${isRequired ? '' : '?'}: ${indented(typeOf(schema))};\n`;
}

/** Returns an object type. It permits further members, because receivers must accept them. */
function objectOf({ properties = {}, required = [] }: Schema): string {
  const members = Object.entries(properties).map(([name, one]) => memberOf(name, one, required.includes(name)));
  return `{\n${members.join('')}  readonly [name: string]: unknown;\n}`;
}

/** Returns the type of a body: the links by name, and the alternatives of `anyOf` with the members of all. */
function bodyOf({ anyOf, properties = {}, ...schema }: Schema): string {
  const names = properties['_links']?.required ?? [];
  const links = names.map((name) => memberOf(name, name === 'curies' ? { type: 'array' } : { type: 'Link' }, true));
  const common: Schema = { ...schema, properties: { ...properties, _links: { type: `{\n${links.join('')}}` } } };
  return anyOf === undefined ? objectOf(common) : `${objectOf(common)} & (${anyOf.map(objectOf).join(' | ')})`;
}

const pascal = (type: string): string => type.replaceAll(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase());

/** Returns the text of the file. */
export function payloadTypes(): string {
  const all = eventTypes({ baseUrl: 'http://localhost:8080', relationPrefix: 'svc' });
  const byType = Map.groupBy(all, ({ resource }) => resource.type);
  const bodies = [...byType].map(([type, [first]]) => {
    const body = bodyOf(first?.schema ?? {});
    return `/** ${first?.resource.about} */\nexport type ${pascal(type)} = ${body};\n`;
  });
  const events = all.map(({ event, resource, when }) => `  /** ${when} */\n  '${event}': ${pascal(resource.type)};\n`);
  return `/** Types of the bodies of webhooks with the format json, made from the event catalogue by scripts/payload-types.ts. */

type Link = { readonly href: string; readonly title?: string };
type Properties = { readonly [name: string]: unknown };
/** The platform decides whether it embeds one resource or a list. */
type Embedded<Copy> = Copy | readonly Copy[];

${bodies.join('\n')}
/** The body of each event, without \`fields\` in the query of the webhook. */
export type Payloads = {
${events.join('')}};

/** An event with its body. \`event\` decides the type of \`payload\`. */
export type WebhookEvent = { [Event in keyof Payloads]: { event: Event; payload: Payloads[Event] } }[keyof Payloads];
`;
}

if (import.meta.main) await writeFile(PAYLOADS, payloadTypes());

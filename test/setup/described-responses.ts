/** Compares responses with an OpenAPI document: their status, media type and JSON body. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

type Described = { responses: Record<string, { content?: Record<string, unknown>; $ref?: string }> };

export type ApiDescription = {
  paths: Record<string, Record<string, Described>>;
  components: { responses: Record<string, { content?: Record<string, unknown> }> };
};

/** `path` is below the address of the server, without its query. */
export type Received = { method: string; path: string; status: number; contentType: string; text: string };

const escaped = (name: string): string => encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'));

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll(/[.+*?()|[\]\\]/g, String.raw`\$&`).replaceAll(/\{\w+\}/g, '[^/]+')}$`);

/** Returns a function that returns the contradictions between a response and the document. */
export function responseChecker(document: ApiDescription): (received: Received) => string[] {
  // Most schemas are compiled for one response, so optimizing their code takes longer than it saves.
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true, code: { optimize: false } });
  ajv.addSchema(document, 'api');
  const compiled = new Map<string, ValidateFunction>();
  const validator = (pointer: string): ValidateFunction => {
    const present = compiled.get(pointer) ?? ajv.compile({ $ref: `api#/${pointer}` });
    compiled.set(pointer, present);
    return present;
  };
  // Paths without parameters come first: they take precedence over templates.
  const paths = Object.keys(document.paths)
    .toSorted((a, b) => a.split('{').length - b.split('{').length)
    .map((path) => [path, patternOf(path)] as const);

  return ({ method, path, status, contentType, text }) => {
    const where = `${method} ${path} ${status}`;
    const template = paths.find(([, pattern]) => pattern.test(path))?.[0];
    if (template === undefined) return [`${where}: no such path`];
    const responses = document.paths[template]?.[method.toLowerCase()]?.responses ?? {};
    const key = [String(status), `${Math.floor(status / 100)}XX`].find((one) => Object.hasOwn(responses, one));
    const response = key === undefined ? undefined : responses[key];
    if (key === undefined || response === undefined) return [`${where}: the status is not described`];
    const shared = response.$ref?.split('/').at(-1);
    const content = shared === undefined ? response.content : document.components.responses[shared]?.content;
    if (text === '') return [];
    const [mediaType = ''] = contentType.split(';');
    if (content?.[mediaType] === undefined) return [`${where}: ${mediaType} is not described`];
    if (!mediaType.endsWith('json')) return [];
    const at =
      shared === undefined
        ? ['paths', template, method.toLowerCase(), 'responses', key]
        : ['components', 'responses', shared];
    const validate = validator([...at, 'content', mediaType, 'schema'].map(escaped).join('/'));
    return validate(JSON.parse(text)) ? [] : [`${where} ${mediaType}: ${ajv.errorsText(validate.errors)}`];
  };
}

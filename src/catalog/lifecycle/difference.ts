/** In which properties two versions of a subscription differ. */
import type { Value } from '#hypermedia/document.ts';
import { embeddedUnder } from '../document.ts';
import { meaningOf, type Subscription } from './facts.ts';

/** Not of its life: who it is, when it was written, where else it stands, and copies of other resources. */
const IGNORED: ReadonlySet<string> = new Set(['id', 'date_modified', '_links', '_embedded']);

/** What is embedded and is its own: what it buys. Transactions are its history, and a customer has a life of their own. */
export const OWN_RELATIONS = ['transaction_template', 'attributes'] as const;

/** Most are the very same, which is seen without reading what they mean. */
const differs = (name: string, was: Value | undefined, is: Value | undefined): boolean =>
  was !== is && meaningOf(name, was) !== meaningOf(name, is);

/** Relations count where both versions embed them: a publisher need not embed everything every time. */
const differsIn = (before: Subscription, after: Subscription, relation: string): boolean => {
  const [was, is] = [embeddedUnder(before, relation), embeddedUnder(after, relation)];
  return was !== undefined && is !== undefined && differs(relation, was, is);
};

/** What it says under a name that somebody else may have chosen. */
export const memberOf = (version: Subscription, name: string): Value | undefined =>
  Object.hasOwn(version, name) ? version[name] : undefined;

/** The names of the properties, and of its own relations, that do not say the same; in the order of the later version. */
export const differencesBetween = (before: Subscription, after: Subscription): string[] => {
  const names = [...new Set([...Object.keys(after), ...Object.keys(before)])].filter((name) => !IGNORED.has(name));
  return [
    ...names.filter((name) => differs(name, memberOf(before, name), memberOf(after, name))),
    ...OWN_RELATIONS.filter((relation) => differsIn(before, after, relation)),
  ];
};

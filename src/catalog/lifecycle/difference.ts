/** Finds the properties in which two versions of a subscription differ. */
import type { Value } from '#hypermedia/document.ts';
import { embeddedUnder } from '../document.ts';
import { comparableOf, type Subscription } from './facts.ts';

/** Properties without a meaning for the lifecycle: id, modification date, links, and copies of other resources. */
const IGNORED: ReadonlySet<string> = new Set(['id', 'date_modified', '_links', '_embedded']);

/** Embedded resources that belong to the subscription. Transactions are its history, and a customer changes independently. */
export const OWN_RELATIONS = ['transaction_template', 'attributes'] as const;

/** Identical values are skipped without a comparison of their contents. */
const differs = (name: string, was: Value | undefined, is: Value | undefined, timeZone: string): boolean =>
  was !== is && comparableOf(name, was, timeZone) !== comparableOf(name, is, timeZone);

/** Compares a relation only if both versions embed it, because a publisher need not embed everything each time. */
function differsIn(before: Subscription, after: Subscription, relation: string, timeZone: string): boolean {
  const [was, is] = [embeddedUnder(before, relation), embeddedUnder(after, relation)];
  return was !== undefined && is !== undefined && differs(relation, was, is, timeZone);
}

/** Returns an own property; the name may come from the publisher. */
export function memberOf(version: Subscription, name: string): Value | undefined {
  return Object.hasOwn(version, name) ? version[name] : undefined;
}

/** Returns the names of the properties and own relations that differ, in the order of the later version. */
export function differencesBetween(before: Subscription, after: Subscription, timeZone: string): string[] {
  const names = [...new Set([...Object.keys(after), ...Object.keys(before)])].filter((name) => !IGNORED.has(name));
  return [
    ...names.filter((name) => differs(name, memberOf(before, name), memberOf(after, name), timeZone)),
    ...OWN_RELATIONS.filter((relation) => differsIn(before, after, relation, timeZone)),
  ];
}

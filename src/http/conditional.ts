/** Conditional requests (RFC 9110 §13): entity tags, 304 and 412. */
import { hash } from 'node:crypto';
import type { Document } from '#hypermedia/document.ts';
import { Problem } from '#core/problem.ts';

/**
 * Returns a strong entity tag: the version of the document, if it has one, and a hash of media type and bytes. The
 * bytes are included because they depend on more than the version: webhook health, the store's time zone, the reader.
 */
export function etagOf({ version }: Pick<Document, 'version'>, mediaType: string, text: string): string {
  const digest = hash('sha1', `${mediaType}\n${text}`, 'base64url');
  return version === undefined ? `"${digest}"` : `"${version}-${digest}"`;
}

const TAG = /(W\/)?"([\x21\x23-\x7e\x80-\u{ffff}]*)"/gu;

const tagsOf = (header: string): { isWeak: boolean; tag: string }[] =>
  [...header.matchAll(TAG)].map(([, weak, tag = '']) => ({ isWeak: weak !== undefined, tag }));

/** Returns whether `If-None-Match` names the tag, by weak comparison (RFC 9110 §13.1.2). */
export function isKnown(ifNoneMatch: string | undefined, etag: string): boolean {
  return (
    ifNoneMatch !== undefined &&
    (ifNoneMatch.trim() === '*' || tagsOf(ifNoneMatch).some(({ tag }) => `"${tag}"` === etag))
  );
}

/** Returns the version in an entity tag, which is the same in every format and for every query. */
const versionIn = (tag: string): string | undefined => /^([^-]+)-/.exec(tag)?.[1];

type Conditions = Readonly<{ 'if-match'?: string | undefined; 'if-none-match'?: string | undefined }>;

/**
 * Returns the check that an operation runs before it changes version `currentVersion`. The check throws a 412 unless
 * `If-Match` is absent, `*`, or names the version with a strong tag (RFC 9110 §13.1.1), and if `If-None-Match` is `*`
 * or names it (§13.1.2).
 */
export function unmodifiedSince({ 'if-match': ifMatch, 'if-none-match': ifNoneMatch }: Conditions) {
  return (currentVersion: number | string): void => {
    const namesVersion = (tag: string): boolean => versionIn(tag) === String(currentVersion);
    const isExcluded =
      ifNoneMatch !== undefined &&
      (ifNoneMatch.trim() === '*' || tagsOf(ifNoneMatch).some(({ tag }) => namesVersion(tag)));
    const isMatch =
      ifMatch === undefined ||
      ifMatch.trim() === '*' ||
      tagsOf(ifMatch).some(({ isWeak, tag }) => !isWeak && namesVersion(tag));
    if (isMatch && !isExcluded) return;
    const field = isMatch ? 'If-None-Match' : 'If-Match';
    const message = isMatch
      ? 'The resource exists already, which If-None-Match excludes'
      : 'The resource has changed since you read it: read it again, and send the change with its new ETag';
    throw new Problem(412, { code: 'precondition_failed', message, field });
  };
}

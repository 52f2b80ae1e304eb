/** Conditional requests (RFC 9110 §13): answers that need not be sent again, and changes that must not meet others'. */
import { hash } from 'node:crypto';
import type { Document } from '#hypermedia/document.ts';
import { Problem } from '#core/problem.ts';

/**
 * A strong tag of these bytes: the version where the document has one, then a hash over media type and bytes. The bytes
 * count because more than a version shows in them: how a webhook fares, the store's time zone, who looks.
 */
export const etagOf = ({ version }: Pick<Document, 'version'>, mediaType: string, text: string): string => {
  const digest = hash('sha1', `${mediaType}\n${text}`, 'base64url');
  return version === undefined ? `"${digest}"` : `"${version}-${digest}"`;
};

const TAG = /(W\/)?"([\x21\x23-\x7e\x80-\u{ffff}]*)"/gu;

const tagsOf = (header: string): { isWeak: boolean; tag: string }[] =>
  [...header.matchAll(TAG)].map(([, weak, tag = '']) => ({ isWeak: weak !== undefined, tag }));

/** Whether `If-None-Match` names the tag: weak comparison (RFC 9110 §13.1.2). */
export const isKnown = (ifNoneMatch: string | undefined, etag: string): boolean =>
  ifNoneMatch !== undefined &&
  (ifNoneMatch.trim() === '*' || tagsOf(ifNoneMatch).some(({ tag }) => `"${tag}"` === etag));

/** The version that a tag of ours was made of: it is the same in every format and for every query. */
const versionIn = (tag: string): string | undefined => /^([^-]+)-/.exec(tag)?.[1];

type Conditions = Readonly<{ 'if-match'?: string | undefined; 'if-none-match'?: string | undefined }>;

/**
 * What an operation asks before it changes version `present`: throws a 412 unless `If-Match` is absent, `*`, or names it
 * with a strong tag (RFC 9110 §13.1.1), and where `If-None-Match` is `*` or names it (§13.1.2).
 */
export const unmodifiedSince =
  ({ 'if-match': ifMatch, 'if-none-match': ifNoneMatch }: Conditions) =>
  (present: number | string): void => {
    const names = (tag: string): boolean => versionIn(tag) === String(present);
    const isUnwanted =
      ifNoneMatch !== undefined && (ifNoneMatch.trim() === '*' || tagsOf(ifNoneMatch).some(({ tag }) => names(tag)));
    const isMeant =
      ifMatch === undefined ||
      ifMatch.trim() === '*' ||
      tagsOf(ifMatch).some(({ isWeak, tag }) => !isWeak && names(tag));
    if (isMeant && !isUnwanted) return;
    const field = isMeant ? 'If-None-Match' : 'If-Match';
    const message = isMeant
      ? 'It is there already, which the request does not want'
      : 'It has changed since you read it: read it again, and send the change with the ETag of that answer';
    throw new Problem(412, { code: 'precondition_failed', message, field });
  };

/** Schema parts that request bodies share: clearable texts and choices, flags, read-only members. */
import { Type, type TProperties } from 'typebox';
import type { FieldHints, Kind } from '#hypermedia/document.ts';

/** Keywords beside those of JSON Schema, for forms, the reference and validation. */
export type Hints = FieldHints & {
  /** One sentence for the person who fills it in (JSON Schema's own `description`). */
  description?: string;
  kind?: Kind;
  /** The default value (JSON Schema's own `default`), which forms preselect. */
  default?: string | undefined;
  /** Choices for forms, if the module validates the value itself. */
  choices?: readonly string[];
  /** An alternative name of another member, for compatibility: forms show only one of the two. */
  isOtherName?: true;
};

/** An object without other members than these. */
export function closedObject<Members extends TProperties>(members: Members) {
  return Type.Object(members, { additionalProperties: false });
}

/** A text that `null` and `""` clear. Lengths count code points. */
export function clearableText(options: Hints & { maxLength?: number } = {}) {
  return Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'], ...options }));
}

export function clearableChoice<Choice extends string>(choices: readonly Choice[], options: Hints = {}) {
  return Type.Optional(Type.Unsafe<Choice | '' | null>({ enum: [...choices, '', null], ...options }));
}

/** A read-only member: accepted with any value, and ignored. */
export function readOnly() {
  return Type.Optional(Type.Unknown({ readOnly: true }));
}

export type Flag = '1' | '0' | 1 | 0 | boolean | 'true' | 'false' | '';

/** A boolean, also in the spellings of forms; PHP's text for false is empty. */
export function flag(options: Hints = {}) {
  return Type.Optional(
    Type.Unsafe<Flag>({ enum: ['1', '0', 1, 0, true, false, 'true', 'false', ''], kind: 'boolean', ...options }),
  );
}

export function isSet(value: Flag | undefined): boolean {
  return ['1', 'true'].includes(String(value));
}

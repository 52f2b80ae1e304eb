/** Words that the schemas of bodies share: how a text is cleared, a flag is spelled, and what is only read. */
import { Type } from 'typebox';
import type { Kind } from '#hypermedia/document.ts';

/** What a schema may say beside JSON Schema's own words: forms, the reference and the machinery read it. */
export type Hints = {
  /** One sentence for whoever fills it in (JSON Schema's own `description`). */
  description?: string;
  kind?: Kind;
  /** What it is where nothing is said (JSON Schema's own): forms begin with it. */
  default?: string | undefined;
  /** What may be chosen, where the room itself says what else is wrong. */
  choices?: readonly string[];
  /** Forms make up a value: a key. */
  isGenerated?: true;
  /** Only the scope platform may change it: nobody else is asked for it. */
  isOfPlatform?: true;
  /** Of no use to a person: no page asks for it. */
  isForPrograms?: true;
  /** Few want it: forms fold it up. */
  isMinor?: true;
  /** Of another member, for clients that know it by that: forms ask for one of the two. */
  isOtherName?: true;
};

/** `null` and `""` clear it. Lengths count code points. */
export const clearableText = (options: Hints & { maxLength?: number } = {}) =>
  Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'], ...options }));

export const clearableChoice = <Choice extends string>(choices: readonly Choice[], options: Hints = {}) =>
  Type.Optional(Type.Unsafe<Choice | '' | null>({ enum: [...choices, '', null], ...options }));

/** Taken back with whatever value it was read, and ignored. */
export const readOnly = () => Type.Optional(Type.Unknown({ readOnly: true }));

export type Flag = '1' | '0' | 1 | 0 | boolean | 'true' | 'false' | '';

/** A form has no booleans, so their texts count too; PHP's text of false is empty. */
export const flag = (options: Hints = {}) =>
  Type.Optional(
    Type.Unsafe<Flag>({ enum: ['1', '0', 1, 0, true, false, 'true', 'false', ''], kind: 'boolean', ...options }),
  );

export const isSet = (value: Flag | undefined): boolean => ['1', 'true'].includes(String(value));

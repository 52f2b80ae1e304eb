/**
 * The context of a page beside the Document: the reader's session and the results of a form. Formats for programs ignore it.
 */
import type { Fault } from '#core/problem.ts';
import type { Action, Document, Field } from './document.ts';
import type { Markup } from './markup.ts';

/** A property of which a form and the stored resource have two values, as forms contain them. */
type Difference = { field: Field; typed: readonly string[]; stored: readonly string[] };

/** A form that is shown again with its input: it was rejected, or shows what it would do. */
export type Refused = {
  /** The name of the action. */
  action: string;
  values: Readonly<Record<string, string | readonly string[]>>;
  /** The version that the form was opened with, so that sending it again does not undo changes of others. */
  version: string;
  faults: readonly Fault[];
  /** What the form would do. */
  preview?: string;
  /** The resource was changed since the form was opened: what the person has to choose from. */
  conflict?: readonly Difference[];
};

/** A value that a form offers for a field. */
export type Suggestion = { label: string; value: string };

/** Important messages above the page, of a sentence or two each, and suggested values of fields by name, the first one chosen. */
export type Advice = { paragraphs: readonly Markup[]; suggested: Readonly<Record<string, readonly Suggestion[]>> };

export type View = {
  /** Navigation of the header. */
  nav: Markup;
  /** The name of the store that the page belongs to, for its title. */
  store?: string | undefined;
  /** Session data of forms; undefined without a session, and then there are no forms. */
  session:
    | {
        /** Returns the nonce that proves that the form is of a page of this session. */
        nonceOf: (action: Action) => string;
        /** Idempotency key of the form. */
        onceKey: string;
      }
    | undefined;
  refused?: Refused;
  /** The page shows it above the content. */
  charts?: Charts;
  advice?: Advice;
  /** A document with current numbers that a designed page shows beside its own: the health of a webhook. */
  summary?: Document;
  /** The message about a completed action. */
  done?: string;
  /** The address of a stream that says when the content has changed (dashboard/live.ts). */
  liveAddress?: string;
};

/** Amounts per day in one currency, since two currencies cannot share an axis. */
export type Curve = {
  title: string;
  /** ISO 4217 code of all values. */
  currency: string;
  /** In ascending order; `day` is `YYYY-MM-DD`. */
  points: readonly { day: string; value: number }[];
};

/**
 * A chart of hours or longer spans: title, summary in one sentence, and the start of each (`14:00 UTC+2`, `1 Jul 14:00 UTC+2`), oldest
 * first.
 */
type Hourly = { title: string; summary: string; hours: readonly string[] };

/** A count per hour. */
type Counted = { name: string; counts: readonly number[] };

/** Stacked bars per hour: successes below, failures on top. */
export type Bars = Hourly & { good: Counted; bad: Counted };

/** A value per hour; null without data. */
export type Measured = { name: string; values: readonly (number | null)[] };

/** Two series in one unit: the main one and one for comparison. */
export type Lines = Hourly & { unit: string; main: Measured; beside: Measured };

/** Data of charts, which only pages show: programs read the numbers in the document. `note`: a sentence about data that is not shown. */
export type Charts = {
  curves?: readonly Curve[];
  bars?: readonly Bars[];
  lines?: readonly Lines[];
  note?: string;
};

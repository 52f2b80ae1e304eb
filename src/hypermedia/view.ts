/** What a page needs to know beside the Document: who looks at it, and what has just happened. Formats for programs ignore it. */
import type { Fault } from '#core/problem.ts';
import type { Charts } from './chart.ts';
import type { Action } from './document.ts';
import type { Markup } from './markup.ts';

/** A form that was sent and refused: nothing of what somebody has typed is lost. */
export type Refused = {
  /** The name of the action. */
  action: string;
  values: Readonly<Record<string, string | readonly string[]>>;
  /** Of what was shown when it was filled in: what others have changed since is not undone by sending it again. */
  version: string;
  faults: readonly Fault[];
};

/** What somebody has to know before all else, a sentence or two each, and what forms begin with: by the name of the field. */
export type Advice = { paragraphs: readonly Markup[]; suggested: Readonly<Record<string, string>> };

export type View = {
  /** The way around, for the shell's header. */
  nav: Markup;
  /** What the forms carry of the reader's session; undefined where there is none, and then there are no forms. */
  session:
    | {
        /** Proves that a page of this session was given the form. */
        nonceOf: (action: Action) => string;
        /** Makes of a form that is sent twice one thing. */
        onceKey: string;
      }
    | undefined;
  refused?: Refused;
  /** Drawn above what the document says. */
  charts?: Charts;
  advice?: Advice;
  /** What was just done, as a sentence. */
  done?: string;
  /** It asks for itself again, or would, had nobody stopped it; `href` leads to the other of the two. */
  refresh?: { seconds: number; isStopped: boolean; href: string };
};

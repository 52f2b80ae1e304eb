/** The page and the form by which an operator suspends something for a reason, and ends the suspension. */
import type { People } from '#identity/accounts/people.ts';
import type { Session } from '#identity/accounts/sessions.ts';
import { notFound } from '#core/problem.ts';
import { REASON_LENGTH_MAX } from '#core/suspension.ts';
import { isLonger, isName } from '#core/text.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawRequest, RawResponse } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { consolePage, suspensionCard, type EFFECTS } from './console-pages.ts';

/** The reason is null for the end of a suspension. */
export type Suspension = { reason: string | null; operatorId: number; now: Date };

/** `reason`: why it is suspended; null if it is not. `content` renders what its page says of it. */
type Suspendable = { id: string; name: string; reason: string | null; content: () => Markup | Promise<Markup> };

const actOf = (form: URLSearchParams) => (form.get('act') === 'resume' ? 'resume' : 'suspend');

/** Returns the reason; undefined if it is empty, or has more than one line. */
function readReason(form: URLSearchParams): string | undefined {
  const reason = form.get('reason')?.trim() ?? '';
  return isName(reason) && !isLonger(reason, REASON_LENGTH_MAX) ? reason : undefined;
}

const NO_REASON = `The reason must be one line with letters, of at most ${REASON_LENGTH_MAX} characters`;

/** Creates both handlers, which only an operator may get (`console.ts`). The nonce is bound to the act and to what it changes. */
export function suspensionPages(
  verified: People['verified'],
  root: string,
  deps: {
    what: keyof typeof EFFECTS;
    find: (request: RawRequest) => Promise<Suspendable | undefined>;
    set: (id: string, suspension: Suspension) => Promise<void>;
  },
): Record<'show' | 'submit', (request: RawRequest, session: Session) => Promise<RawResponse>> {
  const { what, find, set } = deps;
  const found = async (request: RawRequest): Promise<Suspendable> => {
    const one = await find(request);
    if (one === undefined) throw notFound(what);
    return one;
  };
  const show = async (request: RawRequest, session: Session, fault?: string): Promise<RawResponse> => {
    const { name, reason, content } = await found(request);
    const bound = [reason === null ? 'suspend' : 'resume', request.path];
    const card = suspensionCard({ at: request.path, what, name, reason, nonce: verified.nonce(session, bound), fault });
    return htmlAnswer(fault === undefined ? 200 : 422, consolePage(root, name, html`${await content()} ${card}`));
  };
  const submit = verified.sensitiveForm(
    ({ path, form }) => [actOf(form), path],
    async (request, session) => {
      const { id } = await found(request);
      const reason = actOf(request.form) === 'resume' ? null : readReason(request.form);
      if (reason === undefined) return show(request, session, NO_REASON);
      await set(id, { reason, operatorId: session.userId, now: request.now });
      return redirectAnswer(request.path);
    },
  );
  return { show: (request, session) => show(request, session), submit: (request) => submit(request) };
}

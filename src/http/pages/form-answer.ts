/**
 * Handles a form that a page has posted: redirects to the page of the result, or renders the form again with its input
 * and errors.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Document, Field } from '#hypermedia/document.ts';
import { Problem, type Fault } from '#core/problem.ts';
import { documentAddress, fieldsOf, targetPath, type Target } from '../actions.ts';
import type { Caller, Visitor } from '../caller.ts';
import { formValue } from '#hypermedia/html/form.ts';
import { DONE, type Done, type CreatedResult, type OperationResult } from '../operation.ts';
import { bodyOf, readFormPost, type FormPost, keptForm } from './form-post.ts';
import { sendRaw, toRawRequest } from '../raw-endpoint.ts';
import type { Advice, Refused } from '#hypermedia/view.ts';
import { designedPage, sendDocument, viewOf, withheldSecrets } from '../reply.ts';
import type { Method, Resource } from '../route.ts';
import type { Run } from '../resource.ts';
import type { Services } from '../services.ts';
import { addressOf, methodNotAllowed, pathOf } from '../requests.ts';

export type PostedForm = {
  request: FastifyRequest;
  reply: FastifyReply;
  caller: Caller;
  visitor: Visitor;
  route: Resource;
  runs: Partial<Record<Method, Run>>;
  allow: string;
  target: Target;
};

/** Statuses of errors that the person can correct in the form; all others are a page of their own. */
const CORRECTABLE: ReadonlySet<number> = new Set([400, 409, 412, 422]);

/** A 403 that names a field is correctable: without that field the others can be saved. */
const isCorrectable = ({ status, faults }: Problem): boolean =>
  CORRECTABLE.has(status) || (status === 403 && faults.some(({ field }) => field !== undefined));

/** 303, so that a reload does not post again. */
function redirectTo(reply: FastifyReply, address: string, services: Services, done: Done) {
  const { pathname, search } = new URL(address, services.naming.baseUrl);
  const query = new URLSearchParams(search);
  query.set(DONE, done);
  return reply.headers({ 'Cache-Control': 'no-store' }).redirect(`${pathname}?${query.toString()}`, 303);
}

function redirectAfter(services: Services, { request, reply, target }: PostedForm, result: OperationResult) {
  if ('open' in result) throw new TypeError('A form cannot be answered with an event stream');
  switch (result.status) {
    case 200:
      return redirectTo(
        reply,
        result.next ?? targetPath(target, request),
        services,
        result.done ?? (target.isActionRoute ? 'done' : 'changed'),
      );
    case 202:
      return redirectTo(reply, result.next ?? result.location ?? targetPath(target, request), services, 'begun');
    case 204:
      return redirectTo(reply, result.next ?? services.settings.home, services, result.done ?? 'deleted');
    case 201:
      return redirectTo(reply, result.location, services, 'created');
  }
}

type FormPage = { document: Document; advice: (() => Promise<Advice | undefined>) | undefined };

/** Returns the document of the page that contains the form, with its advice; undefined if it cannot be read. */
async function formPage(services: Services, { request, caller, target }: PostedForm): Promise<FormPage | undefined> {
  const result = await target.read?.(request, caller);
  if (result === undefined || !('document' in result)) return undefined;
  const address = new URL(targetPath(target, request), services.naming.baseUrl).href;
  const document = target.withActions(result.document, caller, documentAddress(request, address));
  return { document, advice: 'advice' in result ? result.advice : undefined };
}

/** Returns the action of the form: that with its method and address. */
function actionOf(services: Services, { request }: PostedForm, document: Document | undefined, post: FormPost) {
  const address = addressOf(request, services);
  return document?.actions?.find(({ method, href }) => method === post.method && href === address);
}

/** People see neither entity tags nor idempotency keys, so these errors have other messages in forms. */
const FORM_MESSAGES: Readonly<Record<string, Fault>> = {
  precondition_failed: {
    code: 'precondition_failed',
    message: 'This was changed since you opened the page: choose your version or the stored one',
  },
  idempotency_key_reused: {
    code: 'idempotency_key_reused',
    message:
      'This form was already sent with other values: check whether they were saved, and send it again if you want both',
  },
};

/**
 * Renders the created document with its secret, which a redirect would lose. A reload sends the form again, and the idempotency key
 * of the form makes the response the same.
 */
async function renderSecret(
  services: Services,
  { request, reply, caller }: PostedForm,
  { document, location }: CreatedResult,
) {
  const shown = { document, naming: services.naming, view: viewOf(services, caller.visitor, document) };
  const page = await designedPage(services, shown);
  reply.header('Location', location);
  return sendDocument(reply, request, caller.representation, { ...shown, status: 201, isSecret: true, page });
}

const textsOf = (value: unknown): readonly string[] => (Array.isArray(value) ? value.map(String) : [String(value)]);

/** Returns the properties that the body would change. */
const differencesOf = (body: Readonly<Record<string, unknown>>, fields: readonly Field[]) =>
  fields.flatMap((field) =>
    Object.hasOwn(body, field.name)
      ? [{ field, typed: textsOf(body[field.name]), stored: [formValue(field.value)].flat() }]
      : [],
  );

/** Renders the form with its input, and what is wrong with it or what it would do. */
async function renderAgain(
  services: Services,
  form: PostedForm,
  { document: whole, advice: readAdvice }: FormPage,
  {
    post,
    status,
    faults,
    ...rest
  }: Pick<Refused, 'faults' | 'preview' | 'conflict'> & { post: FormPost; status: number },
) {
  const { request, reply, caller } = form;
  const action = actionOf(services, form, whole, post)?.name ?? post.method;
  const document = withheldSecrets(whole, form.visitor.confirmAt(pathOf(request)));
  const { values } = post;
  // A person who has seen both versions may replace the stored one, but no later one.
  const version = rest.conflict === undefined ? post.version : String(document.version);
  const advice = await readAdvice?.();
  const refused = { action, values, version, faults, ...rest };
  const view = viewOf(services, caller.visitor, document, { refused, ...(advice && { advice }) });
  const shown = { document, naming: services.naming, view };
  const page = await designedPage(services, shown);
  return sendDocument(reply, request, caller.representation, { ...shown, status, isSecret: false, page });
}

const bytesOf = ({ body }: FastifyRequest): Uint8Array => (body instanceof Uint8Array ? body : Buffer.alloc(0));

/** Redirects a person whose session has ended, or does not suffice, to sign-in, from which they return to the page of the form. */
export function answerSignedOut(
  { pages, clock }: Services,
  { request, reply, route, target }: Pick<PostedForm, 'request' | 'reply' | 'route' | 'target'>,
) {
  const [path, page] = [pathOf(request), targetPath(target, request)];
  const post = readFormPost(bytesOf(request), path, null);
  const kept = keptForm(post, { page, path, fields: fieldsOf(route.operations[post.method]?.input) });
  const cookie = kept && pages.keep(kept, clock.now());
  if (cookie !== undefined) reply.header('Set-Cookie', cookie);
  return reply
    .headers({ 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' })
    .redirect(pages.signInAt(page), 303);
}

const STALE: Fault = {
  code: 'stale_form',
  message: 'You have signed in again since you opened this form; nothing was changed. Check it, and send it again',
};

export async function answerForm(services: Services, form: PostedForm) {
  const { request, reply, caller, visitor, route, runs, allow } = form;
  const post = readFormPost(bytesOf(request), pathOf(request), visitor);
  // The second click on Delete: a DELETE is idempotent (RFC 9110 §9.2.2), and the resource is deleted already.
  const isGone = (thrown: unknown): boolean =>
    post.method === 'DELETE' && thrown instanceof Problem && thrown.status === 404;
  const leadHome = () => redirectTo(reply, services.settings.home, services, 'gone');
  let page: FormPage | undefined;
  try {
    page = await formPage(services, form);
  } catch (thrown) {
    if (isGone(thrown)) return leadHome();
    throw thrown;
  }
  if (post.isStale) {
    if (page === undefined) throw new Problem(403, STALE);
    return renderAgain(services, form, page, { post, status: 403, faults: [STALE] });
  }
  const run = runs[post.method];
  const input = route.operations[post.method]?.input;
  if (run === undefined) throw methodNotAllowed(request, allow);
  const fields = actionOf(services, form, page?.document, post)?.fields ?? fieldsOf(input);
  const body = bodyOf(post, { fields });
  if (post.method === 'PATCH' && Object.keys(body).length === 0) {
    return redirectTo(reply, pathOf(request), services, 'unchanged');
  }
  // A changed secret, such as the key of a webhook, is as sensitive as its rotation.
  const isSensitiveField = ({ kind, isSensitive, name }: Field): boolean =>
    (kind === 'secret' || isSensitive === true) && name in body;
  const changesSecret = post.method !== 'POST' && fields.some(isSensitiveField);
  if (changesSecret || route.operations[post.method]?.isSensitive === true) {
    if (visitor.confirm === undefined) return answerSignedOut(services, form);
    const confirmation = await visitor.confirm(toRawRequest(request, services.clock.now()));
    if (confirmation !== undefined) return sendRaw(reply, confirmation);
  }
  const ifMatch = post.version === '' ? undefined : `"${post.version}-"`;
  try {
    const result = await run(request, caller, { body, ifMatch, key: post.key, isPreview: post.isPreview });
    const preview = 'preview' in result ? result.preview : undefined;
    if (page !== undefined && preview !== undefined)
      return await renderAgain(services, form, page, { post, status: 200, faults: [], preview });
    if (!('open' in result) && result.status === 201 && result.isSecret)
      return await renderSecret(services, form, result);
    return redirectAfter(services, form, result);
  } catch (thrown) {
    if (isGone(thrown)) return leadHome();
    if (!(thrown instanceof Problem) || !isCorrectable(thrown) || page === undefined) throw thrown;
    const faults = thrown.faults.map((fault) => FORM_MESSAGES[fault.code] ?? fault);
    const { status } = thrown;
    const conflict = post.method === 'PATCH' ? differencesOf(body, fields) : [];
    return renderAgain(services, form, page, { post, status, faults, ...(status === 412 && { conflict }) });
  }
}

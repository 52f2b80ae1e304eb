/** What comes of a form that a page has posted: on to the page that shows it, or the page again with all that was typed. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Document } from '#hypermedia/document.ts';
import { Problem, type Fault } from '#core/problem.ts';
import { fieldsOf } from '../actions.ts';
import { pathBehind, whereOf, type Behind } from '../behind.ts';
import type { Caller, Visitor } from '../caller.ts';
import { DONE, type Done } from './done.ts';
import { bodyOf, readFormPost, type FormPost } from './form-post.ts';
import type { Answer } from '../operation.ts';
import { sendDocument, viewOf } from '../reply.ts';
import type { Method, Resource } from '../route.ts';
import type { Run } from '../run.ts';
import { addressOf, methodNotAllowed, pathOf, type Services } from '../services.ts';

export type PostedForm = {
  request: FastifyRequest;
  reply: FastifyReply;
  caller: Caller;
  visitor: Visitor;
  route: Resource;
  runs: Partial<Record<Method, Run>>;
  allow: string;
  behind: Behind;
};

/** What somebody can mend where they are: everything else is a page of its own. */
const MENDABLE: ReadonlySet<number> = new Set([400, 409, 412, 422]);

/** So can they where one field is not theirs to set: without it all the others may be. */
const isMendable = ({ status, faults }: Problem): boolean =>
  MENDABLE.has(status) || (status === 403 && faults.some(({ field }) => field !== undefined));

/** 303, so that a reload does not post again. */
const goTo = (reply: FastifyReply, address: string, services: Services, done: Done) => {
  const { pathname, search } = new URL(address, services.naming.baseUrl);
  const query = new URLSearchParams(search);
  query.set(DONE, done);
  return reply.headers({ 'Cache-Control': 'no-store' }).redirect(`${pathname}?${query.toString()}`, 303);
};

const goOn = (services: Services, { request, reply, behind }: PostedForm, answer: Answer) => {
  if ('open' in answer) throw new TypeError('A form cannot be answered with what goes on without end');
  switch (answer.status) {
    case 200:
      return goTo(
        reply,
        answer.next ?? pathBehind(behind, request),
        services,
        answer.done ?? (behind.isAbove ? 'done' : 'changed'),
      );
    case 202:
      return goTo(reply, answer.next ?? answer.location ?? pathBehind(behind, request), services, 'begun');
    case 204:
      return goTo(reply, answer.next ?? services.settings.home, services, 'deleted');
    case 201:
      return goTo(reply, answer.location, services, 'created');
  }
};

/** The page that the form stood on; undefined where there is none. */
const pageBehind = async (services: Services, { request, caller, behind }: PostedForm) => {
  const answer = await behind.read?.(request, caller);
  if (answer === undefined || !('document' in answer)) return undefined;
  const address = new URL(pathBehind(behind, request), services.naming.baseUrl).href;
  return behind.withActions(answer.document, caller, whereOf(request, address));
};

/** The one that a form was for: at the address that it was sent to. */
const actionOf = (services: Services, { request }: PostedForm, document: Document | undefined, post: FormPost) => {
  const address = addressOf(request, services);
  return document?.actions?.find(({ method, href }) => method === post.method && href === address);
};

/** What the machinery says to programs of tags and keys is not for people, who see neither. */
const forPeople: Readonly<Record<string, Fault>> = {
  precondition_failed: {
    code: 'precondition_failed',
    message: 'Somebody has changed this since you opened it: load the page again, and make your change there',
  },
  idempotency_key_reused: {
    code: 'idempotency_key_reused',
    message:
      'This form was sent before with something else in it: look whether that is there, and send it again if you want both',
  },
};

const showAgain = (
  services: Services,
  form: PostedForm,
  { document, post, problem }: { document: Document; post: FormPost; problem: Problem },
) => {
  const { request, reply, caller } = form;
  const action = actionOf(services, form, document, post)?.name ?? post.method;
  const { values, version } = post;
  const faults = problem.faults.map((fault) => forPeople[fault.code] ?? fault);
  const view = viewOf(services, caller.visitor, document, { refused: { action, values, version, faults } });
  const { naming } = services;
  const { status } = problem;
  return sendDocument(reply, request, caller.representation, { status, document, naming, isSecret: false, view });
};

export const answerForm = async (services: Services, form: PostedForm) => {
  const { request, reply, caller, visitor, route, runs, allow } = form;
  const bytes = request.body instanceof Uint8Array ? request.body : Buffer.alloc(0);
  const post = readFormPost(bytes, pathOf(request), visitor);
  const run = runs[post.method];
  const input = route.operations[post.method]?.input;
  if (run === undefined) throw methodNotAllowed(request, allow);
  const document = await pageBehind(services, form);
  const action = actionOf(services, form, document, post);
  const body = bodyOf(post, { fields: action?.fields ?? fieldsOf(input) });
  if (post.method === 'PATCH' && Object.keys(body).length === 0) {
    return goTo(reply, pathOf(request), services, 'unchanged');
  }
  const ifMatch = post.version === '' ? undefined : `"${post.version}-"`;
  try {
    return goOn(services, form, await run(request, caller, { body, ifMatch, key: post.key }));
  } catch (thrown) {
    if (!(thrown instanceof Problem) || !isMendable(thrown) || document === undefined) throw thrown;
    return showAgain(services, form, { document, post, problem: thrown });
  }
};

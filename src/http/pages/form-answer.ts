/** What comes of a form that a page has posted: on to the page that shows it, or the page again with all that was typed. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Document } from '#hypermedia/document.ts';
import { Problem, type Fault } from '#kernel/problem.ts';
import { fieldsOf, type WithActions } from '../actions.ts';
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
  withActions: WithActions;
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

const goOn = (services: Services, { request, reply }: PostedForm, answer: Answer) => {
  switch (answer.status) {
    case 200:
    case 202:
      return goTo(reply, pathOf(request), services, 'changed');
    case 204:
      return goTo(reply, answer.next ?? services.settings.home, services, 'deleted');
    case 201:
      return goTo(reply, answer.location, services, 'created');
  }
};

/** The page that the form stood on; undefined where there is none. */
const pageBehind = async (services: Services, { request, caller, runs, withActions }: PostedForm) => {
  const answer = await runs.GET?.(request, caller);
  if (answer === undefined || answer.status === 204) return undefined;
  return withActions(answer.document, caller, addressOf(request, services));
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
  { request, reply, caller }: PostedForm,
  { document, post, problem }: { document: Document; post: FormPost; problem: Problem },
) => {
  const action = document.actions?.find(({ method }) => method === post.method)?.name ?? post.method;
  const { values, version } = post;
  const faults = problem.faults.map((fault) => forPeople[fault.code] ?? fault);
  const view = viewOf(services, caller.visitor, { refused: { action, values, version, faults } });
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
  const action = document?.actions?.find(({ method }) => method === post.method);
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

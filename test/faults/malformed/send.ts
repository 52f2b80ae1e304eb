/** Sends malformed requests over several connections at once, with valid ones in between, and records the answers. */
import * as fc from 'fast-check';
import { wrongInError } from '../../security/error-shape.ts';
import { malformedPaths, malformedQueries } from './addresses.ts';
import { largeBodies, malformedBodies } from './bodies.ts';
import { brokenFraming } from './framing.ts';
import { malformedHeaders } from './headers.ts';
import type { Fixture } from './fixture.ts';
import { messageOf, type Message } from './message.ts';
import { askAlone, openLine, shown, type Answer, type Line } from '../../setup/wire.ts';

const LINES = 6;
/** Requests that are sent before the first of them is answered. */
const PIPELINED = 32;
const ANSWER_TIMEOUT_MS = 10_000;
const SHOWN_MAX = 10;

type Family = { name: string; share: number; isAlone?: true; messages: (fixture: Fixture) => fc.Arbitrary<Message> };

const families: readonly Family[] = [
  { name: 'bodies', share: 0.3, messages: malformedBodies },
  { name: 'headers', share: 0.25, messages: malformedHeaders },
  { name: 'queries', share: 0.22, messages: malformedQueries },
  { name: 'paths', share: 0.15, messages: malformedPaths },
  { name: 'framing', share: 0.08, isAlone: true, messages: brokenFraming },
];

export type Success = { method: string; target: string; status: number; location: string | undefined };

export type Report = {
  sent: number;
  /** By family, the count of each status; `closed` if the connection ended without an answer. */
  statuses: Record<string, Record<string, number>>;
  /** Requests with an answer that must not happen, or without one: what was wrong, and the request as text. */
  wrong: string[];
  /** Valid requests in between, and those of them that did not succeed. */
  good: { asked: number; refused: string[] };
  successes: Success[];
};

function nothing(what: string): never {
  throw new TypeError(`There is nothing ${what}`);
}

function wrongIn({ isResource, method }: Message, { status, head, body }: Answer): string | undefined {
  if (!(status >= 200 && status < 500)) return `status ${status}`;
  const isShaped =
    isResource && status >= 400 && method !== 'HEAD' && /content-type: application\/hal\+json/i.test(head);
  // Node's own answer to an Expect that it does not support.
  return isShaped && status !== 417 ? wrongInError(status, body.toString()) : undefined;
}

function note(report: Report, family: string, message: Message, answer: Answer | undefined): void {
  const { status = 'closed', head = '' } = answer ?? {};
  const counts = (report.statuses[family] ??= {});
  counts[status] = (counts[status] ?? 0) + 1;
  report.sent += 1;
  const wrong = answer === undefined ? undefined : wrongIn(message, answer);
  if (wrong !== undefined && report.wrong.length < SHOWN_MAX)
    report.wrong.push(`${wrong}: ${shown(message)} → ${answer?.body.toString().slice(0, 300) ?? ''}`);
  const { method, target } = message;
  const isChange = !['GET', 'HEAD', 'OPTIONS'].includes(method);
  if (isChange && typeof status === 'number' && status < 300)
    report.successes.push({ method, target, status, location: /\r\nlocation: (.*)/i.exec(head)?.[1] });
}

const goodMessages = (fixture: Fixture): readonly Message[] =>
  fixture.good.map(({ path, who }) => {
    const spot = { method: 'GET', path, input: undefined, isResource: true };
    return messageOf(fixture, { spot, headers: who });
  });

/** A batch with a valid request at its end; everything has to be answered, on the one connection. */
async function sendTogether(line: Line, family: string, batch: readonly Message[], good: Message, report: Report) {
  const answers = await line.ask([...batch, good]);
  if (answers.length <= batch.length) {
    const last = batch[answers.length] ?? good;
    const said = answers.at(-1)?.head ?? 'nothing';
    throw new Error(`After ${said} the connection ended instead of an answer to ${shown(last)}`);
  }
  for (const [index, message] of batch.entries()) note(report, family, message, answers[index]);
  report.good.asked += 1;
  const status = answers.at(-1)?.status ?? 0;
  if (status !== 200 && report.good.refused.length < SHOWN_MAX) report.good.refused.push(`${status} to ${shown(good)}`);
}

/** Input that is barely HTTP may end the connection; an answer counts as for any other. */
async function sendAlone(port: number, family: string, message: Message, report: Report): Promise<void> {
  const answers = await askAlone(port, message, {
    timeoutMs: ANSWER_TIMEOUT_MS,
    ...(family === 'large' && { wanted: 1 }),
  });
  if (answers.length === 0) note(report, family, message, undefined);
  for (const answer of answers) note(report, family, message, answer);
}

/** The jobs in an order that mixes the families, so that none is alone with the server. */
const jobsOf = (fixture: Fixture, total: number) =>
  families
    .flatMap((family) => {
      const messages = family.messages(fixture);
      const batches = Math.ceil((total * family.share) / PIPELINED);
      return Array.from({ length: batches }, (_, index) => ({ family, messages, at: index / batches }));
    })
    .toSorted((a, b) => a.at - b.at);

/** Sends about `total` requests, the same ones for the same seed. */
export async function storm(fixture: Fixture, { total, seed }: { total: number; seed: number }): Promise<Report> {
  const report: Report = { sent: 0, statuses: {}, wrong: [], good: { asked: 0, refused: [] }, successes: [] };
  const port = Number(new URL(fixture.app.baseUrl).port);
  const good = goodMessages(fixture);
  const jobs = jobsOf(fixture, total);
  let next = 0;
  const work = async (): Promise<void> => {
    const line = await openLine(port, ANSWER_TIMEOUT_MS);
    for (let index = next++; index < jobs.length; index = next++) {
      const { family, messages } = jobs[index] ?? nothing('to send');
      const batch = fc.sample(messages, { numRuns: PIPELINED, seed: seed + index });
      if (family.isAlone === true) {
        for (const message of batch) await sendAlone(port, family.name, message, report);
      } else {
        await sendTogether(line, family.name, batch, good[index % good.length] ?? nothing('good to ask'), report);
      }
    }
    line.close();
  };
  await Promise.all(Array.from({ length: LINES }, work));
  for (const message of largeBodies(fixture)) await sendAlone(port, 'large', message, report);
  return report;
}

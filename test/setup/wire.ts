/** The client side of a connection: sends bytes and parses responses in the order of the requests. */
import { connect, type Socket } from 'node:net';
/** `method` determines whether the response has a body. */
export type Message = { method: string; bytes: Buffer };

const NOTHING: Message = { method: 'GET', bytes: Buffer.alloc(0) };
const SHOWN_CHARACTERS = 1_500;

/** Returns a request as one line, to reproduce it. */
export function shown({ bytes }: Message): string {
  return JSON.stringify(bytes.subarray(0, SHOWN_CHARACTERS).toString('latin1'));
}

export type Answer = { status: number; head: string; body: Buffer };

const HEAD_END = '\r\n\r\n';
const NO_CHUNK = '0\r\n\r\n';

/** Our responses have a Content-Length; an empty response of Node is one empty chunk. */
function lengthOf(head: string, body: Buffer): number {
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length !== undefined) return Number(length);
  if (!/\r\ntransfer-encoding: chunked/i.test(head))
    throw new Error(`An answer that does not say how long it is: ${head}`);
  const end = body.indexOf(NO_CHUNK);
  return end === -1 ? Number.POSITIVE_INFINITY : end + NO_CHUNK.length;
}

/** Returns the first response in the bytes and the rest; undefined while it is incomplete. */
function takeAnswer(bytes: Buffer, isHead: boolean): { answer: Answer; rest: Buffer } | undefined {
  const end = bytes.indexOf(HEAD_END);
  if (end === -1) return undefined;
  const head = bytes.subarray(0, end).toString('latin1');
  const status = Number(head.slice(9, 12));
  const isBare = isHead || status < 200 || status === 204 || status === 304;
  const start = end + HEAD_END.length;
  const length = isBare ? 0 : lengthOf(head, bytes.subarray(start));
  if (bytes.length < start + length) return undefined;
  // "100 Continue" precedes the response.
  const rest = bytes.subarray(start + length);
  if (status < 200) return takeAnswer(rest, isHead);
  return { answer: { status, head, body: bytes.subarray(start, start + length) }, rest };
}

/** Reads responses until there are as many as requested, or the connection ends. `asked`: the request of the next response. */
function collect(socket: Socket, asked: (index: number) => Message, wanted: number, timeoutMs: number) {
  const { promise, resolve, reject } = Promise.withResolvers<Answer[]>();
  const answers: Answer[] = [];
  const isHead = () => asked(answers.length).method === 'HEAD';
  let bytes: Buffer = Buffer.alloc(0);
  const giveUp = () => reject(new Error(`${timeoutMs} ms without an answer to ${shown(asked(answers.length))}`));
  const late = setTimeout(giveUp, timeoutMs);
  const onData = (chunk: Buffer): void => {
    bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
    try {
      for (let next = takeAnswer(bytes, isHead()); next !== undefined;) {
        answers.push(next.answer);
        bytes = next.rest;
        next = takeAnswer(bytes, isHead());
      }
    } catch (error) {
      reject(error);
    }
    if (answers.length >= wanted) resolve(answers);
  };
  const onClose = (): void => resolve(answers);
  socket.on('data', onData).on('close', onClose);
  return promise.finally(() => {
    clearTimeout(late);
    socket.off('data', onData).off('close', onClose);
  });
}

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' });
  // A server that closes the connection while the client sends resets it; earlier responses count.
  socket.on('error', () => socket.destroy());
  await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
  return socket;
}

export type Line = {
  /** Sends all requests together and returns the responses received before the connection ended. */
  ask: (messages: readonly Message[]) => Promise<readonly Answer[]>;
  close: () => void;
};

/** A persistent connection. */
export async function openLine(port: number, timeoutMs: number): Promise<Line> {
  const socket = await open(port);
  return {
    ask: (messages) => {
      const [first = NOTHING] = messages;
      const answers = collect(socket, (index) => messages[index] ?? first, messages.length, timeoutMs);
      socket.write(Buffer.concat(messages.map(({ bytes }) => bytes)));
      return answers;
    },
    close: () => socket.destroy(),
  };
}

/**
 * Sends bytes on a new connection and returns the responses, at most `wanted`, until the server closes it. `ends` half-closes the
 * connection after sending; Node then aborts running requests.
 */
export async function askAlone(
  port: number,
  message: Message,
  {
    timeoutMs,
    wanted = Number.POSITIVE_INFINITY,
    ends = false,
  }: { timeoutMs: number; wanted?: number; ends?: boolean },
): Promise<readonly Answer[]> {
  const socket = await open(port);
  try {
    const answers = collect(socket, () => message, wanted, timeoutMs);
    socket.write(message.bytes);
    if (ends) socket.end();
    return await answers;
  } finally {
    socket.destroy();
  }
}

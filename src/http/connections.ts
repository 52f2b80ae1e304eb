/** What comes over a connection beside requests: what is not HTTP, and `Expect`. Answers leave in the order of the requests. */
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

type ConnectionError = Error & { code?: string };

/** `refusal` is the whole answer to what cannot be read, with a head that says the connection ends. */
export const createConnections = (refusal: (status: 400 | 431) => string) => {
  /** Answers of a connection that have not left yet, in the order of their requests. */
  const answers = new WeakMap<Socket, ServerResponse[]>();

  const remember = (socket: Socket, response: ServerResponse): void => {
    const waiting = (answers.get(socket) ?? []).filter(({ closed }) => !closed);
    answers.set(socket, [...waiting, response]);
  };

  const end = (socket: Socket, status: 400 | 431, broken: ServerResponse | undefined): void => {
    // Whoever broke off in the middle of a body that nobody waited for has an answer already.
    if (broken?.headersSent === true) socket.end();
    else if (socket.writable) socket.end(refusal(status));
  };

  return {
    watch: (server: Server): void => {
      server.prependListener('request', ({ socket, headers }, response) => {
        if (headers.expect === undefined) remember(socket, response);
      });
      server.on('checkContinue', (request, response) => {
        remember(request.socket, response);
        const goOn = (): void => {
          response.writeContinue();
          server.emit('request', request, response);
        };
        // Until its turn has come, Node 26 would put "100 Continue" between head and body of the answer.
        if (response.socket === null) response.once('socket', goOn);
        else goOn();
      });
    },
    /** Says what is wrong with a connection, after the answers that are under way, as far as anybody is there to read it. */
    refuse: (error: ConnectionError, socket: Socket): void => {
      if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
      const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : 400;
      const all = answers.get(socket) ?? [];
      const broken = all.find(({ req }) => !req.complete);
      const last = all.findLast((response) => response !== broken && !response.closed);
      if (last === undefined) end(socket, status, broken);
      else last.once('close', () => end(socket, status, broken));
    },
  };
};

/**
 * Handles input of a connection other than requests: malformed HTTP, and `Expect`. Responses are sent in the order of
 * the requests.
 */
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

type ConnectionError = Error & { code?: string };

/** Creates the handlers. `refusal` returns a whole response to malformed input, with `Connection: close`. */
export function createConnections(refusal: (status: 400 | 431) => string) {
  /** Unfinished responses of a connection, in the order of their requests. */
  const answers = new WeakMap<Socket, ServerResponse[]>();

  const track = (socket: Socket, response: ServerResponse): void => {
    const waiting = (answers.get(socket) ?? []).filter(({ closed }) => !closed);
    answers.set(socket, [...waiting, response]);
  };

  const end = (socket: Socket, status: 400 | 431, broken: ServerResponse | undefined): void => {
    // A request that was aborted in its body may have its response already.
    if (broken?.headersSent === true) socket.end();
    else if (socket.writable) socket.end(refusal(status));
  };

  return {
    watch: (server: Server): void => {
      server.prependListener('request', ({ socket, headers }, response) => {
        if (headers.expect === undefined) track(socket, response);
      });
      server.on('checkContinue', (request, response) => {
        track(request.socket, response);
        const sendContinue = (): void => {
          response.writeContinue();
          server.emit('request', request, response);
        };
        // While an earlier response is unfinished, Node 26 would write "100 Continue" between its head and body.
        if (response.socket === null) response.once('socket', sendContinue);
        else sendContinue();
      });
    },
    /** Sends the error response after the unfinished ones, if the peer still reads. */
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
}

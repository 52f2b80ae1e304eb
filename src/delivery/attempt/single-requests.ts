/** Requests to addresses that people name, through the outbound guard, each over a connection of its own, in processes that serve the API. */
import type { Running } from '#core/lifecycle.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { Connections, type ConnectionSettings, type OutgoingRequest } from './http/endpoint-connections.ts';
import { startExchange, type Exchange, type ExchangeLimits } from './http/exchange.ts';
import type { Outcome } from './http/attempt-outcome.ts';

export type SingleRequestSettings = Omit<ConnectionSettings, 'idleSockets'> & ExchangeLimits & { userAgent: string };

export class SingleRequests implements Running {
  readonly #runtime: Pick<Runtime, 'guard' | 'clock'>;
  readonly #settings: SingleRequestSettings;
  readonly #connections: Connections;
  readonly #running = new Set<Exchange>();
  #isStopping = false;

  constructor(runtime: Pick<Runtime, 'guard' | 'clock'>, settings: SingleRequestSettings) {
    this.#runtime = runtime;
    this.#settings = settings;
    this.#connections = new Connections(runtime, { ...settings, idleSockets: 0 });
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** The number of requests that are under way. */
  get running(): number {
    return this.#running.size;
  }

  /** Sends a request without a body; returns the outcome, or undefined if this process stops. `headers`: names and values alternate. */
  async send(
    { origin, pathname, search }: URL,
    { method, headers }: { method: NonNullable<OutgoingRequest['method']>; headers: readonly string[] },
  ): Promise<Outcome | undefined> {
    const own = ['user-agent', this.#settings.userAgent, 'accept-encoding', 'identity'];
    const request = { method, path: pathname + search, headers: [...headers, ...own], body: Buffer.alloc(0) };
    const exchange = startExchange(
      origin,
      { ...request, mayBegin: () => !this.#isStopping },
      { connections: this.#connections, clock: this.#runtime.clock, limits: this.#settings },
    );
    this.#running.add(exchange);
    try {
      return await exchange.outcome;
    } catch {
      // Only an aborted exchange is rejected.
      return undefined;
    } finally {
      this.#running.delete(exchange);
    }
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const exchange of this.#running) exchange.abort();
    await this.#connections.stop();
  }
}

/** The connection of a process to its supervisor and, through the supervisor, to its sibling processes. */
import cluster, { type Worker as ClusterWorker } from 'node:cluster';
import { deserialize, serialize } from 'node:v8';
import type { Health } from '#core/lifecycle.ts';
import type { ProcessMetrics } from '#metrics/metrics-server.ts';
import type { LaneKey } from '#delivery/announce.ts';
import type { CommittedDelivery } from '#delivery/worker.ts';
import type { Taken } from '#http/caller.ts';
import type { Opened, ToProcess } from './supervisor.ts';

/** What the supervisor asks each process. */
export type Answers = { metrics: ProcessMetrics; readiness: Awaited<ReturnType<Health['readiness']>> };

type Answering = { readonly [Question in keyof Answers]: () => Promise<Answers[Question]> };

export type ToSupervisor =
  | { kind: 'hello' }
  | { kind: 'ready'; workerId: number | undefined }
  | { kind: 'failed'; reason: string; exitCode: number }
  | { kind: 'answer'; id: number; value: unknown }
  /** The content is serialized by the sender, so that the supervisor only copies it. `to` is the id of a delivery worker. */
  | { kind: 'message'; to: number | 'others'; topic: string; bytes: Uint8Array };

/** Messages between the processes of a supervisor, by topic. A message is lost if its receiver ends. */
export type Messages = {
  /** Committed deliveries, to the owner of their shards. */
  deliveries: readonly CommittedDelivery[];
  /** Pull webhooks with new deliveries. */
  pullDeliveries: readonly number[];
  webhookChanged: LaneKey;
  eventsErased: readonly number[];
  /** Requests by grant. */
  requests: Taken;
};

/** The messages about one database: those about others have topics of their own. */
export type DatabaseSiblings = Pick<Siblings, 'receive' | 'broadcast' | 'send'>;

/** Bytes that wait for a process that does not read; further deliveries are announced by NOTIFY. */
export const QUEUE_BYTES = 16 * 1024 * 1024;

export class Siblings {
  readonly #cluster: ClusterWorker;
  readonly #handlers = new Map<string, (message: never) => void>();
  readonly #onReturned = new Map<string, (message: never) => void>();
  #answers: Answering | undefined;
  #workerIds: ReadonlySet<number> = new Set();
  #queuedBytes = 0;
  /** Resolves with what the supervisor has opened. */
  readonly opened: Promise<Opened>;

  constructor(worker: ClusterWorker) {
    this.#cluster = worker;
    const { promise, resolve } = Promise.withResolvers<Opened>();
    this.opened = promise;
    worker.on('message', (message: ToProcess) => {
      if (message.kind === 'start') resolve(message.opened);
      else if (message.kind === 'siblings') this.#workerIds = new Set(message.workerIds);
      else if (message.kind === 'message') this.#handlers.get(message.topic)?.(deserialize(message.bytes) as never);
      else if (message.kind === 'returned') this.#onReturned.get(message.topic)?.(deserialize(message.bytes) as never);
      else if (message.kind === 'ask') void this.#answer(message);
    });
    void this.#send({ kind: 'hello' });
  }

  /** Calls `handler` with each message of a topic, and `onReturned` with each sent one that could not be passed on. */
  receive<Topic extends keyof Messages>(
    topic: Topic,
    handler: (message: Messages[Topic]) => void,
    onReturned?: (message: Messages[Topic]) => void,
  ): void {
    this.#handlers.set(topic, handler);
    if (onReturned !== undefined) this.#onReturned.set(topic, onReturned);
  }

  broadcast<Topic extends keyof Messages>(topic: Topic, message: Messages[Topic]): void {
    this.#pass('others', topic, message);
  }

  /** Sends a message to the process of a delivery worker; returns false if it is no sibling, or too much is waiting. */
  send<Topic extends keyof Messages>(workerId: number, topic: Topic, message: Messages[Topic]): boolean {
    return this.#workerIds.has(workerId) && this.#pass(workerId, topic, message);
  }

  /** Returns the messages about a database of the map of shards. */
  about(database: number): DatabaseSiblings {
    const topicOf = <Topic extends keyof Messages>(topic: Topic) => `${topic} ${database}` as Topic;
    return {
      receive: (topic, handler, onReturned) => this.receive(topicOf(topic), handler, onReturned),
      broadcast: (topic, message) => this.broadcast(topicOf(topic), message),
      send: (workerId, topic, message) => this.send(workerId, topicOf(topic), message),
    };
  }

  /** Reports that this process serves, and answers questions of the supervisor from now on. */
  serving(workerId: number | undefined, answers: Answering): void {
    this.#answers = answers;
    void this.#send({ kind: 'ready', workerId });
  }

  failed(reason: string, exitCode: number): Promise<void> {
    return this.#send({ kind: 'failed', reason, exitCode });
  }

  #pass(to: number | 'others', topic: string, message: unknown): boolean {
    const bytes = serialize(message);
    if (this.#queuedBytes + bytes.byteLength > QUEUE_BYTES) return false;
    this.#queuedBytes += bytes.byteLength;
    void this.#send({ kind: 'message', to, topic, bytes }).then(() => (this.#queuedBytes -= bytes.byteLength));
    return true;
  }

  async #answer({ id, question }: ToProcess & { kind: 'ask' }): Promise<void> {
    const value = await this.#answers?.[question]();
    await this.#send({ kind: 'answer', id, value });
  }

  /** Resolves when the message was written, or the supervisor has ended. */
  #send(message: ToSupervisor): Promise<void> {
    return new Promise((resolve) => {
      this.#cluster.send(message, () => resolve());
    });
  }
}

/** Returns the connection of a process that a supervisor has started; undefined in any other process. */
export function openSiblings(): Siblings | undefined {
  return cluster.worker === undefined ? undefined : new Siblings(cluster.worker);
}

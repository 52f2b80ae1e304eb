/**
 * Runs this program in several processes (node:cluster): starts them, restarts one that ends by itself, passes messages between
 * them, and answers for all of them on METRICS_PORT.
 */
import cluster, { type Worker as ClusterWorker } from 'node:cluster';
import { setTimeout as delay } from 'node:timers/promises';
import { Counter, Registry } from '@prometheus-io/client';
import { scrapeGauge, aggregate, countersOf, serveMetrics, type ProcessMetrics } from '#metrics/metrics-server.ts';
import type { Config } from '#config/config.ts';
import type { DatabaseAddress } from '#db/pool.ts';
import { inTime, type Health, type Running } from '#core/lifecycle.ts';
import type { Keys } from '#core/keys.ts';
import type { Log } from '#core/log.ts';
import { deserialize, serialize } from 'node:v8';
import type { LaneKey } from '#delivery/announce.ts';
import type { CommittedDelivery } from '#delivery/worker.ts';
import type { Taken } from '#http/caller.ts';

// The supervisor.

/** What the supervisor has opened once for all processes. */
export type Opened = { address: DatabaseAddress; secretKeys: Keys };

export type ToProcess =
  | { kind: 'start'; opened: Opened }
  | { kind: 'ask'; id: number; question: keyof Answers }
  /** The ids of the delivery workers of all processes that run. */
  | { kind: 'siblings'; workerIds: readonly number[] }
  /** From another process, or back to its sender if its receiver has ended or its queue is full. */
  | { kind: 'message' | 'returned'; topic: string; bytes: Uint8Array }
  | { kind: 'stop' };

/** A process that runs for so long has not failed at its start, so its restarts begin without a pause again. */
const STABLE_MS = 60_000;
const PAUSE_MIN_MS = 100;
const PAUSE_MAX_MS = 10_000;
/** A process that does not answer within this time counts as missing. */
const ANSWER_MS = 2_000;

/** Returns the pause before a restart; `failures` is the number of ends in a row without a stable run. */
export function restartPauseMs(failures: number): number {
  return failures <= 1 ? 0 : Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** (failures - 2));
}

type Ended = { reason: string; isClean: boolean };

/** One process, from its fork to its end. */
class Child {
  readonly #cluster: ClusterWorker;
  readonly #answers = new Map<number, (value: never) => void>();
  #asked = 0;
  #queuedBytes = 0;
  /** Resolves with the id of its delivery worker, if it has one, when it serves; rejects if it reports that it cannot start. */
  readonly ready: Promise<number | undefined>;
  readonly ended: Promise<Ended>;
  readonly startedMs = performance.now();

  constructor(forked: ClusterWorker, opened: Opened, onMessage: (message: ToSupervisor & { kind: 'message' }) => void) {
    this.#cluster = forked;
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    this.ready = promise;
    promise.catch(() => {});
    forked.on('message', (message: ToSupervisor) => {
      if (message.kind === 'hello') this.send({ kind: 'start', opened });
      else if (message.kind === 'ready') resolve(message.workerId);
      else if (message.kind === 'failed') reject(new ProcessFailed(message.reason, message.exitCode));
      else if (message.kind === 'answer') this.#answers.get(message.id)?.(message.value as never);
      else onMessage(message);
    });
    // Without a listener an error of the channel, such as a send to a process that has just ended, would be thrown.
    forked.on('error', () => {});
    this.ended = new Promise((resolved) => {
      forked.once('exit', (code: number | null, signal: string | null) => {
        const reason = signal === null ? `exit code ${code}` : `signal ${signal}`;
        reject(new ProcessFailed(`A process ended with ${reason} while it started`, 1));
        resolved({ reason, isClean: code === 0 });
      });
    });
  }

  get pid(): number | undefined {
    return this.#cluster.process.pid;
  }

  send(message: ToProcess, onSent: () => void = () => {}): void {
    this.#cluster.send(message, onSent);
  }

  /** Returns false if the process has ended or does not read its messages. */
  pass(message: ToProcess & { kind: 'message' }): boolean {
    const { byteLength } = message.bytes;
    if (!this.#cluster.isConnected() || this.#queuedBytes + byteLength > QUEUE_BYTES) return false;
    this.#queuedBytes += byteLength;
    this.send(message, () => (this.#queuedBytes -= byteLength));
    return true;
  }

  /** Resolves with undefined if there is no answer in time. */
  async ask<Question extends keyof Answers>(question: Question): Promise<Answers[Question] | undefined> {
    const id = (this.#asked += 1);
    const { promise, resolve } = Promise.withResolvers<Answers[Question]>();
    this.#answers.set(id, resolve);
    this.send({ kind: 'ask', id, question });
    const answer = await inTime(ANSWER_MS, Promise.race([promise, this.ended.then(() => undefined)]), undefined);
    this.#answers.delete(id);
    return answer;
  }

  kill(): void {
    this.#cluster.process.kill('SIGKILL');
  }
}

/** A process could not start; the message is for the operator. */
export class ProcessFailed extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** A place for a process, which a new one takes when it ends. */
type Place = {
  child: Child;
  isReady: boolean;
  workerId: number | undefined;
  failures: number;
  metrics: ProcessMetrics;
};

type Deps = {
  config: Pick<Config, 'processes' | 'metricsPort' | 'host' | 'stopping'>;
  /** Settings of the processes that differ from those of the supervisor. */
  env: Readonly<Record<string, string>>;
  opened: Opened;
  log: Log;
};

export class Supervisor implements Running {
  readonly #deps: Deps;
  readonly #registry = new Registry();
  readonly #restarts: Counter;
  #places: readonly Place[] = [];
  /** The counters of processes that have ended: without them the sums would fall. */
  #retired: ProcessMetrics = [];
  #phase: 'starting' | 'running' | 'stopping' = 'starting';
  #metricsServer: Running | undefined;
  #stopping: Promise<void> | undefined;
  /** Whether every process has stopped by itself within the time limit; valid after `stop`. */
  hasStoppedInTime = true;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#restarts = new Counter({
      name: 'halcyon_process_restarts_total',
      help: 'Processes that ended by themselves and were started again',
      registers: [this.#registry],
    });
    scrapeGauge(
      this.#registry,
      { name: 'halcyon_processes', help: 'Processes of this supervisor that run' },
      () => this.#places.filter(({ isReady }) => isReady).length,
    );
  }

  /** Starts all processes and resolves when all of them serve. Rejects with the error of the first that cannot start. */
  async start(): Promise<void> {
    const { processes, metricsPort: port, host } = this.#deps.config;
    if (port !== 0) {
      const registry = { contentType: this.#registry.contentType, metrics: () => this.#metrics() };
      const health = { readiness: () => this.#readiness() };
      this.#metricsServer = await serveMetrics({ registry, health, host, port });
    }
    cluster.setupPrimary({ serialization: 'advanced' });
    this.#places = Array.from({ length: processes }, () => ({
      child: this.#fork(),
      isReady: false,
      workerId: undefined,
      failures: 0,
      metrics: [],
    }));
    for (const place of this.#places) void this.#keep(place);
    await Promise.all(this.#places.map(({ child }) => child.ready));
    // One that served and ended before the last was ready is not restarted, because the others might end for the same reason.
    if (this.#places.some(({ isReady }) => !isReady))
      throw new ProcessFailed('A process ended while the others started', 1);
    if (this.#phase === 'starting') this.#phase = 'running';
  }

  /** Stops all processes, and kills those that have not stopped after the time limit. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    this.#phase = 'stopping';
    for (const { child } of this.#places) child.send({ kind: 'stop' });
    const timer = setTimeout(() => {
      for (const { child } of this.#places) child.kill();
    }, this.#deps.config.stopping.allMs);
    const ends = await Promise.all(this.#places.map(({ child }) => child.ended));
    clearTimeout(timer);
    this.hasStoppedInTime = ends.every(({ isClean }) => isClean);
    await this.#metricsServer?.stop();
  }

  #fork(): Child {
    const { opened, env } = this.#deps;
    const child: Child = new Child(cluster.fork(env), opened, (message) => this.#pass(child, message));
    return child;
  }

  /** Replaces the process of a place whenever it ends, until the supervisor stops or has not started. */
  async #keep(place: Place): Promise<void> {
    const { log } = this.#deps;
    for (;;) {
      const { child } = place;
      child.ready.then(
        (workerId) => this.#setReady(place, true, workerId),
        (error: unknown) => log.error({ child: child.pid, reason: (error as Error).message }, 'a process cannot start'),
      );
      const { reason } = await child.ended;
      this.#setReady(place, false, undefined);
      if (this.#phase !== 'running') return;
      this.#retired = countersOf([this.#retired, place.metrics]);
      place.metrics = [];
      const livedMs = performance.now() - child.startedMs;
      place.failures = livedMs < STABLE_MS ? place.failures + 1 : 1;
      const pauseMs = restartPauseMs(place.failures);
      log.error({ child: child.pid, reason, pauseMs }, 'a process ended by itself; starting it again');
      await delay(pauseMs);
      // A stop that began during the pause has nothing to stop in this place.
      if (this.#phase !== 'running') return;
      this.#restarts.inc();
      place.child = this.#fork();
    }
  }

  #setReady(place: Place, isReady: boolean, workerId: number | undefined): void {
    place.isReady = isReady;
    place.workerId = workerId;
    const workerIds = this.#places.flatMap((one) => (one.workerId === undefined ? [] : [one.workerId]));
    for (const { child } of this.#places) child.send({ kind: 'siblings', workerIds });
  }

  #pass(sender: Child, { to, topic, bytes }: ToSupervisor & { kind: 'message' }): void {
    if (to === 'others') {
      for (const { child, isReady } of this.#places)
        if (child !== sender && isReady) child.pass({ kind: 'message', topic, bytes });
      return;
    }
    const receiver = this.#places.find(({ workerId }) => workerId === to)?.child;
    if (receiver?.pass({ kind: 'message', topic, bytes }) !== true) sender.send({ kind: 'returned', topic, bytes });
  }

  async #metrics(): Promise<string> {
    await Promise.all(
      this.#places.map(async (place) => {
        const { child } = place;
        const metrics = place.isReady ? await child.ask('metrics') : undefined;
        // A process that does not answer counts with its last values. One that has ended meanwhile is retired.
        if (metrics !== undefined && place.child === child && place.isReady) place.metrics = metrics;
      }),
    );
    const own = await this.#registry.getMetricsAsJSON();
    return aggregate([own, this.#retired, ...this.#places.map(({ metrics }) => metrics)]).metrics();
  }

  async #readiness(): ReturnType<Health['readiness']> {
    if (this.#phase !== 'running') return { status: 'unready', missing: [this.#phase] };
    const all = await Promise.all(
      this.#places.map(({ child, isReady }) => (isReady ? child.ask('readiness') : Promise.resolve(undefined))),
    );
    const missing = all.flatMap((one) => {
      if (one === undefined) return ['process'];
      return one.status === 'ready' ? [] : one.missing;
    });
    return missing.length === 0 ? { status: 'ready' } : { status: 'unready', missing: [...new Set(missing)] };
  }
}

// The connection of a process to its supervisor and, through the supervisor, to its sibling processes.

/** What the supervisor asks each process. */
type Answers = { metrics: ProcessMetrics; readiness: Awaited<ReturnType<Health['readiness']>> };

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
const QUEUE_BYTES = 16 * 1024 * 1024;

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

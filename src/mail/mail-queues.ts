/** In-memory queues of mails to send. */
import type { Mail } from './mail.ts';

export type QueuedMail = { mail: Mail; failures: number };

/** Limit of requested mails, and of notices. */
const QUEUE_MAX = 1_000;

/** `ready`: mails to send now. `delayed`: timers of mails to be retried. */
type Queue = { ready: QueuedMail[]; delayed: Set<NodeJS.Timeout> };

/**
 * Separate queues for requested mails and notices: when many endpoints begin to fail at once, notices must not delay or
 * displace a requested link.
 */
export class MailQueues {
  readonly #requested: Queue = { ready: [], delayed: new Set() };
  readonly #notices: Queue = { ready: [], delayed: new Set() };

  /** Queues a mail. Returns false if its queue is full. */
  add(mail: Mail): boolean {
    const { ready, delayed } = this.#queueOf(mail);
    if (ready.length + delayed.size >= QUEUE_MAX) return false;
    ready.push({ mail, failures: 0 });
    return true;
  }

  /** Queues a mail again after the delay and calls `onReady`. */
  retryLater(queued: QueuedMail, delayMs: number, onReady: () => void): void {
    const { ready, delayed } = this.#queueOf(queued.mail);
    const timer = setTimeout(() => {
      delayed.delete(timer);
      ready.push(queued);
      onReady();
    }, delayMs);
    delayed.add(timer);
  }

  /** Removes and returns the next mail, requested mails first. */
  next(): QueuedMail | undefined {
    return this.#requested.ready.shift() ?? this.#notices.ready.shift();
  }

  /** Drops the delayed mails and returns their number. */
  dropDelayed(): number {
    let dropped = 0;
    for (const { delayed } of [this.#requested, this.#notices]) {
      dropped += delayed.size;
      for (const timer of delayed) clearTimeout(timer);
      delayed.clear();
    }
    return dropped;
  }

  /** Drops the ready mails and returns their number. */
  dropReady(): number {
    return this.#requested.ready.splice(0).length + this.#notices.ready.splice(0).length;
  }

  #queueOf({ isNotice }: Mail): Queue {
    return isNotice === true ? this.#notices : this.#requested;
  }
}

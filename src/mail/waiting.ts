/** Mails that wait to be handed in, in memory alone. */
import type { Mail } from './mail.ts';

export type Letter = { mail: Mail; failures: number };

/** As many of those that somebody asked for, and as many notices. */
const MAILS_WAITING = 1_000;

/** Those that may go, and those whose next try is later. */
type Queue = { ready: Letter[]; pausing: Set<NodeJS.Timeout> };

/**
 * Two queues: half of all endpoints may begin to fail at once, and nobody shall wait for a link, or not get it, because their
 * owners are told.
 */
export class Waiting {
  readonly #asked: Queue = { ready: [], pausing: new Set() };
  readonly #notices: Queue = { ready: [], pausing: new Set() };

  /** False where a thousand of its kind wait already. */
  add(mail: Mail): boolean {
    const { ready, pausing } = this.#queueOf(mail);
    if (ready.length + pausing.size >= MAILS_WAITING) return false;
    ready.push({ mail, failures: 0 });
    return true;
  }

  /** A letter that is tried again after the pause, of which `onReady` tells. */
  putOff(letter: Letter, pauseMs: number, onReady: () => void): void {
    const { ready, pausing } = this.#queueOf(letter.mail);
    const timer = setTimeout(() => {
      pausing.delete(timer);
      ready.push(letter);
      onReady();
    }, pauseMs);
    pausing.add(timer);
  }

  /** What goes next: what somebody asked for first. */
  next(): Letter | undefined {
    return this.#asked.ready.shift() ?? this.#notices.ready.shift();
  }

  /** Forgets what pauses; answers how many there were. */
  dropPausing(): number {
    let dropped = 0;
    for (const { pausing } of [this.#asked, this.#notices]) {
      dropped += pausing.size;
      for (const timer of pausing) clearTimeout(timer);
      pausing.clear();
    }
    return dropped;
  }

  /** Forgets what may go; answers how many there were. */
  dropReady(): number {
    return this.#asked.ready.splice(0).length + this.#notices.ready.splice(0).length;
  }

  #queueOf({ isNotice }: Mail): Queue {
    return isNotice === true ? this.#notices : this.#asked;
  }
}

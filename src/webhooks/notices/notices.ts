/** Tells the people of a store of a webhook at which nothing arrives, by mail to the address of the store. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import type { Mailer } from '#mail/mail.ts';
import { noticeMail, type About, type Circumstances } from './mails.ts';
import { createPace } from './pace.ts';
import { findNoticed, type Noticed } from './notices-sql.ts';

/** `epoch`: in which it failed. */
export type Notice = { shard: number; webhookId: number; epoch: number; about: About };

export type Notices = Running & { tell: (notice: Notice) => void };

const NOTICES_WAITING = 1_000;
/** Between the tries to read what a notice is about, so that there is one more than there are pauses. */
const PAUSES_MS: readonly number[] = [1_000, 10_000];

/** A success that came meanwhile, or a switch-off, takes a warning back. That it was switched off stays true. */
const isStillSo = ({ isActive, epoch, isWarned }: Noticed, notice: Notice): boolean =>
  notice.about !== 'warning' || (isActive && epoch === notice.epoch && isWarned === true);

/**
 * One after the other, however many webhooks fail at once: what is read for them takes one connection from those who deliver.
 * Kept in memory alone: what comes when a thousand wait is logged and dropped, and a crash loses what waits.
 */
export const createNotices = (
  deps: { sql: Sql; clock: Clock; log: Log; mailer: Mailer } & Omit<Circumstances, 'now'>,
): Notices => {
  const { sql, clock, log, mailer } = deps;
  const waiting: Notice[] = [];
  const end = new AbortController();
  const mayGo = createPace();
  let working: Promise<void> | undefined;

  const mail = async (notice: Notice): Promise<void> => {
    const noticed = await findNoticed(sql, notice);
    if (noticed === undefined || noticed.email === '' || !isStillSo(noticed, notice)) return;
    if (!mayGo(notice, noticed, clock.monotonicMs())) {
      const { webhookId: webhook, about } = notice;
      return log.info({ webhook, about }, 'a store is not told again: it was within the hour');
    }
    mailer.send(noticeMail(noticed, notice.about, { ...deps, now: clock.now() }));
  };
  const handle = async (notice: Notice): Promise<void> => {
    for (let tries = 0; ; tries += 1) {
      try {
        return await mail(notice);
      } catch (error) {
        const pauseMs = end.signal.aborted ? undefined : PAUSES_MS[tries];
        const { webhookId: webhook, about } = notice;
        if (pauseMs === undefined) return log.error({ err: error, webhook, about }, 'a store could not be told');
        await wait(pauseMs, undefined, { signal: end.signal, ref: false }).catch(() => {});
      }
    }
  };
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await handle(next);
    working = undefined;
  };

  return {
    tell: (notice) => {
      if (waiting.length >= NOTICES_WAITING || end.signal.aborted) {
        const { webhookId: webhook, about } = notice;
        return log.error({ webhook, about }, 'a store is not told: too many notices wait, or the process stops');
      }
      waiting.push(notice);
      working ??= work();
    },
    stop: async () => {
      end.abort();
      await working;
    },
  };
};

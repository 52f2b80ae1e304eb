/** What the people of a store are told of a webhook at which nothing arrives, once what it says is committed. */
import type { Log } from '#core/log.ts';
import type { Why } from '../policy/deactivation.ts';
import type { Recorder } from './record.ts';

/** `withWarnings`: it is half the way to being switched off; else it was, and why. `epoch`: in which it failed. */
export type Notice = { shard: number; webhookId: number; epoch: number; about: 'warning' | Why };

/** Given by whoever knows webhooks and their stores. In the background: it neither throws nor keeps anybody waiting. */
export type Notify = (notice: Notice) => void;

/**
 * A recorder that has stores warned. Who has lost the shard has not written that it warned, and leaves it to the next owner.
 * Who dies after the commit has written it and told nobody: a withWarnings may be lost, and never comes twice.
 */
export const withWarnings = (recorder: Recorder, { log, notify }: { log: Log; notify: Notify }): Recorder => ({
  ...recorder,
  record: (entry, onRecorded) => {
    if (!entry.isWarning) return recorder.record(entry, onRecorded);
    const { shard, delivery } = entry;
    const { webhookId, epoch } = delivery;
    recorder.record(entry, (isWritten) => {
      onRecorded(isWritten);
      if (!isWritten) return;
      log.info({ webhook: webhookId, shard }, 'a webhook is half the way to being switched off');
      notify({ shard, webhookId, epoch, about: 'warning' });
    });
  },
});

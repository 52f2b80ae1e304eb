/** Notifies stores about failing webhooks, once the failure is committed. */
import type { Log } from '#core/log.ts';
import type { DisableReason } from '../policy/deactivation.ts';
import type { Recorder } from './record.ts';

/**
 * `about`: a warning halfway to being disabled, or why the webhook was disabled. `epoch`: the epoch in which it
 * failed.
 */
export type Notice = { shard: number; webhookId: number; epoch: number; about: 'warning' | DisableReason };

/** Sends a notice in the background: neither throws nor blocks. */
export type Notify = (notice: Notice) => void;

/**
 * Wraps a recorder: notifies the store after an entry with a warning was written. A worker that has lost the shard
 * writes nothing and leaves the warning to the next owner; a crash after the commit loses the warning, which is never
 * sent twice.
 */
export function withWarnings(recorder: Recorder, { log, notify }: { log: Log; notify: Notify }): Recorder {
  return {
    ...recorder,
    record: (entry, onRecorded) => {
      if (!entry.isWarning) return recorder.record(entry, onRecorded);
      const { shard, delivery } = entry;
      const { webhookId, epoch } = delivery;
      recorder.record(entry, (isWritten) => {
        onRecorded(isWritten);
        if (!isWritten) return;
        log.info({ webhook: webhookId, shard }, 'webhook is halfway to being disabled');
        notify({ shard, webhookId, epoch, about: 'warning' });
      });
    },
  };
}

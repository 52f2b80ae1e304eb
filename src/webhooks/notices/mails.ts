/**
 * What the people of a store are mailed about a webhook at which nothing arrives. Of its url the host alone is said: the rest
 * may be a credential, and so may be what the endpoint answers.
 */
import { formatDate } from '#hypermedia/date.ts';
import type { Mail } from '#mail/mail.ts';
import { addressOfWebhook } from '../document.ts';
import { reasonOf } from '../history/reason.ts';
import type { Noticed } from './notices-sql.ts';

/** `warning`: it is half the way to being switched off. `failures`, `gone` (the endpoint answered 410): it was. */
export type About = 'warning' | 'failures' | 'gone';

/** In code points. A name may have 255, and whoever may make a webhook chooses what is mailed here in somebody else's name. */
const NAME_SHOWN_MAX = 60;

/** On one line, since it stands in a header, and without what turns the direction of a text or is not seen. */
const shownName = (name: string): string => {
  const points = Array.from(name.replaceAll(/[\s\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').trim());
  return points.length > NAME_SHOWN_MAX ? `${points.slice(0, NAME_SHOWN_MAX - 1).join('')}…` : points.join('');
};

/** `2026-11-22 01:00 (Europe/Berlin)` */
const shownTime = (at: Date, timeZone: string): string => {
  const date = formatDate(at, timeZone);
  return `${date.slice(0, 10)} ${date.slice(11, 16)} (${timeZone})`;
};

/** What our own side made of an attempt is nothing that they could mend. */
const lastOf = ({ outcome, responseCode }: Noticed): string | undefined => {
  const reason = outcome === 'internal' ? null : reasonOf({ outcome, responseCode });
  return reason === null ? undefined : `About the last one: ${reason}`;
};

const endpointOf = ({ url }: Noticed): string => (url === null ? 'its endpoint' : new URL(url).host);

const failuresOf = (noticed: Noticed): string => {
  const { consecutiveFailures, firstFailureAt, timeZone } = noticed;
  const since = firstFailureAt === null ? '' : ` since ${shownTime(firstFailureAt, timeZone)}`;
  const count = consecutiveFailures === null ? 'All attempts' : `${consecutiveFailures} attempts in a row`;
  return [`${count} to deliver to ${endpointOf(noticed)} have failed${since}.`, lastOf(noticed)]
    .filter((sentence) => sentence !== undefined)
    .join(' ');
};

const OFF = [
  'Nothing is sent to it any more. What waited for it has failed, and what happens from now on is not sent by itself.',
  'When the endpoint works, switch the webhook on again, and have what it missed sent by its action "recover".',
];

const bodyOf = (noticed: Noticed, about: About, { now, deactivateAfterSeconds }: Circumstances): string[] => {
  const webhook = `the webhook "${shownName(noticed.name)}" of ${noticed.storeDomain}`;
  switch (about) {
    case 'warning': {
      const spanMs = deactivateAfterSeconds[noticed.retryProfile] * 1_000;
      const offAt = new Date((noticed.firstFailureAt?.getTime() ?? 0) + spanMs);
      const earliest = offAt > now ? `, at ${shownTime(offAt, noticed.timeZone)} at the earliest` : '';
      return [
        `nothing arrives at ${webhook}.`,
        failuresOf(noticed),
        `Deliveries are tried again. If all of them go on failing, the webhook is switched off${earliest}.`,
      ];
    }
    case 'failures':
      return [`${webhook} was switched off, because nothing arrives there.`, failuresOf(noticed), ...OFF];
    case 'gone':
      return [
        `${webhook} was switched off: ${endpointOf(noticed)} answered with 410, which says that it is gone for good.`,
        ...OFF,
      ];
  }
};

export type Circumstances = {
  now: Date;
  baseUrl: string;
  deactivateAfterSeconds: Readonly<Record<Noticed['retryProfile'], number>>;
};

export const noticeMail = (noticed: Noticed, about: About, circumstances: Circumstances): Mail => ({
  to: noticed.email,
  subject: `Your webhook "${shownName(noticed.name)}" ${about === 'warning' ? 'is failing' : 'was switched off'}`,
  text: `${[
    'Hello,',
    ...bodyOf(noticed, about, circumstances),
    'The webhook, and the attempts to deliver to it:',
    addressOfWebhook(noticed.id, circumstances.baseUrl),
  ].join('\n\n')}\n`,
  isNotice: true,
});

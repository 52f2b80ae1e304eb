/** The mails of invitations, and their limits. */
import type { Throttle, Bucket } from '#identity/accounts/throttle/throttle.ts';
import type { InvitationMail, InvitationMails } from '#stores/invitations/operations.ts';
import { isInPerson } from '#core/principal.ts';
import { Problem } from '#core/problem.ts';
import type { Mail, Mailer } from '#mail/mail.ts';
import { shownName } from '#core/legible.ts';

/** Returns the mail of an invitation. The name of the store is the only text in it that a store chooses. */
function invitationMail({ to, storeName, token, expires }: InvitationMail, authUrl: string): Mail {
  const store = shownName(storeName);
  return {
    to,
    subject: `Invitation to ${store}`,
    text: [
      'Hello,',
      '',
      `you are invited to the store "${store}" at ${new URL(authUrl).host}.`,
      'Join it here, with your account or a new one:',
      '',
      `${authUrl}/invitations/${token}`,
      '',
      `The link can be used once, until ${expires.toISOString().slice(0, 16).replace('T', ' ')} UTC.`,
      'If you do not know the store, ignore this mail.',
      '',
    ].join('\n'),
  };
}

function tooMany(retryAfterSeconds: number): Problem {
  const message = `Too many invitations were mailed: wait ${retryAfterSeconds} s, or omit email and hand over the link`;
  const headers = { 'Retry-After': String(retryAfterSeconds) };
  return new Problem(429, { code: 'too_many_requests', message, field: 'email' }, { headers });
}

export function createInvitationMails(deps: { throttle: Throttle; mailer: Mailer; authUrl: string }): InvitationMails {
  return {
    admit: async (to, { principal, now }) => {
      const inviter = isInPerson(principal) ? String(principal.userId) : 'the platform';
      const buckets: Bucket[] = [{ limit: 'invitation to address', subject: `${to} by ${inviter}` }];
      if (isInPerson(principal))
        buckets.push(
          { limit: 'invitations by person', subject: inviter },
          { limit: 'mails of others to mailbox', subject: to },
        );
      const taken = await deps.throttle.take(buckets, now);
      if (!taken.allowed) throw tooMany(taken.retryAfterSeconds);
    },
    send: (mail) => deps.mailer.send(invitationMail(mail, deps.authUrl)),
  };
}

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { pino } from 'pino';
import { startMailServer } from '../../test/setup/mail-server.ts';
import { createMailer } from './mailer.ts';

const LINK = 'https://auth.example.com/reset-password?token=hal_pr_secret';
const mail = { to: 'ada@example.com', subject: 'Choose a new password', text: `Hello Ädä,\n\n${LINK}\n` };

type Options = Parameters<typeof startMailServer>[0];

async function start(t: TestContext, options: Options = {}) {
  const server = await startMailServer(options);
  const lines: string[] = [];
  const { promise: failed, resolve: reportFailure } = Promise.withResolvers<void>();
  const write = (line: string) => {
    lines.push(line);
    if (line.includes('sending mail failed')) reportFailure();
  };
  const log = pino({ level: 'trace', base: null }, { write });
  const mailer = createMailer({
    url: server.url,
    from: { name: 'Halcyon', address: 'halcyon@example.com' },
    log,
    retryDelaysMs: [1, 1],
  });
  t.after(async () => {
    await mailer.stop();
    await server.stop();
  });
  return { server, mailer, lines, failed };
}

test('a mail arrives as written, and says that it was sent automatically', async (t) => {
  const { server, mailer } = await start(t);
  mailer.send(mail);
  const { from, to, headers, text } = await server.next();
  assert.deepEqual([from, to, text], ['halcyon@example.com', [mail.to], mail.text]);
  assert.match(headers, /^From: Halcyon <halcyon@example\.com>\r?$/m);
  assert.match(headers, /^Subject: Choose a new password$/m);
  assert.match(headers, /^Auto-Submitted: auto-generated$/m);
});

test('an address with a comma in it is one address', async (t) => {
  const { server, mailer } = await start(t);
  mailer.send({ ...mail, to: 'eve,ada@example.com' });
  assert.deepEqual((await server.next()).to, ['"eve,ada"@example.com']);
});

test('a mail that the server defers is tried three times', async (t) => {
  const { server, mailer, failed } = await start(t, { answer: () => 451 });
  mailer.send(mail);
  await failed;
  assert.equal(server.tries(), 3);
});

test('a mail that the server accepts at the third attempt has arrived', async (t) => {
  let times = 0;
  const { server, mailer } = await start(t, { answer: () => ((times += 1) < 3 ? 451 : undefined) });
  mailer.send(mail);
  assert.equal((await server.next()).text, mail.text);
});

test('a mail that the server rejects permanently is not retried', async (t) => {
  const { server, mailer, failed } = await start(t, { answer: () => 550 });
  mailer.send(mail);
  await failed;
  assert.equal(server.tries(), 1);
});

test('the log says that a mail failed, and contains none of its content', async (t) => {
  // The server's answer quotes the whole mail, as filters do.
  const { mailer, lines, failed } = await start(t, { answer: () => 550 });
  mailer.send(mail);
  await failed;
  const text = lines.join('');
  assert.match(text, /"subject":"Choose a new password".*"responseCode":550/);
  for (const secret of ['hal_pr_', 'Hello', 'ada@example.com']) assert.ok(!text.includes(secret), secret);
});

test('no mail is sent to a server without TLS outside loopback', async (t) => {
  // 0.0.0.0 leads to this machine, and is no loopback address by its name.
  const { promise: arrived, resolve } = Promise.withResolvers<undefined>();
  const answer = () => {
    resolve(undefined);
    return undefined;
  };
  const { server, mailer, lines, failed } = await start(t, { host: '0.0.0.0', answer });
  mailer.send(mail);
  await Promise.race([failed, arrived]);
  assert.equal(server.tries(), 0);
  assert.match(lines.join(''), /"code":"ETLS"/);
});

test('a mail beyond a thousand queued ones of its kind is dropped and logged', async (t) => {
  const lines: string[] = [];
  const log = pino({ level: 'error', base: null }, { write: (line) => void lines.push(line) });
  // No server listens there, so that the thousand end at once when the test does.
  const mailer = createMailer({
    url: 'smtp://127.0.0.1:1',
    from: { name: 'Halcyon', address: 'halcyon@example.com' },
    log,
  });
  t.after(() => mailer.stop());
  for (let i = 0; i < 1_010; i += 1) mailer.send(mail);
  mailer.send({ ...mail, isNotice: true });
  assert.equal(lines.filter((line) => line.includes('mail dropped')).length, 8, 'two are in transit');
});

test('requested mails are sent before notices queued earlier', async (t) => {
  const { promise: goOn, resolve } = Promise.withResolvers<undefined>();
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<undefined>();
  const answer = () => {
    arrive(undefined);
    return goOn;
  };
  const { server, mailer } = await start(t, { answer });
  for (let i = 0; i < 8; i += 1) mailer.send({ ...mail, subject: 'Your webhook is failing', isNotice: true });
  await arrived;
  mailer.send(mail);
  resolve(undefined);
  const subjects: string[] = [];
  while (subjects.length < 9) subjects.push((await server.next()).subject);
  const place = subjects.indexOf(mail.subject);
  assert.ok(place >= 0 && place < 5, `${place}: after the two that were on their way, and beside one or two more`);
});

test('a line break in a subject adds no header', async (t) => {
  const { server, mailer } = await start(t);
  mailer.send({ ...mail, subject: 'Choose\r\nBcc: eve@example.com\r\n\r\na new password' });
  const { to, headers, text } = await server.next();
  assert.deepEqual([to, text], [[mail.to], mail.text]);
  assert.doesNotMatch(headers, /^Bcc:/im);
});

test('stop waits for a mail in transit', async (t) => {
  const { promise: goOn, resolve } = Promise.withResolvers<undefined>();
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<undefined>();
  const answer = () => {
    arrive(undefined);
    return goOn;
  };
  const { server, mailer } = await start(t, { answer });
  mailer.send(mail);
  await arrived;
  const stopped = mailer.stop();
  resolve(undefined);
  await stopped;
  assert.equal(server.unread().length, 1);
});

test('after stop no mail is accepted', async (t) => {
  const { server, mailer, lines } = await start(t);
  await mailer.stop();
  mailer.send(mail);
  assert.match(lines.join(''), /mail dropped/);
  assert.equal(server.tries(), 0);
});

test('mails that wait when the process stops are reported once', async (t) => {
  const { promise: never } = Promise.withResolvers<undefined>();
  const { mailer, lines } = await start(t, { answer: () => never });
  for (let n = 0; n < 5; n += 1) mailer.send(mail);
  await mailer.stop();
  await mailer.stop();
  const reported = lines.filter((line) => line.includes('mails dropped')).map((line) => JSON.parse(line) as unknown);
  assert.partialDeepStrictEqual(reported, [{ mails: 3 }]);
  assert.equal(reported.length, 1);
});

// Mail that is refused, each with what is taken: too large, too deep, too many, unreadable,
// smuggled, and while what it needs is away.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import { daemonPids } from '../support/kills.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { connectSmtp, sendSmtp, type TestMail, writeMail } from '../support/smtp.ts';

const MB = 1024 * 1024;

describe('mail that is refused', () => {
  const base = freshDir();
  let world: TestRuntime;
  before(async () => {
    for (const name of ['ann', ...Array.from({ length: 120 }, (_, i) => `p${i}`)])
      writePersonKey(join(base, 'state'), name);
    world = await startRuntime({ base, mode: 'split' });
  });
  after(async () => {
    await world.remove();
    rmSync(base, { recursive: true, force: true });
  });

  const signal = (daemon: string, name: NodeJS.Signals) =>
    process.kill(daemonPids(world.runtimePid).get(daemon)!, name);
  const ANN = ['ann', 'ann'.repeat(32)] as const;
  const socket = () => ({ path: join(world.runtimeDir, 'maild', 'smtp', 'smtp.sock') });
  const send = (mail: string, more: Partial<TestMail> = {}) =>
    sendSmtp(socket(), { auth: ANN, to: 'coder@localhost', mail, ...more });
  const listGoals = async (): Promise<string[]> =>
    (await world.agentd.listTasks({ query: { limit: 500 } })).tasks.map(({ goal }) => goal);
  const hasTask = (word: string) =>
    eventually(`a task about ${word}`, async () =>
      (await listGoals()).some((goal) => goal.includes(word)) ? true : undefined,
    );
  const hasNoTask = async (word: string) =>
    assert.ok(!(await listGoals()).some((goal) => goal.includes(word)), word);

  /** Writes the whole mail as it is, and returns the replies to it and to what follows it. */
  async function sendBytes(bytes: string, then: readonly string[] = ['NOOP']): Promise<string[]> {
    const session = await connectSmtp(socket());
    const auth = Buffer.from(`\0${ANN[0]}\0${ANN[1]}`).toString('base64');
    const from = 'MAIL FROM:<ann@example.org>';
    const steps = ['EHLO x', `AUTH PLAIN ${auth}`, from, 'RCPT TO:<coder@localhost>', 'DATA'];
    for (const step of steps) assert.match(await session.say(step), /^[23]/);
    session.write(bytes);
    const replies = [await session.reply()];
    for (const line of then) replies.push(await session.say(line));
    session.close();
    return replies;
  }

  it('one of 50 MB, declared or not, and one of 11; one of 7 is taken', async () => {
    const large = (sizeBytes: number) =>
      writeMail({ Subject: 'Large' }, `${'x'.repeat(76)}\n`.repeat(sizeBytes / 77));
    assert.match(await send(large(50 * MB)), /^552 5\.3\.4 the mail is larger than/);
    assert.match(await send(large(11 * MB)), /^552 5\.3\.4/);
    const session = await connectSmtp(socket());
    await session.say('EHLO x');
    assert.match(await session.say(`MAIL FROM:<a@example.org> SIZE=${50 * MB}`), /^552/);
    session.close();
    await hasNoTask('Large');
    assert.match(await send(large(7 * MB)), /^250/);
    await hasTask('Large');
  });

  it('parts nested too deeply, too many parts, a header without end', async () => {
    const nested = (deep: number): string => {
      let body = 'Deep.\n';
      for (let i = deep; i > 0; i--)
        body = `--b${i}\nContent-Type: multipart/mixed; boundary=b${i + 1}\n\n${body}\n--b${i}--\n`;
      return writeMail({ Subject: 'Nest', 'Content-Type': 'multipart/mixed; boundary=b1' }, body);
    };
    assert.match(await send(nested(10_000)), /^554 5\.6\.0 the mail cannot be read/);
    const part = '--b\nContent-Disposition: attachment; filename=a\n\na\n';
    const many = { Subject: 'Many', 'Content-Type': 'multipart/mixed; boundary=b' };
    const manyParts = await send(writeMail(many, `${part.repeat(60_000)}--b--\n`));
    assert.match(manyParts, /^554 5\.6\.0 the mail cannot be read/);
    const heads = Object.fromEntries(
      Array.from({ length: 30_000 }, (_, i) => [`X-${i}`, 'x'.repeat(20)]),
    );
    assert.match(
      await send(writeMail({ Subject: 'Heads', ...heads }, 'x\n')),
      /^554 5\.6\.0 the header is too large/,
    );
    assert.match(await send(writeMail(many, `${part.repeat(3)}--b--\n`)), /^250/, 'control');
    await hasTask('Many');
  });

  it('broken charsets and encodings are read as far as possible, and nothing hangs', async () => {
    const bodies: [Record<string, string>, string][] = [
      [{ 'Content-Type': 'text/plain; charset=x-no-such' }, 'Charset one.\n'],
      [{ 'Content-Type': 'text/plain; charset=utf-8' }, 'Charset two \xff\xfe\x80.\n'],
      [{ 'Content-Transfer-Encoding': 'base64' }, 'Charset three!!!\n====\n'],
      [{ 'Content-Type': 'text/html' }, `Charset four${'<div'.repeat(100_000)}\n`],
      [{ 'Content-Type': `text/plain; charset="${'='.repeat(5_000)}"` }, 'Charset five.\n'],
    ];
    for (const [i, [fields, body]] of bodies.entries()) {
      const reply = await send(
        writeMail({ Subject: `Charset ${i} =?utf-8?B?////?=`, ...fields }, body),
      );
      assert.match(reply, /^250/, `${i}`);
      await hasTask(`Charset ${i}`);
    }
  });

  it('[K69] 10,000 recipients, and one that is unknown or elsewhere', async () => {
    const session = await connectSmtp(socket());
    const auth = Buffer.from(`\0${ANN[0]}\0${ANN[1]}`).toString('base64');
    for (const step of ['EHLO x', `AUTH PLAIN ${auth}`, 'MAIL FROM:<ann@example.org>'])
      await session.say(step);
    const replies: string[] = [];
    for (let i = 0; i < 10_000; i++) session.write(`RCPT TO:<p${i}@localhost>\r\n`);
    for (let i = 0; i < 10_000; i++) replies.push(await session.reply());
    session.close();
    const taken = replies.filter((reply) => reply.startsWith('250')).length;
    assert.equal(taken, 100);
    assert.match(replies.at(-1)!, /^452 4\.5\.3 up to 100 recipients/);
    const mail = writeMail({ Subject: 'Nobody' }, 'x\n');
    assert.match(
      await send(mail, { to: 'nobody@localhost' }),
      /^550 5\.1\.1 nobody here is called nobody/,
    );
    assert.match(
      await send(mail, { to: 'coder@example.org' }),
      /^550 5\.7\.1 mail for other hosts/,
    );
    assert.match(await send(mail, { to: '../coder@localhost' }), /^5\d\d/);
    await hasNoTask('Nobody');
  });

  it('what servers may read in two ways: bare LF and CR, ends of data, fields that are there twice', async () => {
    const head = 'Subject: Smuggle\r\nMessage-ID: <a@example.org>\r\n\r\nOne\r\n';
    const second =
      'MAIL FROM:<x@example.org>\r\nRCPT TO:<coder@localhost>\r\nDATA\r\nSubject: Smuggled\r\n\r\nTwo\r\n';
    for (const end of ['\n.\n', '\n.\r\n', '\r\n.\n', '\r.\r', '\r\n.\r', '\n\n.\r\n']) {
      const [reply, next] = await sendBytes(`${head}${end}${second}.\r\n`);
      assert.match(reply!, /^554 5\.6\.0 the mail has a bare CR or LF/, JSON.stringify(end));
      assert.match(next!, /^250/, 'it was one mail');
    }
    const twice = [
      'From: a@example.org\r\nFrom: b@example.org\r\n',
      'Subject: a\r\nSubject: b\r\n',
    ];
    for (const fields of twice)
      assert.match(
        (await sendBytes(`${fields}\r\nx\r\n.\r\n`))[0]!,
        /^554 5\.6\.0 the field .* more than once/,
      );
    for (const line of ['no field', ' continued', 'Sub\x01ject: x', 'A B: c'])
      assert.match(
        (await sendBytes(`${line}\r\nSubject: x\r\n\r\nx\r\n.\r\n`))[0]!,
        /^554 5\.6\.0/,
        line,
      );
    const circles = 'Received: by x\r\n'.repeat(31);
    assert.match((await sendBytes(`${circles}\r\nx\r\n.\r\n`))[0]!, /^554 5\.4\.6/);
    await hasNoTask('Smuggle');
    assert.match(
      (await sendBytes(`${head.replace('Smuggle', 'Straight')}.\r\n`))[0]!,
      /^250/,
      'control',
    );
    await hasTask('Straight');
  });

  it('without agentd it is taken and handed over later; without the log it is refused for now', async () => {
    signal('agentd', 'SIGSTOP');
    try {
      assert.match(await send(writeMail({ Subject: 'While away' }, 'x\n')), /^250/);
    } finally {
      signal('agentd', 'SIGCONT');
    }
    await hasTask('While away');
    signal('auditd-ai', 'SIGSTOP');
    try {
      // The same mail, so that what is taken before is one.
      const mail = writeMail({ Subject: 'Unlogged' }, 'x\n');
      const look = async () => {
        const reply = await send(mail);
        return reply.startsWith('451') ? reply : undefined;
      };
      const refused = await eventually('a refusal', look, 60_000);
      assert.match(refused, /^451 4\.3\.0 the audit log accepts no events/);
    } finally {
      signal('auditd-ai', 'SIGCONT');
    }
    const taken = await eventually('mail to be taken again', async () => {
      const reply = await send(writeMail({ Subject: 'Logged again' }, 'x\n'));
      return reply.startsWith('250') ? true : undefined;
    });
    assert.ok(taken);
    await hasTask('Logged again');
  });
});

// Sends mail by SMTP over several connections at once, each mail after the reply to the one before.
import { connectSmtp } from '../../test/support/smtp.ts';
import { serveCommands } from './commands.ts';

export type MailLoadOrder = {
  port: number;
  to: string;
  auth?: readonly [name: string, key: string];
  mails: number;
  connections: number;
  /** Distinguishes the mails of this order. */
  name: string;
};
export type MailLoadResult = { ms: number; refused: number };

const BODY = `${'A line of a usual mail, as people write them to each other.\r\n'.repeat(32)}`;

const write = ({ name, to }: MailLoadOrder, n: number): string =>
  [
    `From: Bench <bench@example.org>`,
    `To: ${to}`,
    `Subject: Mail ${n} of ${name}`,
    `Message-ID: <${name}.${n}@example.org>`,
    'Date: Mon, 01 Jun 2026 10:00:00 +0000',
    '',
    `${BODY}.\r\n`,
  ].join('\r\n');

async function send(order: MailLoadOrder): Promise<MailLoadResult> {
  const { port, to, auth, mails, connections } = order;
  const sessions = await Promise.all(
    Array.from({ length: connections }, async () => {
      const session = await connectSmtp({ port });
      await session.say('EHLO bench');
      if (auth !== undefined) {
        const [name, key] = auth;
        const plain = Buffer.from(`\0${name}\0${key}`).toString('base64');
        const reply = await session.say(`AUTH PLAIN ${plain}`);
        if (!reply.startsWith('235')) throw new Error(`the login failed: ${reply}`);
      }
      return session;
    }),
  );
  let next = 0;
  let refused = 0;
  const began = performance.now();
  await Promise.all(
    sessions.map(async (session) => {
      for (let n = next++; n < mails; n = next++) {
        const replies = [
          await session.say('MAIL FROM:<bench@example.org>'),
          await session.say(`RCPT TO:<${to}>`),
          await session.say('DATA'),
        ];
        if (!replies[2]!.startsWith('354')) throw new Error(replies.join(' | '));
        session.write(write(order, n));
        if (!(await session.reply()).startsWith('250')) refused++;
      }
    }),
  );
  const ms = performance.now() - began;
  for (const session of sessions) session.close();
  return { ms, refused };
}

serveCommands<MailLoadOrder>('ready', send);

// A bare SMTP client for tests: it sends exactly the bytes it is given, and returns every reply.
import net from 'node:net';

export type SmtpSession = {
  /** Sends a line and resolves to the reply. */
  say(line: string): Promise<string>;
  /** Sends bytes as they are. */
  write(bytes: string | Buffer): void;
  /** Resolves to the next reply. */
  reply(): Promise<string>;
  close(): void;
};

export async function connectSmtp(to: { path: string } | { port: number }): Promise<SmtpSession> {
  const socket = net.connect(
    'path' in to ? { path: to.path } : { port: to.port, host: '127.0.0.1' },
  );
  let text = '';
  let ended = false;
  let wake = (): void => {};
  socket.setEncoding('latin1');
  socket.on('data', (chunk: string) => {
    text += chunk;
    wake();
  });
  const end = (): void => {
    ended = true;
    wake();
  };
  socket.on('error', end);
  socket.on('close', end);
  const reply = async (): Promise<string> => {
    for (;;) {
      // The last line of a reply has a space after the code.
      const found = /^(?:\d{3}-[^\n]*\r\n)*\d{3} [^\n]*\r\n/.exec(text);
      if (found !== null) {
        text = text.slice(found[0].length);
        return found[0].trimEnd();
      }
      if (ended) throw new Error(`the connection ended after ${JSON.stringify(text)}`);
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  await reply();
  return {
    write: (bytes) => void socket.write(bytes),
    reply,
    async say(line) {
      socket.write(`${line}\r\n`);
      return reply();
    },
    close: () => socket.destroy(),
  };
}

export type TestMail = {
  /** A name and its key, for AUTH. */
  auth?: readonly [name: string, key: string];
  from?: string;
  to: string | readonly string[];
  /** Header and body with LF; dots are stuffed, line ends made CR LF. */
  mail: string;
  hello?: string;
};

/** Resolves to the first refusal, or to the reply to the mail. */
export async function sendSmtp(
  where: { path: string } | { port: number },
  { auth, from = 'someone@example.org', to, mail, hello = 'EHLO test' }: TestMail,
): Promise<string> {
  const session = await connectSmtp(where);
  try {
    const steps = [
      hello,
      ...(auth === undefined
        ? []
        : [`AUTH PLAIN ${Buffer.from(`\0${auth[0]}\0${auth[1]}`).toString('base64')}`]),
      `MAIL FROM:<${from}>`,
      ...[to].flat().map((address) => `RCPT TO:<${address}>`),
      'DATA',
    ];
    for (const step of steps) {
      const reply = await session.say(step);
      if (!/^[23]/.test(reply)) return reply;
    }
    session.write(`${mail.replace(/\r?\n/g, '\r\n').replace(/^\./gm, '..')}\r\n.\r\n`);
    return await session.reply();
  } finally {
    session.close();
  }
}

let made = 0;

/** A whole mail with these fields. */
export function writeMail(fields: Record<string, string>, body: string): string {
  const all: Record<string, string> = {
    From: 'Someone <someone@example.org>',
    'Message-ID': `<test-${process.pid}-${made++}@example.org>`,
    Date: 'Mon, 01 Jun 2026 10:00:00 +0000',
    ...fields,
  };
  const head = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return `${head.join('\n')}\n\n${body}`;
}

// Gives one mail to the smarthost by SMTP. Loaded with the first mail. The smarthost is the only
// server that maild connects to, and a host that a caller named never gets here.
import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { rootCertificates } from 'node:tls';
import SMTPConnection from 'nodemailer/lib/smtp-connection';
import { portOf, type SmarthostConfig } from './smarthost-config.ts';

export type SmarthostReply = { code: number; enhanced: string | null; said: string };

export type HandedOver =
  /** By recipient: its own refusal, or the reply to the whole mail. */
  | { kind: 'replied'; replies: ReadonlyMap<string, SmarthostReply> }
  /** Certainly not sent. */
  | { kind: 'not-sent'; problem: string }
  /** All of it was sent, and no reply came. */
  | { kind: 'unknown'; problem: string };

export type LetterForSmarthost = {
  from: string;
  to: readonly string[];
  /** With CR LF. */
  letter: string;
  /** Awaited when the smarthost wants the mail, before any of it is sent. A throw sends nothing. */
  beforeData(): Promise<void>;
};

export type HandToSmarthost = (
  mail: LetterForSmarthost,
  signal: AbortSignal,
) => Promise<HandedOver>;

const CONNECT_MS = 30_000;
/** The smarthost may check the mail before it replies; it has ten minutes (RFC 5321). */
const IDLE_MS = 600_000;
const SAID_CHARS_MAX = 300;

type SmtpError = Error & {
  code?: string;
  command?: string;
  response?: string;
  recipient?: string;
  rejectedErrors?: SmtpError[];
};
type Sent = { response: string; accepted: string[]; rejectedErrors?: SmtpError[] };

export function makeHandToSmarthost(
  config: SmarthostConfig,
  facts: { name: string; password: string | undefined },
): HandToSmarthost {
  const { host, tls, user } = config;
  // Read for each mail: a certificate may be renewed.
  const readCa = (): { ca?: string[] } =>
    config.tls_ca_file === undefined
      ? {}
      : { ca: [...rootCertificates, readFileSync(config.tls_ca_file, 'utf8')] };
  return async (mail, signal) => {
    const connection = new SMTPConnection({
      host,
      port: portOf(config),
      secure: tls === 'implicit',
      requireTLS: tls === 'starttls',
      ignoreTLS: tls === 'none',
      name: facts.name,
      connectionTimeout: CONNECT_MS,
      greetingTimeout: CONNECT_MS,
      dnsTimeout: CONNECT_MS,
      socketTimeout: IDLE_MS,
      socketCloseTimeout: 1_000,
      logger: false,
      tls: { minVersion: 'TLSv1.2', rejectUnauthorized: true, ...readCa() },
    });
    let isWhole = false;
    const body = new Readable({
      read() {
        mail.beforeData().then(
          () => {
            isWhole = true;
            body.push(mail.letter);
            body.push(null);
          },
          (error: Error) => body.destroy(error),
        );
      },
    });
    const onAbort = (): void => connection.close();
    try {
      if (signal.aborted) return toFailure(new Error('maild is stopping'), [], false);
      signal.addEventListener('abort', onAbort, { once: true });
      await until<void>(connection, (done) => connection.connect(done));
      if (user !== undefined) {
        const auth = { user, pass: facts.password! };
        await until<unknown>(connection, (done) => connection.login(auth, done));
      }
      const { from, to, letter } = mail;
      const envelope = { from, to: [...to], size: Buffer.byteLength(letter) };
      const sent = await until<Sent>(connection, (done) =>
        connection.send(envelope, body, done as never),
      );
      connection.quit();
      return toReplies(sent);
    } catch (error) {
      connection.close();
      return toFailure(error as SmtpError, mail.to, isWhole);
    } finally {
      signal.removeEventListener('abort', onAbort);
      body.destroy();
    }
  };
}

/** An error of the connection may come beside the callback, or instead of it. */
const until = <T>(
  connection: SMTPConnection,
  start: (done: (error: Error | null | undefined, value?: T) => void) => void,
): Promise<T> =>
  new Promise((resolve, reject) => {
    // It stays: one without a listener would end the process.
    connection.on('error', reject);
    connection.once('end', () => reject(new Error('the connection was closed')));
    start((error, value) => (error ? reject(error) : resolve(value as T)));
  });

function toReplies({ response, accepted, rejectedErrors = [] }: Sent): HandedOver {
  const replies = new Map<string, SmarthostReply>();
  for (const error of rejectedErrors)
    if (error.recipient !== undefined) replies.set(error.recipient, toReply(error.response ?? ''));
  for (const address of accepted) replies.set(address, toReply(response));
  return { kind: 'replied', replies };
}

/** With these, the smarthost refuses the mail, and not us. */
const ABOUT_MAIL: ReadonlySet<string> = new Set(['MAIL FROM', 'RCPT TO', 'DATA']);

function toFailure(error: SmtpError, to: readonly string[], isWhole: boolean): HandedOver {
  const { command = '', response, rejectedErrors = [], code } = error;
  // All recipients were refused, each for a reason of its own.
  if (rejectedErrors.length > 0) return toReplies({ response: '', accepted: [], rejectedErrors });
  const problem = toLine(error.message);
  const isTooLarge = code === 'EMESSAGE' && command === 'MAIL FROM' && response === undefined;
  const said = isTooLarge ? `552 5.3.4 ${problem}` : response;
  if (said !== undefined && ABOUT_MAIL.has(command))
    return toReplies({ response: said, accepted: [...to] });
  if (isWhole && response === undefined) return { kind: 'unknown', problem };
  return { kind: 'not-sent', problem };
}

function toReply(response: string): SmarthostReply {
  const [, code = '0', enhanced] =
    /^(\d{3})(?:[ -]([245]\.\d{1,3}\.\d{1,3})(?=\s|$))?/.exec(response) ?? [];
  return { code: Number(code), enhanced: enhanced ?? null, said: toLine(response) };
}

const toLine = (text: string): string =>
  text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .slice(0, SAID_CHARS_MAX);

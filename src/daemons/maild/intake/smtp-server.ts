// Speaks SMTP and LMTP on sockets that listeners.ts opened. Loaded with the first connection.
import { SMTPServer, type SMTPServerSession } from 'smtp-server';
import type { Log } from '../../../platform/log.ts';
import { Fault } from '../../../wire/errors.ts';
import { MAIL_BYTES_MAX, type SmtpRefusal } from '../rules/raw-message.ts';
import type { Intake, MailSender } from './intake.ts';

export type MailProtocol = 'smtp' | 'lmtp';

export type SmtpServerDeps = {
  intake: Intake;
  /** Returns who has this key; throws for a wrong one. */
  authenticate(name: string, key: string): MailSender;
  domain: string;
  log: Log;
};

const RECIPIENTS_MAX = 100;
const CONNECTIONS_MAX = 50;
const IDLE_MS = 60_000;

class SmtpError extends Error {
  readonly responseCode: number;
  constructor({ code, text }: SmtpRefusal) {
    super(text);
    this.responseCode = code;
  }
}

export function makeSmtpServer(protocol: MailProtocol, deps: SmtpServerDeps): SMTPServer {
  const { intake, domain, log } = deps;
  const senderOf = ({ user }: SMTPServerSession): MailSender =>
    (user as MailSender | undefined) ?? { kind: 'outside', through: protocol };

  const reply = (work: Promise<SmtpRefusal | undefined>, done: (error?: Error) => void): void => {
    work.then(
      (refusal) => done(refusal === undefined ? undefined : new SmtpError(refusal)),
      (error: unknown) => {
        log.warn('taking mail failed', { error });
        done(new SmtpError(toRefusal(error)));
      },
    );
  };

  const server = new SMTPServer({
    lmtp: protocol === 'lmtp',
    name: domain,
    banner: 'agentd',
    size: MAIL_BYTES_MAX,
    authOptional: true,
    // Only on this host: a Unix socket, or loopback.
    allowInsecureAuth: true,
    authMethods: ['PLAIN', 'LOGIN'],
    disabledCommands: protocol === 'lmtp' ? ['STARTTLS', 'AUTH'] : ['STARTTLS'],
    hideSMTPUTF8: true,
    disableReverseLookup: true,
    maxClients: CONNECTIONS_MAX,
    socketTimeout: IDLE_MS,
    closeTimeout: 1_000,
    logger: false,
    onAuth({ username = '', password }, _session, done) {
      try {
        done(null, { user: deps.authenticate(username, password ?? '') });
      } catch (error) {
        const isWrongKey = error instanceof Fault && error.code === 'unauthenticated';
        if (!isWrongKey) log.warn('checking a key for mail failed', { error });
        done(
          new SmtpError(
            isWrongKey
              ? { code: 535, text: `5.7.8 ${error.message}` }
              : { code: 454, text: '4.7.0 keys cannot be checked now; try again later' },
          ),
        );
      }
    },
    onRcptTo({ address }, session, done) {
      if (session.envelope.rcptTo.length >= RECIPIENTS_MAX)
        return done(
          new SmtpError({ code: 452, text: `4.5.3 up to ${RECIPIENTS_MAX} recipients at a time` }),
        );
      reply(intake.checkRecipient(senderOf(session), address), done);
    },
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => {
        // Mail that is too large is read to its end, so that the sender hears why, and not kept.
        if (!stream.sizeExceeded) chunks.push(chunk);
        else chunks.length = 0;
      });
      stream.once('end', () => {
        const { mailFrom, rcptTo } = session.envelope;
        const work = stream.sizeExceeded
          ? Promise.resolve({
              code: 552,
              text: `5.3.4 the mail is larger than ${MAIL_BYTES_MAX} bytes`,
            })
          : intake.take(
              {
                sender: senderOf(session),
                from: mailFrom === false ? '' : mailFrom.address,
                to: rcptTo.map(({ address }) => address),
              },
              Buffer.concat(chunks),
            );
        reply(work, done);
      });
    },
  });
  server.on('error', (error: Error) => log.debug('a mail connection failed', { error }));
  return server;
}

/** Another try may succeed: nothing about the mail itself was wrong. */
function toRefusal(error: unknown): SmtpRefusal {
  const code = error instanceof Fault ? error.code : undefined;
  if (code === 'storage_full') return { code: 452, text: '4.3.1 there is no space for mail' };
  if (code === 'audit_unavailable')
    return { code: 451, text: '4.3.0 the audit log accepts no events; try again later' };
  return { code: 451, text: '4.3.0 mail cannot be taken now; try again later' };
}

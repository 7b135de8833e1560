// maild's section of agentd.yaml: its domain, and who is notified of what.
import * as z from 'zod';
import { MailboxName, NOTICE_KINDS } from '../../wire/maild.ts';
import { domainOf, isBelow, smarthostConfig } from './outgoing/smarthost-config.ts';

const DOMAIN_DEFAULT = 'agentd.localhost';

const maildObject = z.strictObject({
  /** The part after the @ of its addresses and message ids. */
  domain: z
    .string()
    .max(253)
    .regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, 'must be a domain in lower case')
    .default(DOMAIN_DEFAULT),
  /** A port of 127.0.0.1 for SMTP. Without it, only the private socket takes mail. */
  smtp_port: z.int().min(1).max(65_535).optional(),
  /** The same for LMTP, which mail servers use to hand over. */
  lmtp_port: z.int().min(1).max(65_535).optional(),
  lmtp_socket: z
    .string()
    .max(100)
    .regex(/^\/[^\0\n]*$/, 'must be an absolute path')
    .optional(),
  /** People whose mail goes into a Maildir of their own account. */
  maildirs: z
    .record(
      MailboxName,
      z.strictObject({
        user: z.string().regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'must be the name of an account'),
        /** Default: Maildir in the account's home. */
        dir: z
          .string()
          .max(1_024)
          .regex(/^\/[^\0\n]*$/, 'must be an absolute path')
          .optional(),
      }),
    )
    .refine((boxes) => Object.keys(boxes).length <= 64, 'up to 64 people')
    .default({}),
  /** Names that stand for agents, people and other aliases: all of them get the mail. */
  aliases: z
    .record(
      z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be a name without @'),
      z.array(MailboxName).min(1).max(64),
    )
    .default({}),
  /** The person who gets what is for nobody else. */
  postmaster: MailboxName.default('operator'),
  /** Sent to people without their asking for it. */
  notices: z
    .array(z.enum(NOTICE_KINDS))
    .max(8)
    .default([...NOTICE_KINDS]),
  /** Takes mail to others. Without it, none is sent. */
  smarthost: smarthostConfig.optional(),
  /** Where the service manager put credentials. Set by the entry. */
  credentials_dir: z.string().max(4_096).optional(),
});

export const maildConfig = maildObject.superRefine(({ smarthost, domain }, context) => {
  if (smarthost === undefined) return;
  const fail = (message: string): void =>
    context.addIssue({ code: 'custom', path: ['smarthost'], message });
  const sender = smarthost.from === undefined ? domain : domainOf(smarthost.from);
  if (sender === DOMAIN_DEFAULT)
    fail('nobody can reply to agentd.localhost: set maild.domain or maild.smarthost.from');
  if (smarthost.dkim !== undefined && !isBelow(sender, smarthost.dkim.domain))
    fail(`dkim.domain ${smarthost.dkim.domain} cannot sign for a sender in ${sender}`);
});
export type MaildConfig = z.output<typeof maildConfig>;

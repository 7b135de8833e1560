// maild's section of agentd.yaml: its domain, and who is notified of what.
import * as z from 'zod';
import { MailboxName, NOTICE_KINDS } from '../../wire/maild.ts';

export const maildConfig = z.strictObject({
  /** The part after the @ of its addresses and message ids. */
  domain: z
    .string()
    .max(253)
    .regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, 'must be a domain in lower case')
    .default('agentd.localhost'),
  /** The person who gets what is for nobody else. */
  postmaster: MailboxName.default('operator'),
  /** Sent to people without their asking for it. */
  notices: z
    .array(z.enum(NOTICE_KINDS))
    .max(8)
    .default([...NOTICE_KINDS]),
});
export type MaildConfig = z.output<typeof maildConfig>;

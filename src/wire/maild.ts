// maild's contract: what other daemons have delivered to people, and what people read and send.
import * as z from 'zod';
import { REPLY_MAILBOX } from './approvald/replies.ts';
import { eraseCopiesRoute } from './copies.ts';
import { externalMailRoutes } from './maild/external.ts';
import { AgentName, ContextId, pageQuery, TaskId, Timestamp } from './primitives.ts';
import { route, routes } from './route.ts';

/** The name of a person, whose mailbox it is. */
export const MailboxName = z
  .string()
  .max(64)
  .regex(/^[A-Za-z0-9][A-Za-z0-9@._-]{0,63}$/, 'must be the name of a person');

/** A subject is one line. */
const Subject = z
  .string()
  .max(500)
  .regex(/^[^\r\n\0]*$/, 'must be one line');

export const MAIL_TEXT_CHARS_MAX = 200_000;

export const NOTICE_KINDS = ['result', 'question', 'message', 'approval'] as const;
/** A digest comes only to those who ask for it. */
const MAILED_KINDS = [...NOTICE_KINDS, 'digest'] as const;
export const MailNotice = z.strictObject({
  /** The same for the same notice, so that a repeat is delivered once. */
  id: z.string().regex(/^[a-z]+_[0-9a-z]{26}\.[0-9a-z-]{1,32}$/, 'must look like task_….result'),
  kind: z.enum(MAILED_KINDS),
  /** Null: the person who created the task, else the postmaster. */
  to: MailboxName.nullable(),
  /** Null: the runtime itself. */
  from: AgentName.nullable(),
  /** The subject, unless its thread has one. */
  title: Subject,
  /** A reply goes to people's approvals, and not to `from`. */
  reply_to: z.literal(REPLY_MAILBOX).optional(),
  text: z.string().max(MAIL_TEXT_CHARS_MAX),
  context_id: ContextId.nullable(),
  task_id: TaskId.nullable(),
  at: Timestamp,
});
export type MailNotice = z.infer<typeof MailNotice>;

export const MailSummary = z.object({
  /** Its place in the mailbox, from 1, oldest first. */
  n: z.int(),
  from: z.string(),
  to: z.string(),
  subject: z.string(),
  date: Timestamp.nullable(),
  is_read: z.boolean(),
  size_bytes: z.int(),
});
export type MailSummary = z.infer<typeof MailSummary>;

export const MailView = MailSummary.extend({
  message_id: z.string().nullable(),
  task_id: z.string().nullable(),
  text: z.string(),
});
export type MailView = z.infer<typeof MailView>;

export const maildRoutes = routes({
  deliverNotices: route({
    method: 'POST',
    path: '/v1/mail/notices',
    callers: ['agentd', 'approvald'],
    body: z.strictObject({ notices: z.array(MailNotice).min(1).max(20) }),
    output: z.object({ delivered: z.int() }),
    bodySizeBytesMax: 24_000_000,
  }),
  eraseCopies: eraseCopiesRoute('/v1/mail/copies/erase'),
  ...externalMailRoutes,
  /** To another person. Work for an agent is a task or a message at agentd. */
  sendMail: route({
    method: 'POST',
    path: '/v1/mail',
    callers: ['operator'],
    creates: true,
    body: z.strictObject({
      to: MailboxName,
      subject: Subject.optional(),
      text: z.string().min(1).max(MAIL_TEXT_CHARS_MAX),
    }),
    output: z.object({ mail: z.object({ id: z.string(), message_id: z.string() }) }),
    bodySizeBytesMax: 1_000_000,
  }),
  /** A whole mail, as programs give it to sendmail; the caller is its sender. */
  submitMail: route({
    method: 'POST',
    // Whom a person may write to depends on their role, and is decided for each recipient.
    role: 'reader',
    path: '/v1/mail/submit',
    callers: ['operator'],
    body: z.strictObject({
      to: z.array(z.string().min(1).max(320)).max(100),
      /** Also to whom its fields To, Cc and Bcc name. */
      reads_recipients: z.boolean(),
      /** Written by a program, and to be answered by none: the null sender. */
      is_bounce: z.boolean().optional(),
      raw_base64: z.base64().max(14_000_000),
    }),
    output: z.object({ recipients: z.array(z.string()) }),
    bodySizeBytesMax: 14_500_000,
  }),
  /** The last ones, oldest first. */
  listMail: route({
    method: 'GET',
    path: '/v1/mail',
    callers: ['operator'],
    query: z.strictObject({
      limit: pageQuery(50).limit,
      /** By default the caller's own. */
      box: MailboxName.optional(),
    }),
    output: z.object({
      box: z.string(),
      mails: z.array(MailSummary),
      total: z.int(),
      unread: z.int(),
    }),
  }),
  /** Marks it as read. */
  readMail: route({
    method: 'POST',
    role: 'reader',
    path: '/v1/mail/read',
    callers: ['operator'],
    body: z.strictObject({ n: z.int().positive(), box: MailboxName.optional() }),
    output: z.object({ mail: MailView }),
  }),
});

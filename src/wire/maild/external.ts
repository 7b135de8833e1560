// maild's routes for mail to others, which toold hands over for an agent's call, and its outcome.
// Each call sends one mail.
import * as z from 'zod';
import { AgentName, CallId, RunId, TaskId, Timestamp } from '../primitives.ts';
import { route } from '../route.ts';

const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_{|}~-]{1,64}";
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const ADDRESS = new RegExp(`^${ATOM}(?:\\.${ATOM})*@(?:${LABEL}\\.)+[A-Za-z]${LABEL}$`);

/** One address without a name: no quoted parts, no comments, no addresses of hosts. */
export const MailAddress = z
  .string()
  .max(254)
  .regex(ADDRESS, 'must be a mail address such as ann@example.org')
  .refine((address) => address.lastIndexOf('@') <= 64, 'has more than 64 characters before the @');

export const EXTERNAL_RECIPIENTS_MAX = 20;

export const ExternalMail = z.strictObject({
  to: z.array(MailAddress).min(1).max(EXTERNAL_RECIPIENTS_MAX),
  cc: z.array(MailAddress).max(EXTERNAL_RECIPIENTS_MAX).default([]),
  subject: z
    .string()
    .min(1)
    .max(200)
    .refine((text) => !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(text), 'must be one line'),
  text: z
    .string()
    .min(1)
    .max(100_000)
    .refine((text) => !/(?![\r\n\t])\p{Cc}/u.test(text), 'must have no control characters'),
});
export type ExternalMail = z.infer<typeof ExternalMail>;

/** Names the mail of a call; a repeat that a person allowed has the next number. */
export const ExternalMailId = z
  .string()
  .regex(/^mail_[0-9a-z]{26}\.\d{1,4}$/, 'must look like mail_….1');

export const ExternalMailOutcome = z.strictObject({
  /** partly: accepted for some; withdrawn: its task ended first; unknown: a person has to say. */
  status: z.enum(['sent', 'partly', 'failed', 'withdrawn', 'unknown']),
  message_id: z.string().max(320),
  attempts: z.int().nonnegative(),
  recipients: z
    .array(
      z.strictObject({
        address: z.string().max(254),
        accepted: z.boolean(),
        /** The last reply of the smarthost, in figures only: its words are text of others. */
        code: z.int().nullable(),
        enhanced: z
          .string()
          .regex(/^[245]\.\d{1,3}\.\d{1,3}$/)
          .nullable(),
      }),
    )
    .max(2 * EXTERNAL_RECIPIENTS_MAX),
});
export type ExternalMailOutcome = z.infer<typeof ExternalMailOutcome>;

const TakenMail = z.object({ id: ExternalMailId, ends_at: Timestamp });

export const externalMailRoutes = {
  /** Shows the mail as it would be sent; refuses one that could not be. */
  previewExternal: route({
    method: 'POST',
    path: '/v1/mail/external/preview',
    callers: ['toold'],
    body: z.strictObject({ agent: AgentName, mail: ExternalMail }),
    output: z.object({ text: z.string() }),
  }),
  /** Takes it, once per call; it is sent in the background. */
  sendExternal: route({
    method: 'POST',
    path: '/v1/mail/external',
    callers: ['toold'],
    body: z.strictObject({
      run_id: RunId,
      call_id: CallId,
      task_id: TaskId,
      root_task_id: TaskId,
      agent: AgentName,
      mail: ExternalMail,
    }),
    output: z.object({ mail: TakenMail }),
  }),
  /** Null: none was taken for the call, or a person said that it was not sent. */
  findExternal: route({
    method: 'GET',
    path: '/v1/mail/external/{call_id}',
    callers: ['toold'],
    params: z.strictObject({ call_id: CallId }),
    output: z.object({ mail: TakenMail.nullable() }),
  }),
  /** A person said that it was not sent: the call may send it again. */
  forgetExternal: route({
    method: 'POST',
    path: '/v1/mail/external/{call_id}/forget',
    callers: ['toold'],
    params: z.strictObject({ call_id: CallId }),
    output: z.object({ forgotten: z.boolean() }),
  }),
};

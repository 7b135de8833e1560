// The route by which maild hands over a person's reply to an approval request. maild only relays:
// approvald made the code, and checks everything about it.
import * as z from 'zod';
import { ApprovalId } from '../primitives.ts';
import { route } from '../route.ts';
import { ActingPerson } from './proposals.ts';

export const REPLY_REASON_CHARS_MAX = 2_000;

/** The local part of the address that people reply to. */
export const REPLY_MAILBOX = 'approvals';

export const routesForMaild = {
  /** Idempotent per mail. A refusal is a value: the person is told, and nothing is tried again. */
  decideByReply: route({
    method: 'POST',
    path: '/v1/approvals/replies',
    callers: ['maild'],
    body: z.strictObject({
      /** A mail decides once, however often it is handed over. */
      mail_id: z.string().regex(/^mail_[0-9a-z]{26}$/, 'must be the id of a mail'),
      /** As authenticated: `key` is that of the login, never taken from the mail. */
      person: ActingPerson,
      answer: z.enum(['approve', 'reject']),
      code: z.string().min(1).max(64),
      /** The approval that the answered mail was about, if it is known. */
      answers: ApprovalId.nullable(),
      reason: z.string().max(REPLY_REASON_CHARS_MAX).optional(),
    }),
    output: z.object({
      decided: z.boolean(),
      approval_id: ApprovalId.nullable(),
      /** Tells the person the decision, or why there is none. */
      text: z.string(),
    }),
  }),
};

// The routes by which maild hands over mail for agents, whose sender it has identified, by a key or
// as outside; and those for calls that wait until a mail to others was sent.
import * as z from 'zod';
import { ExternalMailId, ExternalMailOutcome } from '../maild/external.ts';
import {
  AgentName,
  ArtifactId,
  CallId,
  ContextId,
  Principal,
  RunId,
  TaskId,
  Timestamp,
  WaitId,
} from '../primitives.ts';
import { route } from '../route.ts';
import { PutArtifact } from './artifacts.ts';
import { Goal, WaitView } from './tasks.ts';

/** The same for the same mail and recipient: what it starts, it starts once. */
const MailKey = z.string().min(1).max(200);

export const MAIL_ATTACHMENTS_MAX = 32;

export const mailRoutes = {
  takeAttachment: route({
    method: 'POST',
    path: '/v1/incoming/attachments',
    callers: ['maild'],
    body: z.strictObject({ key: MailKey, from: Principal, artifact: PutArtifact }),
    output: z.object({ artifact_id: ArtifactId }),
    bodySizeBytesMax: 17_000_000,
  }),
  /** Answers a question, reaches an agent that works in the thread, or creates a task. */
  takeMail: route({
    method: 'POST',
    path: '/v1/incoming/mails',
    callers: ['maild'],
    body: z.strictObject({
      key: MailKey,
      from: Principal,
      /** The person whose own key was used. */
      owner: z.string().max(64).nullable(),
      to: AgentName,
      text: Goal,
      artifacts: z.array(ArtifactId).max(MAIL_ATTACHMENTS_MAX),
      /** The question, the task and the thread of the mail that it replies to. */
      wait_id: WaitId.nullable(),
      task_id: TaskId.nullable(),
      context_id: ContextId.nullable(),
    }),
    output: z.object({
      became: z.enum(['answer', 'message', 'task']),
      task_id: TaskId,
      context_id: ContextId,
    }),
    bodySizeBytesMax: 1_000_000,
  }),
};

export const outgoingMailRoutes = {
  /** The call waits until its mail was sent or has failed; maild reports when that has ended. */
  toolAwaitMail: route({
    method: 'POST',
    path: '/v1/run-calls/await-mail',
    callers: ['toold'],
    body: z.strictObject({
      run_id: RunId,
      fence: z.int().positive(),
      call_id: CallId,
      mail_id: ExternalMailId,
      /** When maild gives up, so that a repeated request is identical. */
      expires_at: Timestamp,
    }),
    output: z.object({ wait: WaitView }),
  }),
  /** ended: the call's wait has ended. Not ended: the call does not wait yet. */
  mailEnded: route({
    method: 'POST',
    path: '/v1/outgoing/mails/{id}/ended',
    callers: ['maild'],
    params: z.strictObject({ id: ExternalMailId }),
    body: z.strictObject({ run_id: RunId, call_id: CallId, outcome: ExternalMailOutcome }),
    output: z.object({ ended: z.boolean() }),
  }),
};

// message.send: one message to a colleague or a person; agentd checks who may write to whom.
import * as z from 'zod';
import { isFault } from '../../../platform/daemon.ts';
import { MessageTurn, MessageType, type WaitView } from '../../../wire/agentd.ts';
import { MessageId, Principal } from '../../../wire/primitives.ts';
import {
  type AgentdClient,
  type Effect,
  forRun,
  peerOptions,
  readAnswerText,
  readUnanswered,
  type Tool,
  type ToolOutcome,
  toCallError,
  tool,
} from './tool.ts';

const Recipient = z
  .string()
  .max(140)
  .transform((to) => (to.includes(':') ? to : `agent:${to}`))
  .pipe(Principal)
  .describe('agent:coder, person:alice, or just the name of a colleague');

function readReply(wait: WaitView): ToolOutcome {
  if (wait.kind === 'question') return readExchangeAnswer(wait);
  if (wait.outcome === 'failed') {
    const message = `${wait.from} ended its task in this thread without a reply`;
    const hint = 'Decide with what you have, or give it a new task with task.delegate.';
    return { status: 'failed', error: { code: 'ended', message, hint, retry: false } };
  }
  return (
    readUnanswered(wait, 'the message') ?? {
      status: 'completed',
      result: { replied: true, reply: wait.answer ?? {} },
    }
  );
}

/** A person was asked whether the two agents may go on; the message was not sent. */
function readExchangeAnswer(wait: WaitView): ToolOutcome {
  const unanswered = readUnanswered(wait, 'the question whether you may go on');
  if (unanswered !== undefined) return unanswered;
  if (readAnswerText(wait) === 'go on') {
    const note = `${wait.answered_by} lets you go on. This message was not sent: send it again.`;
    return { status: 'completed', result: { replied: false, note } };
  }
  const message = `${wait.answered_by} ended what agents write to each other in this thread`;
  const hint = 'Decide with what you have and end your task.';
  return { status: 'failed', error: { code: 'limit', message, hint, retry: false } };
}

/** A missing gateway stays missing, so the error is not retryable. */
function absentReceiverError(error: unknown, to: string): Effect {
  if (!isFault(error, 'unavailable') || !to.startsWith('external:')) throw error;
  const hint = 'Do without it: this message has no receiver here.';
  return { error: { ...toCallError(error), hint, retry: false } };
}

export function messageTools(agentd: AgentdClient): Tool[] {
  const send = tool({
    name: 'message.send',
    description:
      'Send a message to a colleague or a person, for progress, a question or an answer. With ' +
      'wait_reply you wait for the reply, and it is the result of this call. To have work done, ' +
      'use task.delegate instead. A thread has a limited number of turns between agents: write ' +
      'what is new, and answer nothing that needs no answer.',
    risk: 'low',
    reversibility: 'irreversible',
    idempotent: true,
    level: 'L0',
    input: z.strictObject({
      to: Recipient,
      type: MessageType.default('TaskProgress'),
      text: z.string().min(1).max(65_536),
      in_reply_to: MessageId.optional(),
      wait_reply: z.boolean().default(false),
      expires_in_s: z.int().positive().max(31_536_000).optional(),
    }),
    output: z.object({
      message_id: MessageId.optional(),
      replied: z.boolean(),
      reply: z.record(z.string(), z.unknown()).optional(),
      turn: MessageTurn.optional().describe('of this thread, between agents'),
      note: z.string().optional(),
    }),
    touches: ({ to, type }) => [{ action: 'message.send', to, messageType: type }],
    async perform({ to, type, text, in_reply_to, wait_reply, expires_in_s }, context) {
      const message = { type, to, parts: [{ kind: 'text' as const, text }], in_reply_to };
      const body = { ...forRun(context), message, wait_reply, expires_in_s };
      try {
        const sent = await agentd.toolMessage({ body }, peerOptions);
        if (sent.wait !== null) return { wait: sent.wait };
        const { id, turn } = sent.message!;
        return { result: { message_id: id, replied: false, ...(turn && { turn }) } };
      } catch (error) {
        return absentReceiverError(error, to);
      }
    },
    readWaitOutcome: readReply,
  });

  return [send];
}

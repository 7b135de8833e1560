// person.ask and timer.wait: both only open a wait that agentd holds.
import * as z from 'zod';
import type { WaitView } from '../../../wire/agentd.ts';
import {
  type AgentdClient,
  forRun,
  peerOptions,
  readAnswerText,
  readUnanswered,
  type Tool,
  type ToolOutcome,
  tool,
} from './tool.ts';

function readQuestionOutcome(wait: WaitView): ToolOutcome {
  return (
    readUnanswered(wait, 'the question') ?? {
      status: 'completed',
      result: {
        answer: readAnswerText(wait) ?? '',
        ...(wait.answered_by === null ? {} : { answered_by: wait.answered_by }),
      },
    }
  );
}

function readTimerOutcome(wait: WaitView): ToolOutcome {
  if (wait.outcome === 'canceled') return readUnanswered(wait, 'the timer')!;
  return { status: 'completed', result: { ended_at: wait.ended_at ?? wait.due_at ?? '' } };
}

export function waitTools(agentd: AgentdClient): Tool[] {
  const ask = tool({
    name: 'person.ask',
    description:
      'Ask a person a question and wait for the answer, which may take hours. Ask only what you ' +
      'cannot find out or decide yourself, say what you will do with the answer, and give ' +
      'choices where there are some.',
    risk: 'low',
    reversibility: 'read-only',
    idempotent: true,
    level: 'L0',
    input: z.strictObject({
      question: z.string().min(1).max(16_384),
      choices: z.array(z.string().min(1).max(200)).max(16).optional(),
      expires_in_s: z.int().positive().max(31_536_000).optional(),
    }),
    output: z.object({ answer: z.string(), answered_by: z.string().optional() }),
    async perform(input, context) {
      const body = { ...forRun(context), ...input };
      return agentd.toolAsk({ body }, peerOptions);
    },
    readWaitOutcome: readQuestionOutcome,
  });

  const timer = tool({
    name: 'timer.wait',
    description: 'Sleep for some seconds without cost, and go on after that.',
    risk: 'low',
    reversibility: 'read-only',
    idempotent: true,
    level: 'L0',
    input: z.strictObject({ after_s: z.number().positive().max(31_536_000) }),
    output: z.object({ ended_at: z.string() }),
    async perform({ after_s }, context) {
      return agentd.toolTimer({ body: { ...forRun(context), after_s } }, peerOptions);
    },
    readWaitOutcome: readTimerOutcome,
  });

  return [ask, timer];
}

// package.request: asks a person to install a package. Agents install nothing: package code is not
// trusted, and running it would need a stronger sandbox than this host has.
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

export const INSTALLED = 'it is installed';
export const NOT_INSTALLED = 'no';

const Input = z.strictObject({
  manager: z.enum(['npm', 'pip', 'cargo', 'go', 'apt']),
  name: z
    .string()
    .max(214)
    .regex(/^@?[A-Za-z0-9][\w./@-]*$/, 'must be the name of a package'),
  version: z
    .string()
    .max(64)
    .regex(/^[\w.+~^*-]+$/, 'must be a version')
    .optional(),
  reason: z.string().min(1).max(1_000).describe('what it is needed for'),
});

function writeQuestion(agent: string, { manager, name, version, reason }: z.infer<typeof Input>) {
  const what = version === undefined ? name : `${name} ${version}`;
  return `${agent} asks for the ${manager} package ${what} in its workspace. Its reason: ${reason}
Look at the package first: its code was not checked, and a name can be made up or misspelt. agentd installs nothing by itself. If you want it there, install it, then answer.`;
}

function readOutcome(wait: WaitView): ToolOutcome {
  const installed = readAnswerText(wait) === INSTALLED;
  const by = wait.answered_by === null ? {} : { answered_by: wait.answered_by };
  return (
    readUnanswered(wait, 'the request') ?? { status: 'completed', result: { installed, ...by } }
  );
}

export function packageTools(agentd: AgentdClient): Tool[] {
  const request = tool({
    name: 'package.request',
    description:
      'Ask a person to install a package for the workspace, and wait for the answer, which may ' +
      'take hours. installed tells whether it is there now. Do without it where you can.',
    risk: 'medium',
    reversibility: 'read-only',
    idempotent: true,
    callsPerRunMax: 50,
    level: 'L0',
    input: Input,
    output: z.object({ installed: z.boolean(), answered_by: z.string().optional() }),
    async perform(input, context) {
      const question = writeQuestion(context.agent, input);
      const choices = [INSTALLED, NOT_INSTALLED];
      return agentd.toolAsk({ body: { ...forRun(context), question, choices } }, peerOptions);
    },
    readWaitOutcome: readOutcome,
  });
  return [request];
}

// One call as one activation requests it, and the values derived from it: its row, its subject in
// the log, the tool's context, and simple answers.
import { ANY_PATH } from '../../../policy/box-rules.ts';
import type { WaitView } from '../../../wire/agentd.ts';
import { Fault } from '../../../wire/errors.ts';
import type { CallId } from '../../../wire/primitives.ts';
import type { CallAnswer, CallRequest } from '../../../wire/toold.ts';
import { truncateText } from '../results/output.ts';
import { type CallError, type Denied, formatChecks } from '../rules.ts';
import type { ToolRun } from '../runs.ts';
import type { NewCall } from '../store/store.ts';
import type { Box } from '../tools/box.ts';
import { type Tool, type ToolContext, toCallError } from '../tools/tool.ts';

export type Job = {
  run: ToolRun;
  callId: CallId;
  toolName: string;
  /** Undefined when the tool does not exist. */
  tool: Tool | undefined;
  request: CallRequest;
  argumentsText: string;
  argumentsHash: string;
  key: string;
  signal: AbortSignal;
};

/** Longer arguments are journaled as hash and preview; the run sends them again with a retry. */
const ARGUMENTS_CHARS_MAX = 65_536;
export const makeCallRow = (job: Job, nowMs: number): NewCall => ({
  call_id: job.callId,
  run_id: job.run.runId,
  fence: job.run.fence,
  tool: job.toolName,
  purpose: job.request.purpose ?? '',
  arguments:
    job.argumentsText.length <= ARGUMENTS_CHARS_MAX
      ? job.argumentsText
      : JSON.stringify({
          shortened: true,
          size_chars: job.argumentsText.length,
          preview: truncateText(job.argumentsText),
        }),
  arguments_hash: job.argumentsHash,
  nowMs,
});

export const isShortened = (known: Record<string, unknown>): boolean =>
  known.shortened === true && typeof known.size_chars === 'number';

/** Returns a fault that ends the call; rethrows an error after which a retry may help. */
export function permanentFault(error: unknown): Fault {
  if (!(error instanceof Fault) || error.retry) throw error;
  if (error.code === 'stale_fence' || error.code === 'canceled') throw error;
  return error;
}

/** A call whose preview fails cannot be approved. */
export function unshowableDenial(error: Fault): Denied {
  const checks = formatChecks('approval');
  const rule = 'toold:approval';
  return { allowed: false, rule, question: 'approval', checks, error: toCallError(error) };
}

export function notApprovedDenial(approvalId: string, error: CallError): Denied {
  const checks = formatChecks('approval');
  return { allowed: false, rule: `approval:${approvalId}`, question: 'approval', checks, error };
}

export type Subject = { run: ToolRun; callId: string; tool: string; argumentsHash: string };

export const toSubject = ({ run, callId, toolName, argumentsHash }: Job): Subject => ({
  run,
  callId,
  tool: toolName,
  argumentsHash,
});

/** The paths the call was decided on. Of paths under an `ask` rule, its box opens only these. */
function listTouchedPaths({ tool }: Job, input: unknown): string[] {
  const paths = (tool?.touches?.(input) ?? []).flatMap((touch) =>
    'path' in touch ? [touch.path] : [],
  );
  return tool?.touchesAll === true ? [...paths, ANY_PATH] : paths;
}

export type BoxProvider = (job: Job, touched: readonly string[]) => Promise<Box>;

/** `input` is undefined where no box is needed. */
export const makeToolContext = (job: Job, input: unknown, boxOf: BoxProvider): ToolContext => ({
  runId: job.run.runId,
  fence: job.run.fence,
  callId: job.callId,
  agent: job.run.agent,
  persona: job.run.persona,
  taskId: job.run.taskId,
  rootTaskId: job.run.rootTaskId,
  signal: job.signal,
  box: () => boxOf(job, input === undefined ? [] : listTouchedPaths(job, input)),
});

export const buildWaitingAnswer = (job: Job, wait: WaitView): CallAnswer => ({
  call_id: job.callId,
  status: 'waiting',
  wait: { id: wait.id, kind: wait.kind },
  recorded: false,
});

export function unknownOutcomeError(job: Job, reply: string | undefined): CallError {
  const detail = reply === undefined ? 'no person confirmed it' : `a person answered: ${reply}`;
  return {
    code: 'outcome_unknown',
    message: `the outcome of ${job.toolName} is unknown; ${detail}`,
    hint: 'Find out by other means before you repeat it.',
    retry: false,
  };
}

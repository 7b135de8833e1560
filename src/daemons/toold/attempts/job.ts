// One call as one activation asks it, and what follows from that alone: its row, its subject in the
// log, what a tool is told of it, and the answers that need nobody else.
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

/** One call as one activation asks it. */
export type Job = {
  run: ToolRun;
  callId: CallId;
  toolName: string;
  /** Undefined when there is no such tool. */
  tool: Tool | undefined;
  request: CallRequest;
  argumentsText: string;
  argumentsHash: string;
  key: string;
  signal: AbortSignal;
};

/** Longer arguments are journaled by hash and beginning; a re-run gets them from the run again. */
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

/** Whether these are not the arguments themselves. */
export const isShortened = (known: Record<string, unknown>): boolean =>
  known.shortened === true && typeof known.size_chars === 'number';

/** What will not pass is the answer to the call; the rest is for later. */
export function permanentFault(error: unknown): Fault {
  if (!(error instanceof Fault) || error.retry) throw error;
  if (error.code === 'stale_fence' || error.code === 'canceled') throw error;
  return error;
}

/** Nobody can agree to what cannot be shown. */
export function unshowableDenial(error: Fault): Denied {
  const checks = formatChecks('approval');
  const rule = 'toold:approval';
  return { allowed: false, rule, question: 'approval', checks, error: toCallError(error) };
}

export function notApprovedDenial(approvalId: string, error: CallError): Denied {
  const checks = formatChecks('approval');
  return { allowed: false, rule: `approval:${approvalId}`, question: 'approval', checks, error };
}

/** What an event of a call is about. */
export type Subject = { run: ToolRun; callId: string; tool: string; argumentsHash: string };

export const toSubject = ({ run, callId, toolName, argumentsHash }: Job): Subject => ({
  run,
  callId,
  tool: toolName,
  argumentsHash,
});

/** What the call was decided on; of paths that rules ask about, its box opens only these. */
function listTouchedPaths({ tool }: Job, input: unknown): string[] {
  const paths = (tool?.touches?.(input) ?? []).flatMap((touch) =>
    touch.action === 'net.connect' ? [] : [touch.path],
  );
  return tool?.touchesAll === true ? [...paths, ANY_PATH] : paths;
}

export type BoxProvider = (job: Job, touched: readonly string[]) => Promise<Box>;

/** `input`: as it is decided on; undefined where no box is needed. */
export const makeToolContext = (job: Job, input: unknown, boxOf: BoxProvider): ToolContext => ({
  runId: job.run.runId,
  fence: job.run.fence,
  callId: job.callId,
  agent: job.run.agent,
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

export function unknownOutcomeError(job: Job, said: string | undefined): CallError {
  const words = said === undefined ? 'nobody said whether it did' : `a person said: ${said}`;
  return {
    code: 'outcome_unknown',
    message: `whether ${job.toolName} happened is not known; ${words}`,
    hint: 'Find out by other means before you do it again.',
    retry: false,
  };
}

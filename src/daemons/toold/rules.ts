// toold's pure decisions: the broker's own checks in order, the breaker that stops a run without
// progress.

export type CallError = { code: string; message: string; hint: string; retry: boolean };
/** The broker's seven checks in order; the last one concerns the output. */
export const QUESTIONS = [
  'caller',
  'task',
  'tool',
  'scope',
  'sandbox',
  'approval',
  'output',
] as const;
export type CheckName = (typeof QUESTIONS)[number];

export type Denied = {
  allowed: false;
  rule: string;
  question: CheckName;
  /** The checks made so far, for the log. */
  checks: string;
  error: CallError;
};
export type Decision = { allowed: true; rule: string } | Denied;

/** A run's calls so far, as the breaker needs them. */
export type Progress = {
  calls: number;
  perTool: Map<string, number>;
  /** The last calls, oldest first; the key is the tool and the hash of its arguments. */
  recent: { callId: string; key: string }[];
  keys: Set<string>;
  /** Keys, each with the hash of an outcome. */
  outcomes: Set<string>;
  /** Calls that ended since the last new outcome. */
  sinceNew: number;
};
export type BreakerLimits = { repeatsMax: number; staleCallsMax: number };

export type CheckInput = {
  run: { runId: string; agent: string; taskId: string };
  request: { tool: string; agent: string | undefined; taskId: string | undefined };
  grant: { tools: ReadonlySet<string>; expiresAtMs: number | null; callsMax: number };
  toolIsKnown: boolean;
  /** The scope and reason of a suspension that affects this run. */
  suspension: string | undefined;
  /** Undefined when the arguments match the input schema. */
  argumentsProblem: string | undefined;
  /** Undefined: only the limit on all calls of a run applies. */
  callsOfToolMax: number | undefined;
  nowMs: number;
  key: string;
  progress: Progress;
  limits: BreakerLimits;
};

export type Check = {
  name: string;
  question: CheckName;
  /** True: repeated before each further attempt. */
  again: boolean;
  run(input: CheckInput): CallError | undefined;
};

export const buildCallError = (code: string, message: string, hint: string): CallError => ({
  code,
  message,
  hint,
  retry: false,
});

function listNames(names: ReadonlySet<string>): string {
  const sorted = [...names].sort();
  const more = sorted.length > 20 ? ` and ${sorted.length - 20} more` : '';
  return sorted.length === 0 ? 'none' : sorted.slice(0, 20).join(', ') + more;
}

const checkCaller: Check = {
  name: 'caller',
  question: 'caller',
  again: true,
  run({ run, request }) {
    const claimed = request.agent?.replace(/^agent:/, '');
    if (claimed === undefined || claimed === run.agent) return undefined;
    return buildCallError(
      'wrong_agent',
      `the call claims agent ${claimed}, but the run belongs to ${run.agent}`,
      'Omit the agent: it is known from the socket.',
    );
  },
};

const checkTask: Check = {
  name: 'task',
  question: 'task',
  again: true,
  run({ run, request }) {
    if (request.taskId === undefined || request.taskId === run.taskId) return undefined;
    return buildCallError(
      'wrong_task',
      `the call names ${request.taskId}, but the run works on ${run.taskId}`,
      'Omit task_id, or name the task of this run.',
    );
  },
};

const checkKnown: Check = {
  name: 'known',
  question: 'tool',
  again: true,
  run({ request, toolIsKnown, grant }) {
    if (toolIsKnown) return undefined;
    return buildCallError(
      'unknown_tool',
      `tool ${request.tool} not found`,
      `Use one of this run's tools: ${listNames(grant.tools)}.`,
    );
  },
};

const checkGranted: Check = {
  name: 'granted',
  question: 'tool',
  again: true,
  run({ run, request, grant }) {
    if (grant.tools.has(request.tool)) return undefined;
    return buildCallError(
      'not_granted',
      `${run.agent} may not use ${request.tool} in this task`,
      `Do without it, or ask a person to allow it. Allowed here: ${listNames(grant.tools)}.`,
    );
  },
};

const checkSuspended: Check = {
  name: 'suspended',
  question: 'tool',
  again: true,
  run({ request, suspension }) {
    if (suspension === undefined) return undefined;
    return buildCallError(
      'suspended',
      `${request.tool} is suspended ${suspension}`,
      `Do without it. After reviewing it, an operator can run: agentctl tool resume ${request.tool}`,
    );
  },
};

const checkExpiry: Check = {
  name: 'expiry',
  question: 'tool',
  again: true,
  run({ request, grant, nowMs }) {
    if (grant.expiresAtMs === null || nowMs < grant.expiresAtMs) return undefined;
    // Always allowed: a run that could not end its task would hang forever.
    if (request.tool === 'task.finish') return undefined;
    return buildCallError(
      'grant_expired',
      'the delegation to this run has expired, so it may only end its task',
      'Stop here: the delegating agent can delegate again with more time.',
    );
  },
};

const checkArguments: Check = {
  name: 'arguments',
  question: 'scope',
  again: true,
  run({ request, argumentsProblem }) {
    if (argumentsProblem === undefined) return undefined;
    return buildCallError(
      'bad_arguments',
      `invalid arguments for ${request.tool}: ${argumentsProblem}`,
      'Correct the named fields and call again.',
    );
  },
};

const checkQuota: Check = {
  name: 'quota',
  question: 'tool',
  again: false,
  run({ progress, grant }) {
    if (progress.calls < grant.callsMax) return undefined;
    return buildCallError(
      'limit',
      `this run has used all of its ${grant.callsMax} calls`,
      'End the task with the results so far.',
    );
  },
};

const checkToolQuota: Check = {
  name: 'tool-quota',
  question: 'tool',
  again: false,
  run({ request, progress, callsOfToolMax }) {
    const made = progress.perTool.get(request.tool) ?? 0;
    if (callsOfToolMax === undefined || made < callsOfToolMax) return undefined;
    return buildCallError(
      'limit',
      `this run has used all of its ${callsOfToolMax} calls of ${request.tool}`,
      'Continue with other tools, or end the task with the results so far.',
    );
  },
};

const checkProgress: Check = {
  name: 'breaker',
  question: 'tool',
  again: false,
  run({ request, progress, key, limits }) {
    const { repeatsMax, staleCallsMax } = limits;
    const hint = 'Change the approach, or end the task with the results so far.';
    const last = progress.recent.slice(-(repeatsMax - 1));
    if (last.length === repeatsMax - 1 && last.every((call) => call.key === key)) {
      const message = `${request.tool} was called ${repeatsMax} times in a row with the same arguments`;
      return buildCallError('breaker', message, hint);
    }
    // A call never made before may have a new outcome, so it always passes.
    if (progress.sinceNew >= staleCallsMax && progress.keys.has(key)) {
      const message = `the last ${progress.sinceNew} calls of this run had no new outcome`;
      return buildCallError('breaker', message, hint);
    }
    return undefined;
  },
};

/**
 * The broker's own checks, in order; the first error decides. Policy, sandbox and approval follow,
 * when the call is known to be well formed.
 */
export const OWN_CHECKS: readonly Check[] = [
  checkCaller,
  checkTask,
  checkKnown,
  checkGranted,
  checkSuspended,
  checkExpiry,
  checkQuota,
  checkToolQuota,
  checkProgress,
  checkArguments,
];

/** The checks up to the failed one, as in the log. */
export function formatChecks(question: CheckName): string {
  return [...QUESTIONS.slice(0, QUESTIONS.indexOf(question)), `!${question}`].join(' ');
}

export function decide(input: CheckInput, { again }: { again: boolean }): Decision {
  for (const check of OWN_CHECKS) {
    if (again && !check.again) continue;
    const error = check.run(input);
    if (error === undefined) continue;
    const { question } = check;
    const checks = formatChecks(question);
    return { allowed: false, rule: `toold:${check.name}`, question, checks, error };
  }
  return { allowed: true, rule: `toold:${checkGranted.name}` };
}

export function newProgress(): Progress {
  return {
    calls: 0,
    recent: [],
    sinceNew: 0,
    perTool: new Map(),
    keys: new Set(),
    outcomes: new Set(),
  };
}

export function countCall(progress: Progress, call: { callId: string; key: string }): void {
  progress.calls++;
  const tool = readToolName(call.key);
  progress.perTool.set(tool, (progress.perTool.get(tool) ?? 0) + 1);
  progress.recent.push(call);
  if (progress.recent.length > RECENT_MAX * 2) progress.recent.splice(0, RECENT_MAX);
}
const RECENT_MAX = 1_000;
const readToolName = (key: string): string => key.slice(0, key.indexOf(' '));

/** Undoes countCall for a call that could not be recorded: repeating it is no repetition. */
export function uncountCall(progress: Progress, callId: string): void {
  const at = progress.recent.findLastIndex((call) => call.callId === callId);
  if (at < 0) return;
  const tool = readToolName(progress.recent[at]!.key);
  progress.perTool.set(tool, (progress.perTool.get(tool) ?? 1) - 1);
  progress.recent.splice(at, 1);
  progress.calls--;
}

export function countOutcome(progress: Progress, key: string, outcomeHash: string): void {
  const outcome = `${key} ${outcomeHash}`;
  progress.sinceNew = progress.outcomes.has(outcome) ? progress.sinceNew + 1 : 0;
  progress.keys.add(key);
  progress.outcomes.add(outcome);
}

const IMMEDIATE_ATTEMPTS_MAX = 10;
const BACKOFF_MS_MAX = 60_000;

/** How long after its last attempt a call may be attempted again. */
export function retryDelayMs(attempts: number): number {
  if (attempts < IMMEDIATE_ATTEMPTS_MAX) return 0;
  return Math.min(1_000 * 2 ** (attempts - IMMEDIATE_ATTEMPTS_MAX), BACKOFF_MS_MAX);
}

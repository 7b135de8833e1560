// What toold decides, from values alone: may this call be made (the checks, in order), does the run
// still make progress (the breaker), and what did a person say of a call whose outcome is not
// known.

export type CallError = { code: string; message: string; hint: string; retry: boolean };
/** The broker's seven questions, in the order they are asked; the last is about the output. */
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
  /** What was asked until then, for the log. */
  checks: string;
  error: CallError;
};
export type Decision = { allowed: true; rule: string } | Denied;

/** What a run has asked so far, as far as the breaker needs it. */
export type Progress = {
  calls: number;
  /** How many of them by tool. */
  perTool: Map<string, number>;
  /** The last calls, oldest first; the key is the tool and the hash of its arguments. */
  recent: { callId: string; key: string }[];
  keys: Set<string>;
  /** Keys with the hash of what came of them. */
  outcomes: Set<string>;
  /** Calls that ended since one brought something new. */
  sinceNew: number;
};
export type BreakerLimits = { repeatsMax: number; staleCallsMax: number };

/** Everything a check may look at. */
export type CheckInput = {
  run: { runId: string; agent: string; taskId: string };
  request: { tool: string; agent: string | undefined; taskId: string | undefined };
  grant: { tools: ReadonlySet<string>; expiresAtMs: number | null; callsMax: number };
  toolIsKnown: boolean;
  /** For whom the tool is suspended, this run among them, and why. */
  suspension: string | undefined;
  /** Why the arguments do not fit the tool's input; undefined when they do. */
  argumentsProblem: string | undefined;
  /** How many calls of this tool one run may make; undefined when as many as of all. */
  callsOfToolMax: number | undefined;
  nowMs: number;
  key: string;
  progress: Progress;
  limits: BreakerLimits;
};

export type Check = {
  name: string;
  question: CheckName;
  /** True: asked again before a call that was begun once is done again. */
  again: boolean;
  run(asked: CheckInput): CallError | undefined;
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
    const said = request.agent?.replace(/^agent:/, '');
    if (said === undefined || said === run.agent) return undefined;
    return buildCallError(
      'wrong_agent',
      `this call says it is from ${said}, but the run is of ${run.agent}`,
      'Leave the agent out: it is known from the socket.',
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
      `this call names ${request.taskId}, but the run works on ${run.taskId}`,
      'Leave task_id out, or name the task of this run.',
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
      `there is no tool ${request.tool}`,
      `Use one of the tools of this run: ${listNames(grant.tools)}.`,
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
      `Do without it. A person who has looked can lift this: agentctl tool resume ${request.tool}`,
    );
  },
};

const checkExpiry: Check = {
  name: 'expiry',
  question: 'tool',
  again: true,
  run({ request, grant, nowMs }) {
    if (grant.expiresAtMs === null || nowMs < grant.expiresAtMs) return undefined;
    // Ending is no right that was lent: a run that may not even end would hang for ever.
    if (request.tool === 'task.finish') return undefined;
    return buildCallError(
      'grant_expired',
      'what was delegated to this run has expired, so it may only end its task',
      'Stop here: whoever delegated the task can give it again with more time.',
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
      `the arguments of ${request.tool} do not fit: ${argumentsProblem}`,
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
      `this run has made all ${grant.callsMax} calls it may make`,
      'End the task with what there is.',
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
      `this run has made all ${callsOfToolMax} calls of ${request.tool} it may make`,
      'Go on with other tools, or end the task with what there is.',
    );
  },
};

const checkProgress: Check = {
  name: 'breaker',
  question: 'tool',
  again: false,
  run({ request, progress, key, limits }) {
    const { repeatsMax, staleCallsMax } = limits;
    const hint = 'Change the approach or end the task with what there is.';
    const last = progress.recent.slice(-(repeatsMax - 1));
    if (last.length === repeatsMax - 1 && last.every((call) => call.key === key)) {
      const message = `${request.tool} was asked ${repeatsMax} times in a row with equal arguments`;
      return buildCallError('breaker', message, hint);
    }
    // A call never made before may bring something new, so it is always let through.
    if (progress.sinceNew >= staleCallsMax && progress.keys.has(key)) {
      const message = `the last ${progress.sinceNew} calls of this run brought nothing new`;
      return buildCallError('breaker', message, hint);
    }
    return undefined;
  },
};

/**
 * The broker's own checks, in order; the first that objects decides. Policy, the sandbox and a
 * person are asked after them, when the call is known to be well formed. What becomes of the output
 * is decided when there is one.
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

/** The questions up to the one that was answered no, as the log has them. */
export function formatChecks(question: CheckName): string {
  return [...QUESTIONS.slice(0, QUESTIONS.indexOf(question)), `!${question}`].join(' ');
}

export function decide(asked: CheckInput, { again }: { again: boolean }): Decision {
  for (const check of OWN_CHECKS) {
    if (again && !check.again) continue;
    const error = check.run(asked);
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

/** A call that could not be written down was not asked: trying it again is no repetition. */
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

/** Before a call that was begun so often may be begun once more. */
export function retryDelayMs(attempts: number): number {
  if (attempts < IMMEDIATE_ATTEMPTS_MAX) return 0;
  return Math.min(1_000 * 2 ** (attempts - IMMEDIATE_ATTEMPTS_MAX), BACKOFF_MS_MAX);
}

export const HAPPENED = 'it happened';
export const DID_NOT_HAPPEN = 'it did not happen';

/** Only a clear no lets an effect be done again. */
export function readConfirmation(answer: string | undefined): 'happened' | 'not' | 'unclear' {
  const said = answer?.trim().toLowerCase().replace(/[.!]$/, '');
  if (said === HAPPENED || said === 'yes') return 'happened';
  if (said === DID_NOT_HAPPEN || said === 'no') return 'not';
  return 'unclear';
}

// May this call be made, now? The broker's own checks, then policy about the tool and everything
// it would touch, then whether the sandbox it needs can be had. Asked again before every attempt:
// a right that was taken back since is gone.
import { checkValue } from '../../../platform/check.ts';
import type { Clock } from '../../../platform/clock.ts';
import type { CallFacts, PolicyDecision } from '../../../policy/request.ts';
import type { ApprovalId, Label } from '../../../wire/primitives.ts';
import type { Job } from '../attempts/job.ts';
import {
  type BreakerLimits,
  buildCallError,
  type CallError,
  type CheckName,
  type Denied,
  decide,
  formatChecks,
  newProgress,
  type Progress,
} from '../rules.ts';
import type { ToolRun } from '../runs.ts';
import type { Tool } from '../tools/tool.ts';
import type { Containment } from './containment.ts';
import type { Marks } from './marks.ts';

/** What policy says of one call: the strictest of all its answers, and what it was asked about. */
export type CallDecision = PolicyDecision & { facts: CallFacts };

export type Authority = {
  check(asked: {
    run: ToolRun;
    tool: Tool;
    input: unknown;
    labels: readonly Label[];
  }): Promise<CallDecision>;
};

export type Allowed = {
  allowed: true;
  verdict: CallDecision;
  /** The approval that allowed it. */
  approval?: ApprovalId;
};
export type Permission =
  | { kind: 'go'; decision: Allowed; input: unknown; labels: readonly Label[] }
  | { kind: 'ask'; decision: Allowed; input: unknown; labels: readonly Label[] }
  | { kind: 'no'; decision: Denied & { verdict?: CallDecision } };

export type Permissions = {
  decide(job: Job, progress: Progress, options: { again: boolean }): Promise<Permission>;
  /** The same of a call that had to wait: whether it may still be made as it was decided on. */
  recheck(job: Job, input: unknown): Promise<Permission>;
  /** The same for arguments that a person changed before approving. */
  decideEdited(job: Job, edited: Record<string, unknown>): Promise<Permission>;
};

const SUPPORTED_LEVELS: ReadonlySet<string> = new Set(['L0', 'L1', 'L2']);

export function makePermissions(options: {
  authority: Authority;
  marks: Marks;
  limits: BreakerLimits;
  containment: Pick<Containment, 'findSuspensions'>;
  clock: Clock;
}): Permissions {
  const { authority, marks, clock, containment } = options;

  /** For whom, and why. */
  const describeSuspension = ({ toolName, run: { rootTaskId } }: Job): string | undefined => {
    const { suspended, suspended_in = [] } = containment.findSuspensions(toolName, rootTaskId);
    if (suspended !== undefined) return `for everybody: ${suspended.reason}`;
    const [here] = suspended_in;
    return here && `in this task and its subtasks (the tree of ${rootTaskId}): ${here.reason}`;
  };

  const decideByPolicy = async (job: Job, tool: Tool, input: unknown): Promise<Permission> => {
    const labels = await marks.marksFor(job.run, tool);
    const verdict = addToolApproval(
      tool,
      await authority.check({ run: job.run, tool, input, labels }),
    );
    const no = (question: CheckName, error: CallError): Permission => {
      const checks = formatChecks(question);
      const rule = verdict.rules.join(' ');
      return { kind: 'no', decision: { allowed: false, rule, question, checks, error, verdict } };
    };
    if (verdict.answer === 'deny') return no('scope', policyDenialError(job, verdict));
    if (!SUPPORTED_LEVELS.has(tool.level)) return no('sandbox', missingLevelError(tool));
    const kind = verdict.answer === 'ask' ? 'ask' : 'go';
    return { kind, decision: { allowed: true, verdict }, input, labels };
  };

  return {
    async decide(job, progress, { again }) {
      const { tool, run, request } = job;
      const parsed = tool === undefined ? undefined : checkValue(tool.input, request.arguments);
      const decision = decide(
        {
          run,
          request: { tool: job.toolName, agent: request.agent, taskId: request.task_id },
          grant: toGrant(run),
          toolIsKnown: tool !== undefined,
          suspension: describeSuspension(job),
          argumentsProblem: parsed?.success === false ? formatIssues(parsed.issues) : undefined,
          callsOfToolMax: tool?.callsPerRunMax,
          nowMs: clock.nowMs(),
          key: job.key,
          progress,
          limits: options.limits,
        },
        { again },
      );
      if (!decision.allowed) return { kind: 'no', decision };
      if (parsed?.success !== true || tool === undefined) throw new Error('decided without input');
      return decideByPolicy(job, tool, parsed.data);
    },

    async recheck(job, input) {
      const { run } = job;
      const decision = decide(
        {
          run,
          grant: toGrant(run),
          toolIsKnown: true,
          argumentsProblem: undefined,
          suspension: describeSuspension(job),
          request: { tool: job.toolName, agent: job.request.agent, taskId: job.request.task_id },
          callsOfToolMax: undefined,
          nowMs: clock.nowMs(),
          key: job.key,
          progress: newProgress(),
          limits: options.limits,
        },
        { again: true },
      );
      return decision.allowed ? decideByPolicy(job, job.tool!, input) : { kind: 'no', decision };
    },

    async decideEdited(job, edited) {
      const tool = job.tool!;
      const parsed = checkValue(tool.input, edited);
      if (parsed.success) return decideByPolicy(job, tool, parsed.data);
      const error = buildCallError(
        'bad_arguments',
        `a person approved other arguments, which do not fit: ${formatIssues(parsed.issues)}`,
        'Ask again with your own arguments.',
      );
      const rule = 'toold:arguments';
      const checks = formatChecks('scope');
      return { kind: 'no', decision: { allowed: false, rule, question: 'scope', checks, error } };
    },
  };
}

const toGrant = ({ tools, grantExpiresMs, callsMax }: ToolRun) => ({
  tools,
  expiresAtMs: grantExpiresMs,
  callsMax,
});

/** A tool can want a person by itself; it cannot want less than policy. */
function addToolApproval({ name, approval }: Tool, verdict: CallDecision): CallDecision {
  if (approval !== 'required' || verdict.answer === 'deny') return verdict;
  const own = `whoever declared ${name} wants a person to agree to each call`;
  const [rules, reason] =
    verdict.answer === 'ask' ? [verdict.rules, `${verdict.reason}; ${own}`] : [[], own];
  return { ...verdict, answer: 'ask', rules: [`tool:${name}:approval`, ...rules], reason };
}

function policyDenialError(job: Job, verdict: CallDecision): CallError {
  const why = verdict.reason === '' ? 'no rule allows it' : verdict.reason;
  return buildCallError(
    'denied',
    `policy does not let ${job.run.agent} do this with ${job.toolName}: ${why}`,
    'Do without it, do it with what you may use, or tell a person what you need and why.',
  );
}

function missingLevelError(tool: Tool): CallError {
  return buildCallError(
    'no_such_level',
    `${tool.name} must run in a sandbox of level ${tool.level}, which this host does not give`,
    'Do without it. A person can see in agentctl doctor what this host gives.',
  );
}

export function formatIssues(issues: readonly { path: PropertyKey[]; message: string }[]): string {
  const lines = issues.slice(0, 5).map(({ path, message }) => {
    const where = path.map(String).join('.');
    return where === '' ? message : `${where}: ${message}`;
  });
  return lines.join('; ');
}

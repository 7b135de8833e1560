// Decides whether a call may be made now: the broker's own checks, then policy on the tool and all
// it would touch, then the sandbox level. Repeated before every attempt, so that a revoked right
// takes effect.
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

/** The strictest of policy's decisions on one call, with the facts it was decided on. */
export type CallDecision = PolicyDecision & { facts: CallFacts };

export type Authority = {
  check(query: {
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
  /** Decides again for a call that waited for a lock. */
  recheck(job: Job, input: unknown): Promise<Permission>;
  /** Decides for arguments that a person edited before approving. */
  decideEdited(job: Job, edited: Record<string, unknown>): Promise<Permission>;
};

export const SUPPORTED_LEVELS: ReadonlySet<string> = new Set(['L0', 'L1', 'L2']);

export function makePermissions(options: {
  authority: Authority;
  marks: Marks;
  limits: BreakerLimits;
  containment: Pick<Containment, 'findSuspensions'>;
  clock: Clock;
}): Permissions {
  const { authority, marks, clock, containment } = options;

  const describeSuspension = ({ toolName, run: { rootTaskId } }: Job): string | undefined => {
    const { suspended, suspended_in = [] } = containment.findSuspensions(toolName, rootTaskId);
    if (suspended !== undefined) return `for all agents: ${suspended.reason}`;
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
        `a person approved edited arguments, which are invalid: ${formatIssues(parsed.issues)}`,
        'Call again with your own arguments.',
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

/** A tool can require approval by itself, but cannot lower what policy requires. */
function addToolApproval({ name, approval }: Tool, verdict: CallDecision): CallDecision {
  if (approval !== 'required' || verdict.answer === 'deny') return verdict;
  const own = `the declaration of ${name} requires approval for each call`;
  const [rules, reason] =
    verdict.answer === 'ask' ? [verdict.rules, `${verdict.reason}; ${own}`] : [[], own];
  return { ...verdict, answer: 'ask', rules: [`tool:${name}:approval`, ...rules], reason };
}

function policyDenialError(job: Job, verdict: CallDecision): CallError {
  const why = verdict.reason === '' ? 'no rule allows it' : verdict.reason;
  return buildCallError(
    'denied',
    `policy does not let ${job.run.agent} do this with ${job.toolName}: ${why}`,
    'Do without it, use what is allowed, or tell a person what you need and why.',
  );
}

function missingLevelError(tool: Tool): CallError {
  return buildCallError(
    'no_such_level',
    `${tool.name} must run in a sandbox of level ${tool.level}, which this host does not support`,
    'Do without it. An operator can see the supported levels with agentctl doctor.',
  );
}

export function formatIssues(issues: readonly { path: PropertyKey[]; message: string }[]): string {
  const lines = issues.slice(0, 5).map(({ path, message }) => {
    const where = path.map(String).join('.');
    return where === '' ? message : `${where}: ${message}`;
  });
  return lines.join('; ');
}

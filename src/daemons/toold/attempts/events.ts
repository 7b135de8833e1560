// Builds the audit events of a call. Their ids derive from call, event and attempt. They carry
// hashes and sizes, never arguments or results.

import { recordDecision } from '../../../policy/recorded.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { Allowed, CallDecision } from '../permission/permission.ts';
import type { CheckedOutput } from '../results/finish-result.ts';
import type { Denied } from '../rules.ts';
import type { Subject } from './job.ts';

const buildSubjectFields = ({ run, callId, tool }: Subject) => ({
  principal: `agent:${run.agent}`,
  agent: run.agent,
  task_id: run.taskId,
  root_task_id: run.rootTaskId,
  run_id: run.runId,
  call_id: callId,
  tool,
});

/** One event for the request, the rule that allowed it, and the start of the attempt. */
export function attempted(subject: Subject, attempt: number, decision: Allowed): EventDraft {
  const { approval } = decision;
  const { policy, data } = recordDecision(decision.verdict.facts, decision.verdict);
  return {
    id: `${subject.callId}.attempted.${attempt}`,
    event: 'tool.call.attempted',
    ...buildSubjectFields(subject),
    allowed: true,
    policy,
    data: {
      attempt,
      fence: subject.run.fence,
      arguments_hash: subject.argumentsHash,
      checks: formatChecksPassed(decision, approval === undefined ? 'none' : 'given'),
      ...data,
      ...(approval === undefined ? {} : { approval }),
    },
  };
}

export function requested(subject: Subject, decision: Allowed): EventDraft {
  const { policy, data } = recordDecision(decision.verdict.facts, decision.verdict);
  return {
    id: `${subject.callId}.waiting.0`,
    event: 'tool.call.waiting',
    ...buildSubjectFields(subject),
    policy,
    status: 'requested',
    data: {
      fence: subject.run.fence,
      arguments_hash: subject.argumentsHash,
      checks: formatChecksPassed(decision, 'asked'),
      ...data,
    },
  };
}

const formatChecksPassed = ({ verdict }: Allowed, approval: 'none' | 'asked' | 'given'): string =>
  `caller task tool scope sandbox:${verdict.facts.tool.level} approval:${approval}`;

export function denied(
  subject: Subject,
  decision: Denied & { verdict?: CallDecision },
): EventDraft {
  const { verdict, rule } = decision;
  const own = { policy: rule, data: {} };
  const { policy, data } = verdict === undefined ? own : recordDecision(verdict.facts, verdict);
  return {
    id: `${subject.callId}.denied`,
    event: 'tool.call.denied',
    ...buildSubjectFields(subject),
    allowed: false,
    policy,
    status: 'denied',
    data: {
      code: decision.error.code,
      fence: subject.run.fence,
      arguments_hash: subject.argumentsHash,
      checks: decision.checks,
      ...data,
    },
  };
}

export function waiting(
  subject: Subject,
  attempt: number,
  wait: { id: string; kind: string; status: 'waiting' | 'unknown' },
): EventDraft {
  return {
    id: `${subject.callId}.waiting.${attempt}`,
    event: 'tool.call.waiting',
    ...buildSubjectFields(subject),
    status: wait.status,
    data: { attempt, wait_id: wait.id, wait_kind: wait.kind },
  };
}

/** The call may have happened after the backup, so a person is asked. */
export function unsure(subject: Subject, backup: string): EventDraft {
  return {
    id: `${subject.callId}.unsure.${backup}`,
    event: 'tool.call.waiting',
    ...buildSubjectFields(subject),
    status: 'unknown',
    data: { backup, fence: subject.run.fence, arguments_hash: subject.argumentsHash },
  };
}

export function restoreLifted({ run, callId }: Subject, backup: string, by: string): EventDraft {
  return {
    id: `${run.rootTaskId}.restore-lifted.${backup}`,
    event: 'restore.lifted',
    principal: by,
    task_id: run.rootTaskId,
    root_task_id: run.rootTaskId,
    call_id: callId,
    data: { backup },
  };
}

export function ended(
  subject: Subject,
  attempt: number,
  outcome: {
    status: string;
    hash: string;
    sizeBytes: number;
    code: string | undefined;
    artifact: string | undefined;
    output: CheckedOutput;
  },
): EventDraft {
  const { status, hash, sizeBytes, code, artifact, output } = outcome;
  return {
    id: `${subject.callId}.ended`,
    event: 'tool.call.ended',
    ...buildSubjectFields(subject),
    status,
    ...(artifact === undefined ? {} : { artifact }),
    data: {
      attempt,
      outcome_hash: hash,
      size_bytes: sizeBytes,
      checks: output.became === 'refused' ? '!output' : `output:${output.became}`,
      ...(output.redacted.length === 0 ? {} : { redacted: output.redacted.join(', ') }),
      ...(code === undefined ? {} : { code: code.slice(0, 64) }),
    },
  };
}

// The audit events of a call. Their ids follow from the journal: the call, what happened, which
// attempt. They carry hashes and sizes, never arguments or results.
import type { EventDraft } from '../../wire/events.ts';
import type { Decision } from './rules.ts';
import type { Run } from './runs.ts';

export type Subject = { run: Run; callId: string; tool: string; argumentsHash: string };

const about = ({ run, callId, tool }: Subject) => ({
  principal: `agent:${run.agent}`,
  agent: run.agent,
  task_id: run.taskId,
  root_task_id: run.rootTaskId,
  run_id: run.runId,
  call_id: callId,
  tool,
});

/**
 * Says at once that the call was asked for, that it was allowed by which rule, and that it begins.
 */
export function attempted(subject: Subject, attempt: number, decision: Decision): EventDraft {
  return {
    id: `${subject.callId}.attempted.${attempt}`,
    event: 'tool.call.attempted',
    ...about(subject),
    allowed: true,
    policy: decision.rule,
    data: { attempt, fence: subject.run.fence, arguments_hash: subject.argumentsHash },
  };
}

export function denied(subject: Subject, decision: Decision & { allowed: false }): EventDraft {
  return {
    id: `${subject.callId}.denied`,
    event: 'tool.call.denied',
    ...about(subject),
    allowed: false,
    policy: decision.rule,
    status: 'denied',
    data: {
      code: decision.error.code,
      fence: subject.run.fence,
      arguments_hash: subject.argumentsHash,
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
    ...about(subject),
    status: wait.status,
    data: { attempt, wait_id: wait.id, wait_kind: wait.kind },
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
  },
): EventDraft {
  const { status, hash, sizeBytes, code, artifact } = outcome;
  return {
    id: `${subject.callId}.ended`,
    event: 'tool.call.ended',
    ...about(subject),
    status,
    ...(artifact === undefined ? {} : { artifact }),
    data: {
      attempt,
      outcome_hash: hash,
      size_bytes: sizeBytes,
      ...(code === undefined ? {} : { code: code.slice(0, 64) }),
    },
  };
}

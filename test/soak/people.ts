// The people of a soak: they decide every approval and answer every question, truthfully where the
// runtime asks whether an effect has happened.
import { setTimeout as sleep } from 'node:timers/promises';
import type { WaitView } from '../../src/wire/agentd.ts';
import type { ToolCallView } from '../../src/wire/toold.ts';
import type { Clients } from '../support/runtime.ts';
import { isApproved } from './task-kinds.ts';
import { ignoreConflict, isOutage } from './workload.ts';

const POLL_MS = 150;
const PAGE = 100;

export type SoakPeople = {
  counts: { approved: number; rejected: number; answered: number; unknown: number };
  stop(): void;
  /** Rejects at the first fault that is not an outage. */
  finished: Promise<void>;
};

export function startPeople(clients: Clients, effects: () => Map<string, number>): SoakPeople {
  const { agentd, approvald, toold } = clients;
  const counts = { approved: 0, rejected: 0, answered: 0, unknown: 0 };
  let isStopped = false;

  const decideApprovals = async (): Promise<void> => {
    const query = { status: 'pending', limit: PAGE } as const;
    const { approvals } = await approvald.listApprovals({ query });
    for (const { id } of approvals) {
      const params = { id };
      const { nonce, arguments: args } = (await approvald.getApproval({ params })).approval;
      const key = String(args?.key).replace(/-\d+$/, '');
      const decision = isApproved(key)
        ? approvald.approve({ params, body: { for: 'once', nonce } })
        : approvald.reject({ params, body: { reason: 'the soak rejects it', nonce } });
      if ((await decision.catch(ignoreConflict)) !== undefined)
        counts[isApproved(key) ? 'approved' : 'rejected']++;
    }
  };
  /** A retry has the key of the task that it repeats, whose effect has already happened. */
  const hasHappened = async ({ task_id }: WaitView, { arguments: args }: ToolCallView) => {
    const { task } = await agentd.getTask({ params: { id: task_id } });
    return (effects().get(String(args.key)) ?? 0) > (task.retry_of === null ? 0 : 1);
  };
  const answerQuestion = async (wait: WaitView): Promise<void> => {
    const { call } = await toold.getCall({ params: { id: wait.call_id! } });
    const isUnknown = call.tool !== 'person.ask';
    const answer = isUnknown ? wait.choices[(await hasHappened(wait, call)) ? 0 : 1]! : 'Yes.';
    await agentd.answerWait({ params: { id: wait.id }, body: { answer } }).catch(ignoreConflict);
    counts[isUnknown ? 'unknown' : 'answered']++;
  };
  const answerQuestions = async (): Promise<void> => {
    const query = { status: 'open', kind: 'question', limit: PAGE } as const;
    for (const wait of (await agentd.listWaits({ query })).waits) await answerQuestion(wait);
  };
  const work = async (): Promise<void> => {
    while (!isStopped) {
      try {
        await decideApprovals();
        await answerQuestions();
      } catch (error) {
        if (!isOutage(error)) throw error;
      }
      await sleep(POLL_MS);
    }
  };
  return {
    counts,
    stop: () => {
      isStopped = true;
    },
    finished: work(),
  };
}

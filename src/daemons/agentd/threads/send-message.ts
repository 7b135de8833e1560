// Sends the message of a run, if its thread has a turn left for it. If not, the run is told, and a
// person is asked when it tries again.
import type { Clock } from '../../../platform/clock.ts';
import type { HandlerContext } from '../../../platform/dispatch.ts';
import type { agentdRoutes } from '../../../wire/agentd.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { Label } from '../../../wire/primitives.ts';
import type { AgentdConfig } from '../config.ts';
import { assertMessageAllowed, computeMessageLabels, formatText } from '../message-rules.ts';
import {
  type MessageRow,
  type TaskRow,
  toMessageView,
  toWaitView,
  type WaitRow,
} from '../store/rows.ts';
import type { AgentdStore, RunCall } from '../store/store.ts';
import type { TurnRefusal } from '../store/threads.ts';
import { leaveOutQuotes } from './leave-out-quotes.ts';
import type { ThreadCost } from './thread-cost.ts';
import type { ThreadLimits } from './turn-rules.ts';
import { hintForLimit } from './turn-text.ts';

type ToolMessage = HandlerContext<(typeof agentdRoutes)['toolMessage']>['body'];
type SendResult = { message: MessageRow; wait: WaitRow | null } | TurnRefusal;

export type SendMessageDeps = {
  store: AgentdStore;
  config: AgentdConfig;
  clock: Clock;
  threadCost: ThreadCost;
};

const REPLY_EXPIRES_S = 3_600;

export const readThreadLimits = ({ threads }: AgentdConfig): ThreadLimits => ({
  turnsMax: threads.turns_max,
  repeatsMax: threads.repeats_max,
  costMicrousdMax: threads.cost_microusd_max,
});

export function limitFault({ refused: { reason, text } }: TurnRefusal, isMessage: boolean): Fault {
  return fault('limit', text, { hint: hintForLimit(reason, isMessage), details: { reason } });
}

function viewSent(sent: SendResult) {
  if ('message' in sent)
    return {
      message: toMessageView(sent.message),
      wait: sent.wait === null ? null : toWaitView(sent.wait),
    };
  if (sent.wait === null) throw limitFault(sent, true);
  return { message: null, wait: toWaitView(sent.wait) };
}

export function makeSendMessage(deps: SendMessageDeps) {
  const { store, config, clock } = deps;
  const limits = readThreadLimits(config);

  const isInThread = async (task: TaskRow, to: string): Promise<boolean> => {
    if (!to.startsWith('agent:')) return false;
    const filter = { context_id: task.context_id, assigned_to: to.slice('agent:'.length) };
    return (await store.tasks(filter, { limit: 1 })).rows.length > 0;
  };

  const countCost = async (to: string, contextId: string) =>
    limits.costMicrousdMax === 0 || !to.startsWith('agent:')
      ? {}
      : { costMicrousd: await deps.threadCost(contextId) };

  return async (body: ToolMessage, call: RunCall) => {
    const recorded = await store.findRecordedCall<SendResult>(call);
    if (recorded !== undefined) return viewSent(recorded);
    const run = await store.runRow(body.run_id);
    const task = await store.taskRow(run.task_id);
    const { spec } = await store.agent(run.agent);
    const from = `agent:${run.agent}`;
    const { to, type, in_reply_to: inReplyTo = null } = body.message;
    assertMessageAllowed({
      type,
      from,
      to,
      inThread: await isInThread(task, to),
      talkTo: spec.team.talkTo,
    });
    if (to.startsWith('agent:')) await store.agent(to.slice('agent:'.length));
    const pair = { contextId: task.context_id, from, to };
    const parts = await leaveOutQuotes(store, pair, body.message.parts);
    const nowMs = clock.nowMs();
    const sent = await store.sendFromRun(
      call,
      {
        type,
        contextId: task.context_id,
        taskId: task.id,
        from,
        to,
        inReplyTo,
        labels: computeMessageLabels(from, JSON.parse(task.labels) as Label[]),
        parts,
        text: formatText(parts),
        delivered: false,
      },
      body.wait_reply
        ? { expiresMs: nowMs + (body.expires_in_s ?? REPLY_EXPIRES_S) * 1000 }
        : undefined,
      {
        limits,
        ...(await countCost(to, task.context_id)),
        questionExpiresMs: nowMs + config.question_expires_s * 1000,
      },
    );
    return viewSent(sent);
  };
}

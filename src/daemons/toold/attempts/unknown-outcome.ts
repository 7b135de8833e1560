// A call whose outcome nobody knows: a person is asked, and only a clear "it did not happen" lets
// it be done again.
import { toTimestamp } from '../../../platform/clock.ts';
import type { WaitView } from '../../../wire/agentd.ts';
import type { CallAnswer } from '../../../wire/toold.ts';
import { completedWith, failedWith } from '../results/finish-result.ts';
import { neutralise, previewOf, showResult } from '../results/output.ts';
import { DID_NOT_HAPPEN, HAPPENED, readConfirmation } from '../rules.ts';
import type { ToolCallRow, TooldStore } from '../store/store.ts';
import {
  type AgentdClient,
  answerText,
  forRun,
  peerOptions,
  type ToolContext,
} from '../tools/tool.ts';
import * as events from './events.ts';
import { about, type Job, unknownOutcomeError, waitingFor } from './job.ts';
import type { CallRecorder } from './record-outcome.ts';

type Follow = (job: Job, record: ToolCallRow) => Promise<CallAnswer>;

export function makeAfterUnknown(options: {
  store: TooldStore;
  agentd: Pick<AgentdClient, 'toolAsk'>;
  getWait: (id: WaitView['id']) => Promise<WaitView>;
  end: CallRecorder['end'];
  /** When it did not happen. */
  again: Follow;
  contextOf: (job: Job) => ToolContext;
}): Follow {
  const { store, agentd, getWait, end, again, contextOf } = options;

  const ask = async (job: Job, record: ToolCallRow): Promise<WaitView> => {
    const body = {
      ...forRun(contextOf(job)),
      question:
        `Did this happen? The tool ${job.toolName} of agent ${job.run.agent} with arguments ` +
        `${neutralise(previewOf(job.argumentsText))} was started at ` +
        `${toTimestamp(record.started_ms)} and its outcome is not known.`,
      choices: [HAPPENED, DID_NOT_HAPPEN],
      wait_key: `unknown.${record.attempts}`,
    };
    const { wait } = await agentd.toolAsk({ body }, peerOptions);
    const draft = events.waiting(about(job), record.attempts, { ...wait, status: 'unknown' });
    await store.recordAsked(job.callId, wait, draft);
    return wait;
  };

  return async (job, record) => {
    const wait = record.wait_id === null ? await ask(job, record) : await getWait(record.wait_id);
    if (wait.status === 'open') return waitingFor(job, wait);
    const said = wait.outcome === 'answered' ? answerText(wait) : undefined;
    switch (readConfirmation(said)) {
      case 'happened': {
        const confirmed = { happened: true, confirmed_by: wait.answered_by ?? 'person:operator' };
        return end(job, record.attempts, completedWith(showResult(confirmed)));
      }
      case 'not':
        await job.tool?.forget?.(contextOf(job));
        return again(job, record);
      case 'unclear':
        return end(job, record.attempts, failedWith(unknownOutcomeError(job, said)));
    }
  };
}

// agentctl task transcript: a task and its subtasks as a conversation.
import type { Session } from '../command.ts';
import { gatherRecords } from '../timeline/gather.ts';
import { renderRehearsalNotice } from '../timeline/outcome.ts';
import { buildTranscript } from '../transcript/build-transcript.ts';
import { renderTranscript } from '../transcript/render-transcript.ts';

export async function transcript({ args, out, runtime }: Session): Promise<void> {
  const record = await gatherRecords(runtime(), args.positionals[0]!);
  const entries = await buildTranscript(record, ({ call_id }) =>
    runtime().call('modeld', 'getCall', { params: { id: call_id } }),
  );
  const { task } = record;
  out.print({ transcript: { task_id: task.id, status: task.status, entries } }, () => [
    ...renderTranscript(entries, { ...out, full: args.flag('full') }),
    ...(task.ended_at === null ? ['', `${task.status}: agentctl task watch ${task.id}`] : []),
    ...renderRehearsalNotice(task, out.paint),
  ]);
}

// agentctl task explain and replay: the timeline of a task from the records, and running it again
// with the recorded responses.
import { FAULTS } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { pluralize } from '../show/amounts.ts';
import { toOneLine } from '../show/plain.ts';
import { buildTimeline, sumTotals } from '../timeline/build-timeline.ts';
import { gatherRecords, type TaskRecord } from '../timeline/gather.ts';
import { formatTotals, renderSteps } from '../timeline/render-steps.ts';

export async function explain({ args, out, runtime }: Session): Promise<void> {
  const chapter = await gatherRecords(runtime(), args.positionals[0]!);
  const steps = buildTimeline(chapter);
  const totals = sumTotals(steps);
  const { task } = chapter;
  const archived = countArchived(chapter);
  if (archived > 0)
    out.info(`${pluralize(archived, 'event')} archived and not shown: agentctl audit task ID.`);
  out.print({ explanation: { task_id: task.id, status: task.status, steps, totals } }, () => [
    ...renderSteps(steps, out),
    '',
    out.paint('dim', formatTotals(totals)),
  ]);
}

const countArchived = ({ archivedEvents = 0, children }: TaskRecord): number =>
  children.reduce((sum, child) => sum + countArchived(child), archivedEvents);

export async function replay({ args, out, runtime }: Session): Promise<number> {
  const request = { params: { id: args.positionals[0]! } };
  const answer = await runtime().call('agentd', 'replayTask', request, { deadlineMs: 120_000 });
  const { same, calls, differences, result_same, run_id } = answer.replay;
  out.print(answer, () => {
    if (same) {
      return [
        `${out.paint('green', 'same')}  ${run_id}: ${pluralize(calls, 'call')} and the result`,
      ];
    }
    const found = `${pluralize(differences.length, 'difference')} in ${pluralize(calls, 'call')}`;
    return [
      `${out.paint('red', 'differs')}  ${run_id}: ${found}`,
      ...differences.flatMap(({ at, expected, got }) => [
        `  at ${toOneLine(at)}`,
        `    recorded  ${toOneLine(expected)}`,
        `    now       ${toOneLine(got)}`,
      ]),
      result_same ? 'The result is the same.' : 'The result differs.',
    ];
  });
  return same ? 0 : FAULTS.replay_differs.exit;
}

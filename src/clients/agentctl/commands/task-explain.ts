// agentctl task explain and replay: the timeline of a task from the records, and running it again
// with the recorded responses.

import { FAULTS } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { some } from '../show/amounts.ts';
import { oneLine } from '../show/plain.ts';
import { buildTimeline, totalsOf } from '../timeline/build-timeline.ts';
import { gatherStory } from '../timeline/gather.ts';
import { renderSteps, totalsText } from '../timeline/render-steps.ts';

export async function explain({ args, out, runtime }: Session): Promise<void> {
  const chapter = await gatherStory(runtime(), args.words[0]!);
  const steps = buildTimeline(chapter);
  const totals = totalsOf(steps);
  const { task } = chapter;
  out.print({ explanation: { task_id: task.id, status: task.status, steps, totals } }, () => [
    ...renderSteps(steps, out),
    '',
    out.paint('dim', totalsText(totals)),
  ]);
}

export async function replay({ args, out, runtime }: Session): Promise<number> {
  const request = { params: { id: args.words[0]! } };
  const answer = await runtime().ask('agentd', 'replayTask', request, { deadlineMs: 120_000 });
  const { same, calls, differences, result_same, run_id } = answer.replay;
  out.print(answer, () => {
    if (same) {
      return [`${out.paint('green', 'same')}  ${run_id}: ${some(calls, 'call')} and the result`];
    }
    const found = `${some(differences.length, 'difference')} in ${some(calls, 'call')}`;
    return [
      `${out.paint('red', 'differs')}  ${run_id}: ${found}`,
      ...differences.flatMap(({ at, expected, got }) => [
        `  at ${oneLine(at)}`,
        `    recorded  ${oneLine(expected)}`,
        `    now       ${oneLine(got)}`,
      ]),
      result_same ? 'The result is the same.' : 'The result is another.',
    ];
  });
  return same ? 0 : FAULTS.replay_differs.exit;
}

// agentctl task explain: the story of a task, from everything the daemons recorded.
import type { Session } from '../command.ts';
import { gatherStory } from '../story/gather.ts';
import { renderSteps, totalsText } from '../story/render-steps.ts';
import { tellStory, totalsOf } from '../story/tell.ts';

export async function explain({ args, out, runtime }: Session): Promise<void> {
  const chapter = await gatherStory(runtime(), args.words[0]!);
  const steps = tellStory(chapter);
  const totals = totalsOf(steps);
  const { task } = chapter;
  out.give({ explanation: { task_id: task.id, status: task.status, steps, totals } }, () => [
    ...renderSteps(steps, out),
    '',
    out.paint('dim', totalsText(totals)),
  ]);
}

// Finds the task of a person's program, by its id, the beginning of one, or the name that the
// program was given: of several with that name the newest, and a running one before them.
import type { TaskView } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import { findShortId } from '../check-ids.ts';
import type { RuntimeClient } from '../runtime.ts';
import { completeId } from '../short-ids.ts';

export type BoxTask = TaskView & { program: NonNullable<TaskView['program']> };

const PAGE = 1_000;
const ID = /^task_[0-9a-z]{26}$/;

export async function findBoxTask(runtime: RuntimeClient, text: string): Promise<BoxTask> {
  const named = text.startsWith('task_') ? undefined : await findNamed(runtime, text);
  if (named !== undefined) return named;
  if (!ID.test(text) && findShortId(text, 'task') === undefined) throw unknownFault(text);
  const id = await completeId(text, 'task', () => runtime);
  const { task } = await runtime.call('agentd', 'getTask', { params: { id } });
  if (!isBoxTask(task))
    throw fault('bad_usage', `${id} is no program in a box`, {
      hint: `See what it is: agentctl task show ${id}`,
    });
  return task;
}

export async function listBoxTasks(
  runtime: RuntimeClient,
  query: { status?: TaskView['status']; limit: number; cursor?: string },
): Promise<{ boxes: BoxTask[]; cursor: string | null }> {
  const asked = { query: { ...query, program: 'true' as const } };
  const { tasks, cursor } = await runtime.call('agentd', 'listTasks', asked);
  return { boxes: tasks.filter(isBoxTask), cursor };
}

const isBoxTask = (task: TaskView): task is BoxTask => task.program !== undefined;

async function findNamed(runtime: RuntimeClient, name: string): Promise<BoxTask | undefined> {
  for (const query of [{ status: 'working' as const }, {}]) {
    let cursor: string | undefined;
    do {
      const more = cursor === undefined ? {} : { cursor };
      const page = await listBoxTasks(runtime, { ...query, ...more, limit: PAGE });
      const found = page.boxes.find(({ program }) => program.name === name);
      if (found !== undefined) return found;
      cursor = page.cursor ?? undefined;
    } while (cursor !== undefined);
  }
  return undefined;
}

const unknownFault = (text: string) =>
  fault('not_found', `no program in a box is named ${text}`, {
    hint: 'See which there are: agentctl box list --all',
  });

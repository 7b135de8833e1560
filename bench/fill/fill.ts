// Creates a state directory with many ended tasks: a real runtime does the first ones, and their
// rows and events are copied, with ids, numbers and times of their own. Texts, objects and most
// workspaces are not copied.
import { chownSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { freshDir, taskEnded } from '../../test/support/runtime.ts';
import { startUpstream } from '../children.ts';
import { startBenchRuntime } from '../world.ts';
import { openEvents } from './events.ts';
import { openRows, type RowCopier, TABLES } from './rows.ts';
import { type Copy, makeCopies } from './template.ts';

/** Tasks that are really done: enough that their events are interleaved in the log. */
const REAL_TASKS = 20;
/** The tasks are spread over this time before now. */
const SPAN_MS = 20 * 86_400_000;
/** This many tasks have directories. */
const WORKSPACES_MAX = 2_000;

export type Filled = {
  /** For startRuntime; the caller removes it. */
  base: string;
  taskIds: string[];
};

/** The number of tasks is a multiple of REAL_TASKS. */
export async function fillState(count: number): Promise<Filled> {
  const base = freshDir();
  const real = await doTasks(base, Math.min(count, REAL_TASKS));
  const copies = Math.ceil(count / REAL_TASKS) - 1;
  const taskIds = copies > 0 ? [...real, ...(await copyTasks(base, real, copies))] : real;
  return { base, taskIds };
}

async function doTasks(base: string, count: number): Promise<string[]> {
  const upstream = await startUpstream();
  try {
    const runtime = await startBenchRuntime(upstream.port, { base });
    try {
      const made = await Promise.all(
        Array.from({ length: count }, (_, n) =>
          runtime.agentd.createTask({
            body: {
              goal: `goal-number-${n}: why is the report late?`,
              limits: { max_tokens: 1_000_000 },
            },
          }),
        ),
      );
      for (const { task } of made) await taskEnded(runtime, task.id);
      return made.map(({ task }) => task.id);
    } finally {
      await runtime.stop();
    }
  } finally {
    await upstream.stop();
  }
}

async function copyTasks(base: string, real: readonly string[], copies: number): Promise<string[]> {
  const stateDir = join(base, 'state');
  const rows = new Map<string, RowCopier>(
    Object.keys(TABLES).map((daemon) => [
      daemon,
      openRows(join(stateDir, `${daemon}.sqlite`), daemon),
    ]),
  );
  const events = await openEvents(stateDir);
  const nextCopy = makeCopies([...[...rows.values()].flatMap(({ ids }) => ids), ...events.ids]);
  const nowMs = Date.now();
  const taskIds: string[] = [];
  for (let n = 0; n < copies; n++) {
    const copy: Copy = nextCopy(nowMs, Math.round(-SPAN_MS * (1 - n / copies)));
    for (const store of rows.values()) store.add(copy);
    await events.add(copy);
    const ids = real.map((id) => copy.ids.get(id)!);
    if (taskIds.length < WORKSPACES_MAX) for (const id of ids) makeDirs(stateDir, id);
    taskIds.push(...ids);
  }
  const last = await events.finish();
  chownLog(join(stateDir, 'audit'));
  for (const [daemon, store] of rows) store.finish(copies, last.get(daemon)!);
  return taskIds;
}

/** The directories that a task tree has on the disk. */
function makeDirs(stateDir: string, taskId: string): void {
  for (const parent of ['workspaces', 'homes']) {
    const dir = join(stateDir, parent, taskId);
    mkdirSync(dir, { mode: 0o700 });
    chownLikeParent(dir);
  }
}

/** The log's files that this process made, if it is root. */
function chownLog(dir: string): void {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    chownLikeParent(join(dir, entry.name));
    if (entry.isDirectory()) chownLog(join(dir, entry.name));
  }
}

function chownLikeParent(path: string): void {
  const { uid, gid } = statSync(dirname(path));
  if (process.getuid?.() === 0) chownSync(path, uid, gid);
}

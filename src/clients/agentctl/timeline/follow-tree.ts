// A task's tree, again each time something happened in it, until the task has ended. The audit log
// is what says that something happened; agentd says what is so now.
import type { TreeNode } from '../../../wire/agentd.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import { readNewestSeq, sleep } from '../follow.ts';
import { retryWhileDown } from '../retry-while-down.ts';
import type { RuntimeClient } from '../runtime.ts';
import { subscribeWakeups } from '../wakeups.ts';

/** Events come in groups; one look serves them all. */
const BATCH_DELAY_MS = 60;
/** Without the log it still goes on, by looking. */
const POLL_INTERVAL_MS = 2_000;

export async function* followTree(
  runtime: RuntimeClient,
  id: string,
  signal: AbortSignal,
  onEvent: (event: AuditEvent) => void = () => undefined,
): AsyncGenerator<TreeNode> {
  // Known before the first look, so that nothing that happens after it goes unheard.
  const readTask = () => runtime.call('agentd', 'getTask', { params: { id } });
  const root = retryWhileDown(readTask, runtime, signal).then(({ task }) => task.root_task_id);
  const from = Promise.all([root, readNewestSeq(runtime)]).then(
    ([root_task_id, after]) => ({ after, filter: { root_task_id } }),
    () => undefined,
  );
  const wakeups = subscribeWakeups(runtime, { from, outer: signal, onEvent });
  try {
    for (;;) {
      await Promise.all([root, from]); // A task that does not exist is told at once.
      wakeups.reset();
      const readTree = () => runtime.call('agentd', 'getTree', { params: { id } });
      const { tree } = await retryWhileDown(readTree, runtime, signal);
      yield tree;
      if (tree.task.ended_at !== null || signal.aborted) return;
      await wakeups.wait(POLL_INTERVAL_MS);
      if (signal.aborted) return;
      await sleep(BATCH_DELAY_MS, signal);
    }
  } finally {
    wakeups.stop();
  }
}

// Yields a task's tree after each change until the task has ended. The audit log signals changes;
// agentd provides the tree.
import type { TreeNode } from '../../../wire/agentd.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import { readNewestSeq, sleep } from '../follow.ts';
import { retryWhileDown } from '../retry-while-down.ts';
import type { RuntimeClient } from '../runtime.ts';
import { subscribeWakeups } from '../wakeups.ts';

/** Events come in groups; one read serves them all. */
const BATCH_DELAY_MS = 60;
const POLL_INTERVAL_MS = 2_000;

export async function* followTree(
  runtime: RuntimeClient,
  id: string,
  signal: AbortSignal,
  onEvent: (event: AuditEvent) => void = () => undefined,
): AsyncGenerator<TreeNode> {
  // Read the log position before the first tree, so that no change after it is missed.
  const readTask = () => runtime.call('agentd', 'getTask', { params: { id } });
  const root = retryWhileDown(readTask, runtime, signal).then(({ task }) => task.root_task_id);
  const from = Promise.all([root, readNewestSeq(runtime)]).then(
    ([root_task_id, after]) => ({ after, filter: { root_task_id } }),
    () => undefined,
  );
  const wakeups = subscribeWakeups(runtime, { from, outer: signal, onEvent });
  try {
    for (;;) {
      await Promise.all([root, from]); // Fails at once for an unknown task.
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

// A task's tree, again each time something happened in it, until the task has ended. The audit log
// is what says that something happened; agentd says what is so now.
import type { TreeNode } from '../../../wire/agentd.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import { bridge } from '../bridge.ts';
import { newestSeq, pause } from '../follow.ts';
import type { RuntimeClient } from '../runtime.ts';
import { subscribeWakeups } from '../wakeups.ts';

/** Events come in groups; one look serves them all. */
const gatherMs = 60;
/** Without the log it still goes on, by looking. */
const lookEveryMs = 2_000;

export async function* followTree(
  runtime: RuntimeClient,
  id: string,
  signal: AbortSignal,
  onEvent: (event: AuditEvent) => void = () => undefined,
): AsyncGenerator<TreeNode> {
  // Known before the first look, so that nothing that happens after it goes unheard.
  const ask = () => runtime.ask('agentd', 'getTask', { params: { id } });
  const root = bridge(ask, runtime, signal).then(({ task }) => task.root_task_id);
  const from = Promise.all([root, newestSeq(runtime)]).then(
    ([root_task_id, after]) => ({ after, filter: { root_task_id } }),
    () => undefined,
  );
  const bell = subscribeWakeups(runtime, { from, outer: signal, onEvent });
  try {
    for (;;) {
      await Promise.all([root, from]); // A task that does not exist is told at once.
      bell.reset();
      const look = () => runtime.ask('agentd', 'getTree', { params: { id } });
      const { tree } = await bridge(look, runtime, signal);
      yield tree;
      if (tree.task.ended_at !== null || signal.aborted) return;
      await bell.wait(lookEveryMs);
      if (signal.aborted) return;
      await pause(gatherMs, signal);
    }
  } finally {
    bell.stop();
  }
}

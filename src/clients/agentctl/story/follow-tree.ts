// A task's tree, again each time something happened in it, until the task has ended. The audit log
// is what says that something happened; agentd says what is so now.
import type { TreeNode } from '../../../wire/agentd.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import { bridge } from '../bridge.ts';
import { followEvents, newestSeq, pause } from '../follow.ts';
import type { Runtime } from '../runtime.ts';

/** Events come in groups; one look serves them all. */
const gatherMs = 60;
/** Without the log it still goes on, by looking. */
const lookEveryMs = 2_000;

export async function* followTree(
  runtime: Runtime,
  id: string,
  signal: AbortSignal,
  onEvent: (event: AuditEvent) => void = () => undefined,
): AsyncGenerator<TreeNode> {
  const bell = ring({ runtime, id, outer: signal, onEvent });
  try {
    for (;;) {
      await bell.armed;
      bell.reset();
      const look = () => runtime.ask('agentd', 'getTree', { params: { id } });
      const { tree } = await bridge(look, runtime, signal);
      yield tree;
      if (tree.task.ended_at !== null || signal.aborted) return;
      await bell.rung(lookEveryMs);
      if (signal.aborted) return;
      await pause(gatherMs, signal);
    }
  } finally {
    bell.stop();
  }
}

function ring({
  runtime,
  id,
  outer,
  onEvent,
}: {
  runtime: Runtime;
  id: string;
  outer: AbortSignal;
  onEvent: (event: AuditEvent) => void;
}) {
  const stopped = new AbortController();
  const signal = AbortSignal.any([outer, stopped.signal]);
  let wake = new AbortController();
  let isRung = false;
  const toll = (): void => {
    isRung = true;
    wake.abort();
  };
  // Known before the first look, so that nothing that happens after it goes unheard.
  const look = () => runtime.ask('agentd', 'getTask', { params: { id } });
  const root = bridge(look, runtime, signal).then(({ task }) => task.root_task_id);
  const start = Promise.all([root, newestSeq(runtime)]).catch(() => undefined);
  const listen = async (): Promise<void> => {
    const from = await start;
    if (from === undefined) return;
    const [root_task_id, after] = from;
    const filter = { root_task_id };
    for await (const event of followEvents(runtime, { after, filter, signal })) {
      onEvent(event);
      toll();
    }
  };
  listen().catch(() => undefined);
  return {
    // A task that does not exist is told at once.
    armed: Promise.all([root, start]),
    reset(): void {
      isRung = false;
      wake = new AbortController();
    },
    rung: (ms: number) =>
      isRung ? Promise.resolve() : pause(ms, AbortSignal.any([wake.signal, signal])),
    stop: () => stopped.abort(),
  };
}

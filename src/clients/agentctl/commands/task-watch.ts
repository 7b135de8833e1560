// agentctl task watch: redraws a task's tree in place on a terminal, and prints changes line by
// line elsewhere.
import type { TreeNode } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import type { Session } from '../command.ts';
import { onInterrupt } from '../interrupt.ts';
import { type Out, toJsonText } from '../out.ts';
import { retryWhileDown } from '../retry-while-down.ts';
import type { RuntimeClient } from '../runtime.ts';
import { followTree } from '../timeline/follow-tree.ts';
import { addCalls, CallReader } from '../timeline/gather.ts';
import { findOpenQuestion } from '../timeline/progress.ts';
import { renderTree } from '../timeline/render-tree.ts';
import { makeReporter, printEnd } from './task-wait.ts';

export async function watch(session: Session): Promise<number> {
  const { args, out, runtime } = session;
  const id = args.positionals[0] ?? (await findNewestRoot(runtime()));
  const { signal, done } = onInterrupt();
  const view = out.json
    ? makeJsonView(out)
    : out.terminal
      ? makeLiveView(out, runtime(), signal)
      : makeLineView(out, runtime());
  let last: TreeNode | undefined;
  try {
    for await (const tree of followTree(runtime(), id, signal, view.onEvent)) {
      if (last === undefined && !out.json) out.writeLine(out.paint('dim', id));
      await view.show(tree);
      last = tree;
      if (args.flag('no-wait') && findOpenQuestion(tree) !== undefined) break;
    }
  } finally {
    view.stop();
    done();
  }
  if (last === undefined) return 0;
  const end = { task: last.task, tree: last };
  // The stream has printed everything; only the exit status is needed.
  if (out.json) return printEnd(end, signal.aborted, { ...out, print: () => undefined });
  out.writeLine();
  return printEnd(end, signal.aborted, out);
}

async function findNewestRoot(runtime: RuntimeClient): Promise<string> {
  const { tasks } = await runtime.call('agentd', 'listTasks', { query: { limit: 100 } });
  const live = tasks.find(({ ended_at }) => ended_at === null) ?? tasks[0];
  if (live !== undefined) return live.root_task_id;
  throw fault('not_found', 'no task found', {
    hint: 'Create one: agentctl task create "…"',
  });
}

type View = {
  show(tree: TreeNode): Promise<void>;
  onEvent?: (event: AuditEvent) => void;
  stop(): void;
};

/** Prints each changed task as one document. */
function makeJsonView(out: Out): View {
  const seen = new Map<string, string>();
  const show = (node: TreeNode): void => {
    const text = toJsonText({ task: node.task });
    if (seen.get(node.task.id) !== text) out.writeLine(text);
    seen.set(node.task.id, text);
    for (const child of node.children) show(child);
  };
  return { show: async (tree) => show(tree), stop() {} };
}

function makeLineView(out: Out, runtime: RuntimeClient): View {
  let reporter: ReturnType<typeof makeReporter> | undefined;
  return {
    onEvent: (event) => reporter?.onEvent(event),
    async show(tree) {
      reporter ??= makeReporter(tree.task.created_at, { out, runtime }, (line) =>
        out.writeLine(line),
      );
      await reporter.show(tree);
    },
    stop() {},
  };
}

const REDRAW_INTERVAL_MS = 1_000;

/** Redraws over its last output, also between events so that elapsed times advance. */
function makeLiveView(out: Out, runtime: RuntimeClient, signal: AbortSignal): View {
  const reader = new CallReader(runtime);
  let height = 0;
  let draw: (() => void) | undefined;
  const timer = setInterval(() => draw?.(), REDRAW_INTERVAL_MS);
  return {
    async show(tree) {
      const record = await retryWhileDown(() => addCalls(tree, reader), runtime, signal);
      draw = () => {
        const size = {
          columns: process.stdout.columns || 80,
          rows: (process.stdout.rows || 24) - 2,
        };
        const lines = renderTree(record, { nowMs: Date.now(), paint: out.paint, ...size });
        const back = height > 0 ? `\u001b[${height}A\r` : '';
        out.write(`${back}\u001b[J${lines.join('\n')}\n`);
        height = lines.length;
      };
      draw();
    },
    stop: () => clearInterval(timer),
  };
}

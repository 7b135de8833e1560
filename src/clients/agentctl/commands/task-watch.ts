// agentctl task watch: the tree of a task, rewritten in place on a terminal, told line by line
// elsewhere.
import type { TreeNode } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import { bridge } from '../bridge.ts';
import type { Session } from '../command.ts';
import { onInterrupt } from '../interrupt.ts';
import { type Out, toJsonText } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { followTree } from '../timeline/follow-tree.ts';
import { addCalls, CallReader } from '../timeline/gather.ts';
import { findOpenQuestion } from '../timeline/progress.ts';
import { treeLines } from '../timeline/tree-lines.ts';
import { makeTeller, tellEnd } from './task-wait.ts';

export async function watch(session: Session): Promise<number> {
  const { args, out, runtime } = session;
  const id = args.words[0] ?? (await newestRoot(runtime()));
  const { signal, done } = onInterrupt();
  const view = out.json
    ? jsonView(out)
    : out.terminal
      ? liveView(out, runtime(), signal)
      : lineView(out, runtime());
  let last: TreeNode | undefined;
  try {
    for await (const tree of followTree(runtime(), id, signal, view.hear)) {
      if (last === undefined && !out.json) out.line(out.paint('dim', id));
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
  // The stream has said it all; what is left is how to end.
  if (out.json) return tellEnd(end, signal.aborted, { ...out, print: () => undefined });
  out.line();
  return tellEnd(end, signal.aborted, out);
}

async function newestRoot(runtime: RuntimeClient): Promise<string> {
  const { tasks } = await runtime.ask('agentd', 'listTasks', { query: { limit: 100 } });
  const live = tasks.find(({ ended_at }) => ended_at === null) ?? tasks[0];
  if (live !== undefined) return live.root_task_id;
  throw fault('not_found', 'there is no task to watch', {
    hint: 'Make one: agentctl task create "…"',
  });
}

type View = {
  show(tree: TreeNode): Promise<void>;
  hear?: (event: AuditEvent) => void;
  stop(): void;
};

/** Every task that changed, whole, one per line. */
function jsonView(out: Out): View {
  const seen = new Map<string, string>();
  const show = (node: TreeNode): void => {
    const text = toJsonText({ task: node.task });
    if (seen.get(node.task.id) !== text) out.line(text);
    seen.set(node.task.id, text);
    for (const child of node.children) show(child);
  };
  return { show: async (tree) => show(tree), stop() {} };
}

function lineView(out: Out, runtime: RuntimeClient): View {
  let teller: ReturnType<typeof makeTeller> | undefined;
  return {
    hear: (event) => teller?.hear(event),
    async show(tree) {
      teller ??= makeTeller(tree.task.created_at, { out, runtime }, (line) => out.line(line));
      await teller.show(tree);
    },
    stop() {},
  };
}

const tickMs = 1_000;

/** Goes up over what it wrote before and writes again; the seconds go on between events. */
function liveView(out: Out, runtime: RuntimeClient, signal: AbortSignal): View {
  const reader = new CallReader(runtime);
  let height = 0;
  let draw: (() => void) | undefined;
  const timer = setInterval(() => draw?.(), tickMs);
  return {
    async show(tree) {
      const chapter = await bridge(() => addCalls(tree, reader), runtime, signal);
      draw = () => {
        const size = {
          columns: process.stdout.columns || 80,
          rows: (process.stdout.rows || 24) - 2,
        };
        const lines = treeLines(chapter, { nowMs: Date.now(), paint: out.paint, ...size });
        const back = height > 0 ? `\u001b[${height}A\r` : '';
        out.write(`${back}\u001b[J${lines.join('\n')}\n`);
        height = lines.length;
      };
      draw();
    },
    stop: () => clearInterval(timer),
  };
}

// agentctl task watch: a task's tree, redrawn in place on a terminal, below what models say and
// commands print. Elsewhere its changes line by line, or one document per line.
import type { TreeNode } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import type { LiveGap, LiveItem } from '../../../wire/live.ts';
import type { Session } from '../command.ts';
import { onInterrupt } from '../interrupt.ts';
import { type Out, toJsonText } from '../out.ts';
import { retryWhileDown } from '../retry-while-down.ts';
import type { RuntimeClient } from '../runtime.ts';
import { followLive } from '../timeline/follow-live.ts';
import { followTree } from '../timeline/follow-tree.ts';
import { addCalls, CallReader } from '../timeline/gather.ts';
import { makeLiveLines } from '../timeline/live-lines.ts';
import { findOpenQuestion } from '../timeline/progress.ts';
import { renderTree } from '../timeline/render-tree.ts';
import { makeReporter, printEnd } from './task-wait.ts';

export async function watch(session: Session): Promise<number> {
  const { args, out, runtime } = session;
  const id = args.positionals[0] ?? (await findNewestRoot(runtime()));
  const { signal, done } = onInterrupt();
  const live = new AbortController();
  const view = out.json
    ? makeJsonView(out)
    : out.terminal
      ? makeTreeView(out, runtime(), signal)
      : makeLineView(out, runtime());
  let last: TreeNode | undefined;
  /** Leaves out what other parts of the tree do than the subtask that is watched. */
  const onItem = (item: LiveItem | LiveGap): void => {
    const isShown = 'left_out_chars' in item || last === undefined || isWithin(last, item.task_id);
    if (isShown) view.onItem(item);
  };
  try {
    for await (const tree of followTree(runtime(), id, signal, view.onEvent)) {
      if (last === undefined) {
        if (!out.json) out.writeLine(out.paint('dim', id));
        if (tree.task.ended_at === null)
          void followLive(runtime(), tree.task.root_task_id, onItem, live.signal);
      }
      last = tree;
      await view.show(tree);
      if (args.flag('no-wait') && findOpenQuestion(tree) !== undefined) break;
    }
  } finally {
    live.abort();
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

/** A root has every task of its tree, also those that it has created since. */
const isWithin = ({ task, children }: TreeNode, id: string): boolean =>
  task.id === task.root_task_id || task.id === id || children.some((child) => isWithin(child, id));

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
  onItem(item: LiveItem | LiveGap): void;
  onEvent?: (event: AuditEvent) => void;
  /** Prints what is left of live items. */
  stop(): void;
};

/** Prints each changed task, and each live item, as one document. */
function makeJsonView(out: Out): View {
  const seen = new Map<string, string>();
  const show = (node: TreeNode): void => {
    const text = toJsonText({ task: node.task });
    if (seen.get(node.task.id) !== text) out.writeLine(text);
    seen.set(node.task.id, text);
    for (const child of node.children) show(child);
  };
  return {
    show: async (tree) => show(tree),
    onItem: (live) => out.writeLine(toJsonText({ live })),
    stop() {},
  };
}

/** A line without an end is printed after this time without more of it. */
const PAUSE_MS = 700;

/** Prints live items as lines, once each line is complete. */
function makeLinePrinter(out: Out, print: (lines: readonly string[]) => void) {
  const live = makeLiveLines(out, Date.now);
  let timer: NodeJS.Timeout | undefined;
  const printSome = (lines: readonly string[]): void => {
    if (lines.length > 0) print(lines);
  };
  return {
    onItem(item: LiveItem | LiveGap): void {
      clearTimeout(timer);
      timer = setTimeout(() => printSome(live.flush()), PAUSE_MS);
      printSome(live.add(item));
    },
    stop(): void {
      clearTimeout(timer);
      printSome(live.flush());
    },
  };
}

function makeLineView(out: Out, runtime: RuntimeClient): View {
  let reporter: ReturnType<typeof makeReporter> | undefined;
  return {
    ...makeLinePrinter(out, (lines) => out.write(`${lines.join('\n')}\n`)),
    onEvent: (event) => reporter?.onEvent(event),
    async show(tree) {
      reporter ??= makeReporter(tree.task.created_at, { out, runtime }, (line) =>
        out.writeLine(line),
      );
      await reporter.show(tree);
    },
  };
}

const REDRAW_INTERVAL_MS = 1_000;

/** Redraws the tree over its last output, also between events so that elapsed times advance. */
function makeTreeView(out: Out, runtime: RuntimeClient, signal: AbortSignal): View {
  const reader = new CallReader(runtime);
  let height = 0;
  let readTree: () => string[] = () => [];
  const draw = (above: readonly string[] = []): void => {
    const tree = readTree();
    const back = height > 0 ? `\u001b[${height}A\r` : '';
    const text = [...above, ...tree].map((line) => `${line}\n`).join('');
    out.write(`${back}\u001b[J${text}`);
    height = tree.length;
  };
  const timer = setInterval(draw, REDRAW_INTERVAL_MS);
  const printer = makeLinePrinter(out, draw);
  return {
    onItem: printer.onItem,
    async show(tree) {
      const record = await retryWhileDown(() => addCalls(tree, reader), runtime, signal);
      readTree = () => {
        const size = {
          columns: process.stdout.columns || 80,
          rows: (process.stdout.rows || 24) - 2,
        };
        return renderTree(record, { nowMs: Date.now(), paint: out.paint, ...size });
      };
      draw();
    },
    stop() {
      clearInterval(timer);
      printer.stop();
    },
  };
}

// Test helper: a runtime with a response to every request about the fixtures' team task.

import { RawReply } from '../../../platform/dispatch.ts';
import type { TaskView, TreeNode } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import type { TaskRecord } from '../timeline/gather.ts';
import type { RouteScript } from './fake-runtime.ts';
import { id, message } from './fixtures.ts';
import { teamCalls, teamEvents, teamTree } from './team.ts';

export type TeamOptions = {
  /** The tree of each read; the last one repeats. */
  trees?: readonly TreeNode[];
};

function find(tree: TreeNode, taskId: string): TreeNode | undefined {
  if (tree.task.id === taskId) return tree;
  for (const child of tree.children) {
    const found = find(child, taskId);
    if (found !== undefined) return found;
  }
  return undefined;
}

export function teamScript({ trees = [teamTree()] }: TeamOptions = {}): RouteScript {
  let looks = 0;
  const current = () => trees[Math.min(looks, trees.length - 1)]!;
  const taskOf = (taskId: string): TaskView => {
    const found = find(current(), taskId);
    if (found === undefined) throw fault('not_found', `task ${taskId} not found`);
    return found.task;
  };
  return {
    agentd: {
      createTask: async () => ({ task: trees[0]!.task }),
      retryTask: async () => ({ task: trees[0]!.task }),
      getTask: async ({ params }) => ({ task: taskOf(params.id) }),
      listTasks: async () => ({ tasks: [current().task], cursor: null }),
      async getTree({ params }) {
        const tree = find(current(), params.id);
        if (tree === undefined) throw fault('not_found', `task ${params.id} not found`);
        looks++;
        return { tree };
      },
      listRuns: async () => ({ runs: current().runs, cursor: null }),
      listWaits: async () => ({ waits: current().waits, cursor: null }),
      listMessages: async ({ query }) => ({
        messages: query.task_id === id('task', 1) ? [message(1)] : [],
        cursor: null,
      }),
    },
    toold: {
      listCalls: async ({ query }) => ({ calls: teamCalls(query.task_id!).tools, cursor: null }),
    },
    modeld: {
      listCalls: async ({ query }) => ({ calls: teamCalls(query.task_id!).models, cursor: null }),
    },
    'auditd-ai': {
      task: async ({ params }) => ({ events: teamEvents(params.task_id), cursor: null }),
      events: async ({ query, signal }) => {
        if (query.follow !== '1') return { events: [], cursor: null };
        return eventStream(beats(trees.length, signal));
      },
    },
  };
}

export function teamRecord(tree: TreeNode = teamTree()): TaskRecord {
  const { models, tools } = teamCalls(tree.task.id);
  return {
    ...tree,
    modelCalls: models,
    toolCalls: tools,
    messages: tree.task.id === id('task', 1) ? [message(1)] : [],
    events: teamEvents(tree.task.id),
    children: tree.children.map((child) => teamRecord(child)),
  };
}

/** Sends one event per read, then nothing until the reader disconnects. */
async function* beats(times: number, signal: AbortSignal): AsyncGenerator<AuditEvent> {
  for (let seq = 0; seq < times && !signal.aborted; seq++) {
    yield { seq, event: 'task.waiting' } as AuditEvent;
    await new Promise((done) => setTimeout(done, 150));
  }
  await new Promise<void>((done) => signal.addEventListener('abort', () => done(), { once: true }));
}

export function eventStream(events: AsyncIterable<AuditEvent>): RawReply {
  const body = (async function* () {
    for await (const event of events) yield `id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n`;
  })();
  return new RawReply({ status: 200, headers: { 'content-type': 'text/event-stream' }, body });
}

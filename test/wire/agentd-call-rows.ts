// The rows of agentd's routes that other daemons call for a run.
import assert from 'node:assert/strict';
import { deriveId } from '../../src/platform/ids.ts';
import type { TaskId } from '../../src/wire/primitives.ts';
import { callSocket, type IdleWorld, type LiveRun, runSocketOf } from '../support/callers.ts';
import { type Good, rows, withBody } from './row.ts';

const UNKNOWN = '0'.repeat(26);

export const forRun = (run: LiveRun, step = 0) => ({
  run_id: run.id,
  fence: run.fence,
  call_id: run.callId(step),
});

export const asTool =
  (more: (world: IdleWorld) => object | Promise<object>) =>
  async (world: IdleWorld): Promise<Good> => {
    const run = await world.startRun();
    return { run, body: { ...forRun(run), ...(await more(world)) } };
  };

export const text = (words: string) => ({ parts: [{ kind: 'text', text: words }] });

export const agentdCallRows = rows({
  toolDelegate: {
    good: asTool(() => ({ agent: 'helper', goal: 'Help', wait: false })),
    bad: [
      ['oneself as the colleague', (g) => withBody(g, { agent: 'worker' }), 'denied'],
      ['an unknown colleague', (g) => withBody(g, { agent: 'nobody' }), 'not_found'],
    ],
  },
  toolUpdateTask: {
    refused: 'not_found',
    good: asTool(() => ({ task_id: deriveId<TaskId>('task', 'none'), priority: 1 })),
    bad: [['a failure policy', (g) => withBody(g, { on_failure: 'retry' }), 'bad_request']],
  },
  toolChanges: {
    refused: 'not_found',
    good: asTool(() => ({ action: 'apply', task_id: deriveId<TaskId>('task', 'none') })),
    bad: [['another action', (g) => withBody(g, { action: 'undo' }), 'bad_request']],
  },
  toolFinish: {
    good: asTool(() => ({ status: 'completed', result: 'Done' })),
    check: (response: { task: { status: string } }) =>
      assert.equal(response.task.status, 'completed'),
  },
  toolMessage: {
    good: asTool(() => ({
      message: { type: 'TaskProgress', to: 'person:ann', ...text('Soon') },
      wait_reply: false,
    })),
  },
  toolPutArtifact: { good: asTool(() => ({ artifact: { name: 'c.txt', text: 'c' } })) },
  toolGetArtifact: {
    good: async (world) => {
      const run = await world.startRun();
      const put = {
        call_id: run.callId(1),
        tool: 'artifact.put',
        arguments: { name: 'x', text: 'y' },
      };
      const path = runSocketOf(world, 'toold', run);
      const { tooldRoutes } = await import('../../src/wire/toold.ts');
      const stored = await callSocket(path, tooldRoutes.call, { body: put });
      assert.ok(stored.ok);
      const { result } = stored.value as { result: { id: string } };
      return { run, body: { ...forRun(run, 2), id: result.id } };
    },
    bad: [['an unknown artifact', (g) => withBody(g, { id: `artifact_${UNKNOWN}` }), 'not_found']],
  },
  toolAsk: { good: asTool(() => ({ question: 'Which one?', choices: ['a', 'b'] })) },
  toolTimer: { good: asTool(() => ({ after_s: 60 })) },
  toolAwaitApproval: {
    good: asTool(() => ({
      approval_id: `approval_${UNKNOWN}`,
      expires_at: '2030-01-01T00:00:00Z',
    })),
    check: (response: { wait: { kind: string } }) => assert.equal(response.wait.kind, 'approval'),
  },
  approvalEnded: {
    // The call may not have opened its wait yet.
    unknownId: 'fine',
    good: async (world) => ({
      params: { id: `approval_${UNKNOWN}` },
      body: {
        run_id: world.someRun.id,
        call_id: world.someRun.callId(77),
        outcome: 'answered',
        decision: 'approved',
        by: 'person:tester',
      },
    }),
    check: (response: { ended: boolean }) => assert.equal(response.ended, false),
    bad: [['an unknown run', (g) => withBody(g, { run_id: `run_${UNKNOWN}` }), 'not_found']],
  },
  toolMark: {
    good: asTool(() => ({ labels: ['outside'], why: 'a page of a stranger' })),
    check: (response: { labels: string[] }) => assert.ok(response.labels.includes('outside')),
    bad: [['an unknown label', (g) => withBody(g, { labels: ['nice'] }), 'bad_request']],
  },
  modelFetch: {
    good: asTool(() => ({ tools: [], hosts: ['a.example'] })),
    check: (response: { labels: string[] }) => assert.ok(response.labels.includes('outside')),
    bad: [['a tool that its grant lacks', (g) => withBody(g, { tools: ['model.mcp'] }), 'denied']],
  },
  runMarks: { good: async (world) => ({ params: { id: world.someRun.id } }) },
  toolBreak: {
    unknownFence: 'fine',
    good: async (world) => {
      const run = await world.startRun();
      return { run, body: { run_id: run.id, fence: run.fence, reason: 'It went in circles' } };
    },
    check: (response: { ended: boolean }) => assert.equal(response.ended, true),
  },
});

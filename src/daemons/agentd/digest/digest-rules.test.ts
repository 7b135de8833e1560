// The lines of a digest: each part, their width, and what they let through.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { DigestTask, DigestView } from '../../../wire/agentd.ts';
import { renderDigest, titleDigest } from './digest-rules.ts';

const id = (kind: string) => `${kind}_${'0'.repeat(26)}`;
const task = (more: Partial<DigestTask> = {}): DigestTask =>
  ({
    id: id('task'),
    goal: 'Count the herons',
    agent: 'coder',
    status: 'completed',
    created_by: 'person:ann',
    reason: null,
    retried_as: null,
    cost_microusd: 1_234,
    rehearsal: false,
    created_at: '2026-03-01T09:00:00Z',
    ended_at: '2026-03-01T10:05:00Z',
    ...more,
  }) as DigestTask;
const none = { count: 0, more: false, tasks: [] };
const digest = (more: Partial<DigestView> = {}): Omit<DigestView, 'text'> => ({
  since: '2026-03-01T09:00:00Z' as never,
  until: '2026-03-02T09:00:00Z' as never,
  completed: none,
  failed: none,
  canceled: 0,
  cost: {
    calls: 0,
    input_tokens: 0,
    output_tokens: 0,
    cost_microusd: 0,
    is_guess: false,
    agents: [],
  },
  waiting: { questions: [], approvals: [], unapplied: [], more: false },
  incidents: [],
  board: { blocked: 0, ready: 0, working: 0, waiting: 0 },
  missing: [],
  ...more,
});

describe('the text of a digest', () => {
  it('says of each part that there is nothing', () => {
    assert.equal(
      renderDigest(digest()),
      `2026-03-01 09:00 to 2026-03-02 09:00 UTC

WAITS FOR YOU: nothing

WENT WRONG: nothing

DONE: nothing

COST: $0.0000, 0 model calls, 0 tokens in, 0 out

NOW: 0 working, 0 ready, 0 waiting, 0 blocked`,
    );
    assert.equal(titleDigest(digest()), '0 done, nothing waits for you');
  });

  it('has a line and a command for each thing that waits', () => {
    const waiting = {
      questions: [
        { id: id('wait'), task_id: id('task'), agent: null, question: 'Who?', expires_at: null },
      ],
      approvals: [
        {
          id: id('approval'),
          agent: 'ops',
          task_id: null,
          risk: 'high',
          summary: 'deploy',
          expires_at: '2026-03-02T09:00:00Z',
        },
      ],
      unapplied: [task()],
      more: true,
    } as unknown as DigestView['waiting'];
    const text = renderDigest(digest({ waiting }));
    assert.match(text, /^WAITS FOR YOU: 3\+$/m);
    assert.match(text, /^ {2}agentd asks: Who\?\n {4}agentctl answer wait_0+ "…"$/m);
    assert.match(
      text,
      /^ {2}ops requests \(high risk\): deploy\n {4}agentctl approvals approval_/m,
    );
    assert.match(text, /^ {4}agentctl task diff task_0+$/m);
  });

  it('has tasks with agent, cost and time, and says how many more there are', () => {
    const completed = { count: 12, more: false, tasks: [task({ rehearsal: true })] };
    const failed = {
      count: 1,
      more: false,
      tasks: [task({ status: 'failed', reason: 'No pond.', retried_as: id('task') as never })],
    };
    const text = renderDigest(digest({ completed, failed, canceled: 2 }));
    assert.match(text, /^DONE: 12 tasks, and 2 canceled$/m);
    assert.match(text, /^ {4}task_0+ \* · coder · \$0\.0012 · 1 h 5 min$/m);
    assert.match(text, /… and 11 more: agentctl task list --status completed/);
    assert.match(text, /scripted stand-in/);
    assert.match(
      text,
      /^WENT WRONG: 1 task, 0 incidents\n {2}failed: Count the herons\n {4}No pond/m,
    );
    assert.match(text, /^ {4}tried again: task_/m);
    assert.equal(
      titleDigest(digest({ completed, failed })),
      '12 done, 1 failed, nothing waits for you',
    );
  });

  it('has the cost by agent, and calls a guess one', () => {
    const cost = {
      ...digest().cost,
      calls: 1_234,
      input_tokens: 56_789,
      cost_microusd: 2_500_000,
      is_guess: true,
      agents: [
        { agent: 'coder', calls: 1_233, cost_microusd: 2_000_000 },
        { agent: null, calls: 1, cost_microusd: 500_000 },
      ],
    };
    const text = renderDigest(digest({ cost }));
    assert.match(text, /^COST: up to \$2\.5000, 1,234 model calls, 56,789 tokens in, 0 out$/m);
    assert.match(text, /^ {2}people and programs {4}\$0\.5000 {2}1 call$/m);
  });

  it('stays within 80 columns and one line each, whatever the goals are', () => {
    const goal = `Line one\n\u001b[31mred\u202e ${'long '.repeat(50)}`;
    const long = { count: 1, more: false, tasks: [task({ goal, reason: goal })] };
    const incidents = [
      {
        event: 'tool.call.denied',
        text: goal,
        count: 200,
        more: true,
        last_at: '2026-03-01T09:00:00Z',
        last_seq: 12,
      },
    ] as unknown as DigestView['incidents'];
    const missing = [{ part: 'cost', message: goal }] as DigestView['missing'];
    const text = renderDigest(digest({ completed: long, failed: long, incidents, missing }));
    assert.deepEqual(
      text.split('\n').filter((line) => Array.from(line).length > 80),
      [],
    );
    assert.ok(!text.includes('\u001b') && !text.includes('\u202e'));
    assert.match(text, /… \(200 times or more\)\n {4}agentctl policy explain 12$/m);
    assert.match(text, /^NOT READ: cost: Line one/m);
  });
});

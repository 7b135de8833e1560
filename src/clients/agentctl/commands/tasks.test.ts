// Tasks through the whole program: waiting, watching, explaining, replaying.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { TreeNode } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import {
  agent,
  at,
  id,
  modelCall,
  status,
  task,
  toolCall,
  usage,
  wait,
} from '../testing/fixtures.ts';
import { agentctl, documentOf } from '../testing/run-agentctl.ts';
import { teamTree } from '../testing/team.ts';
import { eventStream, teamScript } from '../testing/team-script.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });
const sent = (route: string) => fake.seen.findLast((request) => request.route === route);

const working = (more: Partial<TreeNode> = {}): TreeNode => ({
  task: task(1, { status: 'working', ended_at: null, result: null }),
  runs: [],
  waits: [],
  children: [],
  ...more,
});
const ended = (status: string, code?: string): TreeNode =>
  working({
    task: task(1, {
      status,
      result: null,
      error: code === undefined ? null : { code, message: 'so it was', hint: 'do this' },
      ended_at: at(1),
    }),
  });

test('--wait prints progress, then the result, and that it was a rehearsal', async () => {
  fake.script(teamScript({ trees: [working(), teamTree()] }));
  const ran = await run('task', 'create', 'Do it', '--wait');
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(ran.stderr, /planner: working\n/);
  assert.match(ran.stderr, /planner → researcher: "Read the logs"\n/);
  assert.match(ran.stderr, /planner: completed in 12 s\n/);
  assert.match(ran.stdout, /^A query without an index\.\n\nThis was a rehearsal/);
  fake.script(teamScript({ trees: [working(), teamTree()] }));
  const json = await run('task', 'create', 'Do it', '--wait', '--json');
  assert.equal(documentOf<{ task: { status: string } }>(json).task.status, 'completed');
  assert.equal(json.stderr, '');
});

test('--wait does not print "working" while a model that does not respond is retried', async () => {
  let printed = '';
  const waitForText = async (text: string, signal: AbortSignal): Promise<void> => {
    while (!printed.includes(text) && !signal.aborted)
      await new Promise((done) => setTimeout(done, 20));
  };
  const failed = {
    seq: 1,
    event: 'model.call.ended',
    status: 'failed',
    model: 'default',
    task_id: id('task', 1),
    agent: 'planner',
    ts: at(1),
    data: { provider: 'local', error: 'provider_down' },
  } as unknown as AuditEvent;
  const ready = working({ task: { ...working().task, status: 'ready' } });
  const later = [ready, working(), teamTree()];
  const script = teamScript();
  fake.script({
    ...script,
    agentd: {
      ...script.agentd,
      createTask: async () => ({ task: working().task }),
      getTree: async () => {
        if (!printed.includes('no response from')) return { tree: working() };
        return { tree: later.length > 1 ? later.shift()! : later[0]! };
      },
    },
    'auditd-ai': {
      events: async ({ query, signal }) => {
        if (query.follow !== '1') return { events: [], cursor: null };
        return eventStream(
          (async function* () {
            await waitForText('planner: working', signal);
            yield failed;
            await waitForText('planner: completed', signal);
          })(),
        );
      },
    },
  });
  const ran = await agentctl(['task', 'create', 'Do it', '--wait'], {
    state: fake.stateDir,
    watch: ({ stderr }) => {
      printed = stderr;
      return undefined;
    },
  });
  assert.equal(ran.code, 0, ran.stderr);
  const [before = '', after = ''] = ran.stderr.split(/planner: no response from model default/);
  assert.match(before, /planner: working\n/);
  assert.match(after, /planner: retries model default \(local\); see .*agentctl model list\n/);
  assert.doesNotMatch(after, /planner: working/);
});

test('--wait prints once why the task does not start', async () => {
  const ready = working({ task: { ...working().task, status: 'ready' } });
  const planner = agent('planner', { status: 'paused' });
  for (const args of [
    ['create', 'Do it', '--wait'],
    ['watch', id('task', 1)],
  ]) {
    const script = teamScript({ trees: [ready, ready, ready, working(), teamTree()] });
    const more = {
      status: async () => status(),
      getAgent: async () => ({ agent: planner, manifest: {} }),
    };
    fake.script({ ...script, agentd: { ...script.agentd, ...more } });
    const ran = await run('task', ...args);
    assert.equal(ran.code, 0, ran.stderr);
    const printed = args[0] === 'watch' ? ran.stdout : ran.stderr;
    assert.equal(printed.split('planner: not started, the agent is paused\n').length, 2, printed);
    assert.match(printed, /resume it: agentctl resume planner\n[\s\S]*planner: working\n/);
  }
});

test("the exit status of --wait follows the task's status", async () => {
  for (const [tree, code] of [
    [ended('failed'), 1],
    [ended('canceled'), 1],
    [ended('failed', 'limit'), 7],
    [ended('failed', 'budget'), 7],
    [ended('rejected', 'denied'), 3],
  ] as const) {
    fake.script(teamScript({ trees: [working(), tree] }));
    const ran = await run('task', 'retry', id('task', 1), '--wait');
    assert.equal(ran.code, code, ran.stderr);
    assert.match(ran.stdout, new RegExp(`^${tree.task.status}: `));
  }
});

test('--no-wait exits 4 when a person is needed', async () => {
  const question = wait(5, { kind: 'question', status: 'open', question: 'Go?', ended_at: null });
  fake.script(teamScript({ trees: [working(), working({ waits: [question] })] }));
  const ran = await run('task', 'create', 'Do it', '--no-wait');
  assert.equal(ran.code, 4);
  assert.match(ran.stderr, /planner asks: "Go\?"\n +answer it: agentctl answer wait_0*5 "…"/);
  assert.match(ran.stdout, /waits for a person/);
});

test('Ctrl-C ends the wait and not the task', async () => {
  fake.script(teamScript({ trees: [working()] }));
  const before = fake.seen.length;
  const ran = await agentctl(['task', 'create', 'Do it', '--wait'], {
    state: fake.stateDir,
    watch: ({ stderr }) => (stderr.includes('planner: working') ? 'SIGINT' : undefined),
  });
  assert.equal(ran.code, 130);
  assert.match(ran.stdout, /continues in the background: working/);
  assert.ok(!fake.seen.slice(before).some(({ route }) => route === 'cancelTask'));
});

test('a daemon that is briefly down does not end the wait', async () => {
  const script = teamScript({ trees: [working(), teamTree()] });
  let looks = 0;
  fake.script({
    ...script,
    agentd: {
      ...script.agentd,
      getTree: async (context) => {
        if (++looks === 2) throw fault('unavailable', 'agentd is being started');
        return script.agentd!.getTree!(context);
      },
    },
  });
  const ran = await run('task', 'watch', id('task', 1));
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(ran.stdout, /planner: working\n[\s\S]*planner: completed in 12 s\n/);
  assert.equal(looks, 3);
});

const ESCAPE = '\u001b[';

/** Renders the screen after cursor movements and erased lines. */
function screenOf(text: string): string[] {
  const lines: string[] = [];
  let at = 0;
  for (const part of text.replaceAll('\r', '').split(ESCAPE)) {
    const [, count = '0', act = '', plain = ''] = /^(?:([\d;]*)([AJm]))?(.*)$/s.exec(part) ?? [];
    if (act === 'A') at -= Number(count);
    if (act === 'J') lines.length = at;
    assert.ok(at >= 0, 'never above the first line');
    for (const piece of plain.split(/(?<=\n)/)) {
      lines[at] = (lines[at] ?? '') + piece.replace('\n', '');
      if (piece.endsWith('\n')) at++;
    }
  }
  return lines;
}

test('watch on a terminal redraws the tree in place', async () => {
  fake.script(teamScript({ trees: [working(), working(), teamTree()] }));
  const ran = await agentctl(['task', 'watch', id('task', 1)], {
    state: fake.stateDir,
    onTerminal: true,
  });
  assert.equal(ran.code, 0, ran.stdout);
  const drawn = ran.stdout.split(`${ESCAPE}J`).length - 1;
  assert.ok(drawn >= 3, `${drawn} times`);
  const screen = screenOf(ran.stdout);
  const planner = screen.filter((line) => /^\S* *planner\b/.test(line));
  assert.equal(planner.length, 1, screen.join('\n'));
  assert.match(planner[0]!, /completed/);
  assert.ok(!screen.join('\n').includes('working'), screen.join('\n'));
  assert.ok(screen.every((line) => line.length <= 80));
});

test('watch without a terminal appends lines and ends with the task', async () => {
  fake.script(teamScript({ trees: [working(), teamTree()] }));
  const ran = await run('task', 'watch');
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(
    ran.stdout,
    /^task_0*1\n[\s\S]*planner: working\n[\s\S]*planner: completed in 12 s\n\nA query/,
  );
  assert.ok(!ran.stdout.includes('\u001b'));
  fake.script(teamScript({ trees: [working(), teamTree()] }));
  const json = await run('task', 'watch', id('task', 1), '--json');
  const lines = json.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).task.status);
  assert.deepEqual(lines, ['working', 'completed', 'completed', 'completed']);
});

test('[K33] list, show and cancel', async () => {
  const script = teamScript();
  fake.script({
    ...script,
    agentd: {
      ...script.agentd,
      cancelTask: async () => ({ task: task(1, { status: 'canceled' }) }),
      getThread: async ({ params }) => ({
        thread: {
          context_id: params.id,
          turns: 3,
          turns_max: 40,
          stopped_by: null,
          next_move: { owner: 'person:*', task_id: id('task', 4), why: 'is asked' },
        },
      }),
      listTasks: async () => ({
        tasks: [task(1), task(2, { parent_task_id: id('task', 1) })],
        cursor: 'c9',
      }),
    },
  });
  const listed = await run('task', 'list', '--status', 'completed', '--limit', '2');
  assert.deepEqual(sent('listTasks')?.query, { status: 'completed', limit: 2 });
  assert.match(
    listed.stdout,
    /^ID +STATUS +AGENT +CREATED +GOAL\ntask_0*1 +completed +planner .* ago +Find/,
  );
  assert.match(listed.stdout, /↳ Find[^\n]*\nMore: --cursor c9\n$/);
  const page = documentOf<{ tasks: unknown[]; cursor: string }>(
    await run('task', 'list', '--json'),
  );
  assert.deepEqual([page.tasks.length, page.cursor], [2, 'c9']);
  const shown = await run('task', 'show', id('task', 1));
  assert.match(shown.stdout, /^task {8}task_0*1\n/);
  assert.match(shown.stdout, /created by {2}person:ada/);
  assert.match(shown.stdout, /thread +ctx_0*1, turn 3 of 40 between agents\n/);
  assert.match(shown.stdout, /next move +any person is asked \(task_0*4\)\n/);
  assert.match(shown.stdout, /run run_0*1 by planner: completed, woken 1 time\n/);
  assert.match(shown.stdout, /\nA query without an index\.\n\nThis was a rehearsal/);
  const canceled = await run('task', 'cancel', id('task', 1), '--reason', 'no need');
  assert.equal(canceled.stdout, `${id('task', 1)}: canceled\n`);
  assert.deepEqual(sent('cancelTask')?.body, { reason: 'no need' });
  assert.equal((await run('task', 'show', id('task', 77))).code, 5);
  assert.equal((await run('task', 'show', 'not-an-id')).code, 2);
});

test('explain prints text, or JSON with --json', async () => {
  fake.script(teamScript());
  const { stdout, code, stderr } = await run('task', 'explain', id('task', 1));
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^ +\+0\.0 s {2}person:ada asked planner for "Find out/);
  assert.match(stdout, /allowed by manifest planner allows task\.delegate/);
  assert.match(stdout, /│ {2}person:ada answered after 1\.0 s: "yes"/);
  assert.match(stdout, /3 tasks, 3 model calls, 5 tool calls, .*; a rehearsal responded/);
  const { explanation } = documentOf<{ explanation: { steps: { at: string; kind: string }[] } }>(
    await run('task', 'explain', id('task', 1), '--json'),
  );
  assert.equal(explanation.steps[0]?.at, '2026-06-29T18:00:00.000Z');
  assert.equal(explanation.steps.at(-1)?.kind, 'ended');
});

test('replay prints "same", or where it differs', async () => {
  const replay = {
    run_id: id<never>('run', 1),
    same: true,
    calls: 4,
    differences: [],
    result_same: true,
  };
  fake.script({ agentd: { replayTask: async () => ({ replay }) } });
  const same = await run('task', 'replay', id('task', 1));
  assert.deepEqual(
    [same.code, same.stdout],
    [0, `same  ${id('run', 1)}: 4 calls and the result\n`],
  );
  const differences = [{ at: 'step 2', expected: 'one', got: 'two' }];
  const other = { ...replay, same: false, differences, result_same: false };
  fake.script({ agentd: { replayTask: async () => ({ replay: other }) } });
  const differs = await run('task', 'replay', id('task', 1));
  assert.equal(differs.code, 1);
  assert.match(differs.stdout, /at step 2\n +recorded {2}one\n +now {7}two\nThe result differs/);
});

test('[K33] graph as a tree and for Graphviz', async () => {
  fake.script(teamScript());
  assert.match(
    (await run('task', 'graph', id('task', 1))).stdout,
    /└─ task_0*3 {2}coder: completed/,
  );
  assert.match((await run('task', 'graph', '--dot')).stdout, /^digraph tasks \{/);
});

test('show reports a model that does not respond while the task goes on', async () => {
  const script = teamScript();
  const failed = { ...modelCall(9, { status: 'failed', model: 'big' }) };
  const call = { ...failed, error: { message: 'could not be reached' } };
  const show = async (ended_at: string | null) => {
    fake.script({
      agentd: {
        ...script.agentd,
        getTask: async () => ({ task: task(1, { status: 'working', ended_at }) }),
        listRuns: async () => ({ runs: [], cursor: null }),
        listWaits: async () => ({ waits: [], cursor: null }),
      },
      modeld: {
        listCalls: async () => ({ calls: [call], cursor: null }),
        usage: async () => usage(25_000),
      },
      toold: { listCalls: async () => ({ calls: [toolCall(1)], cursor: null }) },
    });
    return (await run('task', 'show', id('task', 1))).stdout;
  };
  assert.match(await show(null), /took +3 steps, 1 tool call, 1,500 tokens, \$0\.0250/);
  assert.match(await show(null), /trouble +no response from model big: could not be reached/);
  assert.doesNotMatch(await show(at(1)), /trouble/);
});

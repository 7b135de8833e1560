// The commands for programs in boxes that exist already: list, logs, and removal.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  agentctl,
  documentOf,
  type RunAgentctlOptions,
} from '../../src/clients/agentctl/testing/run-agentctl.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

type Box = { task_id: string; name: string | null; status: string; workspace: string | null };

describe('commands for programs in boxes', { timeout: 120_000 }, () => {
  let runtime: TestRuntime;
  const dir = join(freshDir(), 'project');
  before(async () => {
    mkdirSync(dir);
    runtime = await startRuntime();
  });
  after(() => runtime.remove());

  const cli = (args: string[], options: RunAgentctlOptions = {}) =>
    agentctl(args, { state: runtime.stateDir, env: runtime.env, ...options });
  const list = async (...args: string[]): Promise<Box[]> =>
    documentOf<{ boxes: Box[] }>(await cli(['box', 'list', ...args, '--json'])).boxes;
  /** Does something while a program runs, which has to end it. */
  const meet = async (args: string[], work: () => Promise<unknown>): Promise<number | null> => {
    let done: Promise<unknown> | undefined;
    const ran = await cli(['box', 'run', ...args, '--', 'sh', '-c', 'echo ready; sleep 60'], {
      watch: ({ stdout }) => {
        if (stdout.includes('ready')) done ??= work();
        return undefined;
      },
    });
    await done;
    return ran.code;
  };

  it('list shows those that run, --all also those that have ended, in 80 columns', async () => {
    await cli(['box', 'run', '--workspace', dir, '--', 'true']);
    await cli(['task', 'create', 'rehearse something else']);
    await meet(['--name', 'mine'], async () => {
      const [box, ...others] = await list();
      assert.deepEqual(others, []);
      assert.deepEqual([box?.name, box?.status, box?.workspace], ['mine', 'running', null]);
      const all = await list('--all');
      assert.deepEqual(
        all.map(({ name, status, workspace }) => [name, status, workspace]),
        [
          ['mine', 'running', null],
          [null, 'completed', dir],
        ],
      );
      const { stdout } = await cli(['box', 'list', '--all'], { onTerminal: true });
      const lines = stdout.replaceAll(/\p{Cc}\[\d*m/gu, '').split(/\r?\n/);
      assert.match(lines[0]!, /^BOX +AGENT +STATUS +SINCE +COST +DIRECTORY +COMMAND$/);
      assert.match(lines[1]!, /^mine +box +running/);
      for (const line of lines) assert.ok(line.length <= 80, line);
      const removed = await cli(['box', 'rm', 'mine', '--force']);
      assert.match(
        removed.stdout,
        /: canceled\.\nThe home of the programs of box with the name mine/,
      );
    });
    assert.deepEqual(await list(), []);
  });

  it('logs shows what is recorded, and says what is not', async () => {
    const script = 'echo secret-output; exit 3';
    await cli(['box', 'run', '--name', 'logged', '--budget', '1', '--', 'sh', '-c', script]);
    const { code, stdout } = await cli(['box', 'logs', 'logged']);
    assert.equal(code, 0);
    for (const expected of [
      /^name +logged$/m,
      /^cost +\$0\.0000 of up to \$1\.0000$/m,
      /^end +failed \(the program exited with status 3\)/m,
      /got a box for its program: L2/,
      /What it printed and what was typed is not kept\./,
    ])
      assert.match(stdout, expected);
    const shown = documentOf<{ box: Box; events: { event: string }[] }>(
      await cli(['box', 'logs', 'logged', '--json']),
    );
    assert.equal(shown.box.name, 'logged');
    assert.ok(!JSON.stringify(shown.events).includes('secret-output'));
    assert.ok(shown.events.some(({ event }) => event === 'sandbox.closed'));
  });

  it('rm removes the home that ended programs left, and no other', async () => {
    const leave = ['--', 'sh', '-c', 'cat ~/file; echo left > ~/file'];
    const runs = [
      ['--name', 'one'],
      ['--name', 'two'],
    ];
    for (const name of runs) await cli(['box', 'run', ...name, ...leave]);
    const asked = await cli(['box', 'rm', 'one']);
    assert.equal(asked.code, 2);
    assert.match(asked.stderr, /box rm task_\w+ --force/);
    const homes = join(runtime.stateDir, 'homes');
    const before = readdirSync(homes).length;
    const answer = documentOf<{ task: TaskView; home: { id: string; removed: boolean } }>(
      await cli(['box', 'rm', 'one', '--force', '--json']),
    );
    assert.equal(answer.home.removed, true);
    assert.ok(!existsSync(join(homes, answer.home.id)));
    assert.equal(readdirSync(homes).length, before - 1);
    const reads: string[] = [];
    for (const name of runs) reads.push((await cli(['box', 'run', ...name, ...leave])).stdout);
    assert.deepEqual(reads, ['', 'left\n']);
    const event = await eventually('the event', async () => {
      const query = { event: 'data.pruned', limit: 10 };
      const { events } = await runtime.audit.events({ query });
      return events.find(({ data }) => data?.home === answer.home.id);
    });
    assert.match(event.principal ?? '', /^person:/);
  });

  it('exec runs a further command in the box, which ends with it and is in the log', async () => {
    const inBox = (...words: string[]) => cli(['exec', 'execed', '--', ...words]);
    let task = '';
    let last: ReturnType<typeof inBox> | undefined;
    await meet(['--name', 'execed'], async () => {
      task = (await list())[0]!.task_id;
      const script = 'cat; echo $OPENAI_BASE_URL; exit 5';
      const ran = await cli(['exec', 'execed', '--', 'sh', '-c', script], { stdin: 'typed\n' });
      assert.deepEqual([ran.code, ran.stderr], [5, '']);
      assert.match(ran.stdout, /^typed\nhttp:\/\/127\.0\.0\.1:3129\/\S+\n$/);
      const missing = await inBox('no-such-program');
      assert.notEqual(missing.code, 0);
      last = inBox('sh', '-c', 'echo here > /tmp/file; sleep 50');
      await eventually('a file of the other command', async () =>
        (await inBox('cat', '/tmp/file')).stdout === 'here\n' ? true : undefined,
      );
      await cli(['box', 'rm', 'execed', '--force']);
    });
    assert.equal((await last!).code, 137);
    const { events } = await runtime.audit.task({ params: { task_id: task }, query: {} });
    const commands = events.filter(({ event }) => event.startsWith('sandbox.command.'));
    assert.equal(commands[0]?.event, 'sandbox.command.attempted');
    assert.match(commands[0]?.principal ?? '', /^person:/);
    assert.ok(commands.some(({ data }) => data?.exit_code === 5));
    assert.ok(!JSON.stringify(commands).includes('OPENAI'));
    const gone = await inBox('true');
    assert.deepEqual([gone.code, gone.stdout], [1, '']);
    assert.match(gone.stderr, /has ended/);
  });

  it('a home that a running program has is not removed', async () => {
    const inDir = ['--workspace', dir];
    await cli(['box', 'run', ...inDir, '--', 'true']);
    const [ended] = await list('--all');
    await meet(inDir, async () => {
      const refused = await cli(['box', 'rm', ended!.task_id, '--force']);
      assert.equal(refused.code, 1);
      assert.match(refused.stderr, /a program that uses home_\w+ is running/);
      await cli(['box', 'rm', (await list())[0]!.task_id, '--force']);
    });
  });

  it('what is no program, or unknown, is an error with what to do', async () => {
    const { tasks } = await runtime.agentd.listTasks({ query: { agent: 'planner', limit: 1 } });
    const other = await cli(['box', 'logs', tasks[0]!.id]);
    assert.match(other.stderr, /is no program in a box/);
    const unknown = await cli(['box', 'rm', 'no-such-name']);
    assert.match(unknown.stderr, /no program in a box is named no-such-name/);
    const short = await cli(['box', 'logs', (await list('--all'))[0]!.task_id.slice(0, 24)]);
    assert.equal(short.code, 0, short.stderr);
  });
});

// SIGKILL of a person's program in its box, and of the runtime while one runs: it ends, its task
// says so, nothing is left on the host, and the next program of the same name has its home.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import { assertNothingLeft } from '../support/leftovers.ts';
import { eventually, startRuntime, type TestRuntime } from '../support/runtime.ts';

const MARKER = `program-${process.pid}-${Date.now()}`;
/** Leaves a file in its home, and a process beside the one that is killed. */
const SCRIPT = `cat ~/session 2>/dev/null; echo kept > ~/session
setsid sh -c ': ${MARKER}-beside; while :; do sleep 1; done' & echo ready; while :; do sleep 1; done`;

/** The host sees the processes of boxes too. */
const pidsOf = (marker: string): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const argv = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        // Not agentctl, which has the same words.
        return argv[0]?.endsWith('sh') && argv.some((word) => word.includes(marker));
      } catch {
        return false;
      }
    });

const gone = (): Promise<true> =>
  eventually('the end of its processes', async () =>
    pidsOf(MARKER).length === 0 ? true : undefined,
  );

describe('a program killed by SIGKILL', { timeout: 180_000 }, () => {
  let runtime: TestRuntime;
  before(async () => {
    runtime = await startRuntime();
  });
  after(() => runtime?.remove());

  const start = () => {
    const words = ['box', 'run', '--name', 'session', '--', 'sh', '-c', `: ${MARKER}; ${SCRIPT}`];
    const ready = Promise.withResolvers<string>();
    const ran = agentctl(words, {
      state: runtime.stateDir,
      env: runtime.env,
      watch: ({ stdout }) => {
        if (stdout.includes('ready')) ready.resolve(stdout);
        return undefined;
      },
    });
    void ran.then(({ stderr }) => ready.reject(new Error(stderr)));
    return { ran, ready: ready.promise };
  };
  const newest = (): Promise<TaskView> =>
    eventually('the end of its task', async () => {
      const { tasks } = await runtime.agentd.listTasks({ query: { limit: 1 } });
      return tasks[0]!.ended_at === null ? undefined : tasks[0]!;
    });
  const cancel = async (ran: Promise<unknown>): Promise<void> => {
    const { tasks } = await runtime.agentd.listTasks({ query: { limit: 1 } });
    await runtime.agentd.cancelTask({ params: { id: tasks[0]!.id }, body: {} });
    await ran;
  };

  it('itself: agentctl ends as a shell would, and what it started is gone with it', async () => {
    const { ran, ready } = start();
    assert.equal(await ready, 'ready\n');
    assert.equal(pidsOf(`${MARKER}-beside`).length >= 1, true, 'control: both are seen');
    const [pid] = pidsOf(`${MARKER};`);
    process.kill(pid!, 'SIGKILL');
    assert.equal((await ran).code, 137);
    const task = await newest();
    assert.deepEqual([task.status, task.reason], ['failed', 'the program was ended by SIGKILL']);
    await gone();
    await assertNothingLeft(runtime);
    const next = start();
    assert.equal(await next.ready, 'kept\nready\n');
    await cancel(next.ran);
  });

  it('with the runtime: said so, ended at the next start, and continued with its home', async () => {
    const { ran, ready } = start();
    await ready;
    await runtime.kill();
    const { code, stderr } = await ran;
    assert.notEqual(code, 0);
    assert.match(stderr, /connection to the program was lost; it has been ended/);
    await gone();
    runtime = await runtime.restart();
    const task = await newest();
    assert.equal(task.status, 'failed');
    assert.match(task.reason ?? '', /\S/);
    const listed = await agentctl(['box', 'list'], { state: runtime.stateDir, env: runtime.env });
    assert.match(listed.stdout, /No programs run/);
    const next = start();
    assert.equal(await next.ready, 'kept\nready\n');
    await cancel(next.ran);
    await assertNothingLeft(runtime);
  });
});

// Runners through sandboxd: every end is reported once, also one that arrives before the response
// to its start, and runners end with their sandboxd.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { silentLog } from '../../../platform/log.ts';
import { fault } from '../../../wire/errors.ts';
import type { RunnerEnd, RunnerEnded } from '../../../wire/sandboxd.ts';
import { makeSandboxLauncher, type RunExit } from './sandbox-launcher.ts';

type Sandboxd = Parameters<typeof makeSandboxLauncher>[0]['sandboxd'];

/** Records what it starts; die() simulates a restart. */
function fakeSandboxd() {
  let epoch = 'life_1';
  let last = 0;
  let isDown = false;
  let ends: RunnerEnded[] = [];
  let wake = Promise.withResolvers<void>();
  const started: { run_id: string; fence: number; mode: string }[] = [];
  const lines: string[] = [];
  const failures: Error[] = [];
  let beforeResponse = (): Promise<void> => Promise.resolve();
  const end = (run_id: string, how: Partial<RunnerEnd> = {}, fence = 1): void => {
    const whole = { code: 0, signal: null, ended_by: null, stderr_tail: '', ...how };
    ends.push({ seq: ++last, run_id, fence, mode: 'live', end: whole } as RunnerEnded);
    wake.resolve();
    wake = Promise.withResolvers();
  };
  const client = {
    async startRunner({ body }: { body: (typeof started)[number] }) {
      if (isDown) throw fault('unavailable', 'down');
      started.push(body);
      const life = epoch;
      await beforeResponse();
      return { pid: 7, epoch: life, sockets: { agentd: 'a', toold: 't', modeld: 'm' } };
    },
    async runnerEnds({ query }: { query: { after: number; epoch?: string } }) {
      if (isDown) throw fault('unavailable', 'down');
      if ((query.epoch ?? epoch) !== epoch) return { epoch, ends: [...ends] };
      ends = ends.filter(({ seq }) => seq > query.after);
      if (ends.length === 0) await wake.promise;
      if (isDown) throw fault('unavailable', 'disconnected');
      return { epoch, ends: [...ends] };
    },
    async tellRunner({ body }: { body: { line: string } }) {
      lines.push(body.line);
      return { told: true };
    },
    async endRunner({ params }: { params: { id: string } }) {
      const failure = failures.shift();
      if (failure !== undefined) throw failure;
      end(params.id, { code: null, signal: 9, ended_by: 'killed' });
      return { ended: true };
    },
    endRunners: async () => ({ ended: 3 }),
  };
  return {
    client: client as unknown as Sandboxd,
    started,
    lines,
    end,
    failures,
    before: (work: () => Promise<void>) => {
      beforeResponse = work;
    },
    die() {
      isDown = true;
      wake.resolve();
      wake = Promise.withResolvers();
      setTimeout(() => {
        isDown = false;
        epoch = 'life_2';
        ends = [];
        last = 0;
      }, 20);
    },
  };
}

const makePlan = (runId: string, onExit: (exit: RunExit) => void) => ({
  runId,
  fence: 1,
  mode: 'live' as const,
  agent: 'coder',
  taskId: 't',
  rootTaskId: 't',
  onExit,
});

describe('the sandbox launcher', () => {
  const start = async (runId: string, sandboxd = fakeSandboxd(), log = silentLog) => {
    const launcher = makeSandboxLauncher({ sandboxd: sandboxd.client, log });
    const exit = Promise.withResolvers<RunExit>();
    const launched = await launcher.start(makePlan(runId, exit.resolve));
    return { sandboxd, launcher, launched, exit: exit.promise };
  };

  it('starts, sends lines, and reports the exit with the name of the signal', async () => {
    const { sandboxd, launched, exit } = await start('run_1');
    assert.equal(launched.pid, 7);
    assert.deepEqual(launched.sockets, { agentd: 'a', toold: 't', modeld: 'm' });
    await launched.sendLine('go');
    assert.deepEqual(sandboxd.lines, ['go']);
    sandboxd.end('run_1', { code: null, signal: 11, stderr_tail: 'oh' });
    const expected = { code: null, signal: 'SIGSEGV', stderrTail: 'oh', wasKilled: false };
    assert.deepEqual(await exit, expected);
  });

  it('an end that arrives before the response to the start is not lost', async () => {
    const sandboxd = fakeSandboxd();
    const { launcher } = await start('run_0', sandboxd);
    sandboxd.before(async () => {
      sandboxd.end('run_1', { code: 70 });
      await new Promise((resolve) => setTimeout(resolve, 20));
    });
    const exit = Promise.withResolvers<RunExit>();
    await launcher.start(makePlan('run_1', exit.resolve));
    assert.equal((await exit.promise).code, 70);
    sandboxd.end('run_0');
  });

  it('runners end with their sandboxd, and that is no crash of the run', async () => {
    const { sandboxd, exit } = await start('run_1');
    sandboxd.die();
    assert.equal((await exit).wasKilled, true);
  });

  it('an end by the warden, a halt or a kill is no crash; one by a limit or unexplained is', async () => {
    for (const [ended_by, wasKilled] of [
      ['warden', true],
      ['halt', true],
      ['killed', true],
      ['memory', false],
      ['lost', false],
    ] as const) {
      const { sandboxd, exit } = await start('run_1');
      sandboxd.end('run_1', { code: null, signal: 9, ended_by });
      assert.equal((await exit).wasKilled, wasKilled, ended_by);
    }
  });

  it('kill resolves when the process has exited', async () => {
    const { launched, exit } = await start('run_1');
    await launched.kill('for a test');
    assert.equal((await exit).signal, 'SIGKILL');
  });

  it('kill retries while sandboxd fails, and logs unexpected errors', async () => {
    const sandboxd = fakeSandboxd();
    sandboxd.failures.push(fault('overloaded', 'busy'), fault('internal', 'a bug'));
    const logged: string[] = [];
    const log = { ...silentLog, error: (message: string) => void logged.push(message) };
    const { launched, exit } = await start('run_1', sandboxd, log);
    await launched.kill('for a test');
    assert.equal((await exit).signal, 'SIGKILL');
    assert.deepEqual(sandboxd.failures, []);
    assert.deepEqual(logged, ['ending a runner failed; retrying']);
  });

  it('kill resolves when sandboxd exits', async () => {
    const { sandboxd, launched, exit } = await start('run_1');
    sandboxd.failures.push(...Array.from({ length: 1_000 }, () => fault('unavailable', 'down')));
    sandboxd.die();
    await launched.kill('for a test');
    assert.equal((await exit).wasKilled, true);
  });

  it('start throws when it is refused', async () => {
    const sandboxd = fakeSandboxd();
    sandboxd.before(() => Promise.reject(fault('level_unavailable', 'no L2 here')));
    const launcher = makeSandboxLauncher({ sandboxd: sandboxd.client, log: silentLog });
    await assert.rejects(launcher.start(makePlan('run_1', () => {})), {
      code: 'level_unavailable',
    });
    assert.equal(await launcher.stopAll(), 3);
  });
});

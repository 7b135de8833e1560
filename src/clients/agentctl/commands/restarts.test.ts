// A runtime that dies: what agentctl up, down, status and doctor do and print about its restarts.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isAlive } from '../../../../test/support/processes.ts';
import { eventually } from '../../../../test/support/runtime.ts';
import { type AgentctlResult, agentctl, documentOf } from '../testing/run-agentctl.ts';
import { stubRuntime } from '../testing/stub-runtime.ts';

const { withState, ctl, main } = stubRuntime();

/** Kills the runtime, and gives its pid. */
function crash(state: string): number {
  const { pid } = JSON.parse(readFileSync(join(state, 'runtime.json'), 'utf8')) as { pid: number };
  process.kill(pid, 'SIGKILL');
  return pid;
}
/** Runs the command until it fits. */
const until = (state: string, words: string[], fits: (ran: AgentctlResult) => boolean) =>
  eventually(words.join(' '), async () => {
    const ran = await ctl(state, ...words);
    return fits(ran) ? ran : undefined;
  });

test('a crashed runtime is restarted, which status and doctor show', () =>
  withState(async (state) => {
    assert.equal((await ctl(state, 'up')).code, 0);
    assert.match((await ctl(state, 'doctor')).stdout, /ok {4}restarts {4}none; after a crash/);
    const first = crash(state);
    const { stdout } = await until(state, ['status'], ({ code }) => code === 0);
    assert.match(stdout, /restarts {5}1 restart after a crash; last .*: signal 9\n/);
    assert.doesNotMatch(stdout, new RegExp(`pid ${first}\\b`));
    const { status } = documentOf<{ status: { supervisor: Record<string, unknown> } }>(
      await ctl(state, 'status', '--json'),
    );
    assert.equal(status.supervisor.restarts, 1);
    assert.match((await ctl(state, 'doctor')).stdout, /warn {2}restarts {4}1 restart after a/);
    const argv = JSON.parse(readFileSync(join(state, 'argv'), 'utf8')) as string[];
    assert.deepEqual(argv.slice(-4), ['--restarts', '1', '--restarted-after', 'signal 9']);
    const supervisor = Number(status.supervisor.pid);
    assert.match((await ctl(state, 'down')).stdout, /^Stopped in/);
    assert.ok(!isAlive(supervisor));
  }));

test('between two starts, up is refused and down stops the restarts', () =>
  withState(async (state) => {
    assert.equal((await ctl(state, 'up', '--restarts', '100')).code, 0);
    writeFileSync(join(state, 'behave'), 'die');
    crash(state);
    const second = await until(state, ['up'], ({ code }) => code === 1);
    assert.match(second.stderr, /is in use: the runtime died \(.*\) and is being restarted/);
    const { code, stderr } = await ctl(state, 'status');
    assert.deepEqual([code, /is being restarted.*\(runtime_down\)/.test(stderr)], [6, true]);
    assert.match((await ctl(state, 'doctor')).stdout, /warn {2}runtime {5}.*is being restarted/);
    assert.match((await ctl(state, 'down')).stdout, /^Stopped in/);
    assert.match((await ctl(state, 'status')).stderr, /no runtime is running|does not respond/);
    rmSync(join(state, 'behave'));
    assert.equal((await ctl(state, 'up')).code, 0, 'and it can be started again');
  }));

test('a runtime in a crash loop is given up, which is reported until the next up', () =>
  withState(async (state) => {
    assert.equal((await ctl(state, 'up', '--restarts', '1')).code, 0);
    writeFileSync(join(state, 'behave'), 'die');
    crash(state);
    const words = /the runtime died 2 times in .*; last: exit status 1 \(runtime_down\)/;
    const { stderr } = await until(state, ['status'], (ran) => words.test(ran.stderr));
    assert.match(stderr, /logs\/runtime\.log.*agentctl up/);
    const doctor = await ctl(state, 'doctor');
    assert.match(doctor.stdout, /fail {2}runtime {5}the runtime died 2 times/);
    rmSync(join(state, 'behave'));
    assert.equal((await ctl(state, 'up')).code, 0);
    assert.equal((await ctl(state, 'status')).code, 0);
  }));

test('a killed supervisor leaves the runtime running; status reports it, and down works', () =>
  withState(async (state) => {
    assert.equal((await ctl(state, 'up')).code, 0);
    const file = join(state, 'supervisor.json');
    const { pid } = JSON.parse(readFileSync(file, 'utf8')) as { pid: number };
    process.kill(pid, 'SIGKILL');
    const words = /the supervisor \(pid \d+\) has died; a crash would not be repaired/;
    const { stdout } = await until(state, ['status'], (ran) => words.test(ran.stdout));
    assert.match(stdout, /agentctl down, then agentctl up/);
    assert.match((await ctl(state, 'doctor')).stdout, /warn {2}restarts {4}the supervisor/);
    assert.match((await ctl(state, 'up')).stdout, /already up/);
    assert.match((await ctl(state, 'down')).stdout, /^Stopped in/);
    assert.ok(existsSync(join(state, 'stopped')));
  }));

test('--no-restart leaves the runtime down after a crash', () =>
  withState(async (state) => {
    assert.equal((await ctl(state, 'up')).code, 0);
    await ctl(state, 'down');
    assert.equal((await ctl(state, 'up', '--no-restart')).code, 0);
    assert.ok(!existsSync(join(state, 'supervisor.json')));
    assert.match((await ctl(state, 'doctor')).stdout, /no {4}restarts {4}agentctl does not/);
    crash(state);
    assert.equal((await ctl(state, 'status')).code, 6);
    assert.match((await ctl(state, 'down')).stdout, /^No runtime is running/);
  }));

test('in the foreground a crash ends the command', () =>
  withState(async (state) => {
    let crashed = 0;
    const ran = await agentctl(['up', '--foreground'], {
      state,
      main: main(),
      watch: ({ stderr }) => {
        if (stderr.includes('Ctrl-C') && crashed === 0) crashed = crash(state);
        return undefined;
      },
    });
    assert.equal(ran.code, 70);
    assert.match(ran.stderr, /the runtime ended \(SIGKILL\) \(internal\)\nStart it again/);
  }));

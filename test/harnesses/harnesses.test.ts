// Claude Code, Codex and opencode, unmodified, in boxes and against the rehearsal: each edits a
// file and runs a command, hits its budget, is killed and started again, and is halted.
import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { delimiter, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { PROFILES } from '../../src/clients/agentctl/box/profiles/index.ts';
import {
  agentctl,
  type RunAgentctlOptions,
} from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { HARNESS_BIN, harnessesMissing, lockedVersion } from './programs.ts';

const BEFORE = 'a line before';
const AFTER = 'a line behind';
const ask = (command: string) =>
  `rehearse an edit of notes.txt: ${BEFORE} => ${AFTER}, then run ${command}`;

/** The processes with this word, but for agentctl; the host sees those of boxes too. */
const pidsOf = (word: string): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
        return words.includes(word) && !words.includes('--workspace');
      } catch {
        return false;
      }
    });

for (const profile of PROFILES.filter(({ round }) => round !== undefined))
  describe(`${profile.about} in a box`, { timeout: 180_000, skip: harnessesMissing }, () => {
    let runtime: TestRuntime;
    const dir = join(freshDir(), 'work');
    const notes = join(dir, 'notes.txt');
    before(async () => {
      mkdirSync(dir);
      chmodSync(dir, 0o755);
      runtime = await startRuntime();
    });
    after(() => runtime?.remove());

    const rewind = () => writeFileSync(notes, `${BEFORE}\n`);
    const options = (): RunAgentctlOptions => ({
      state: runtime.stateDir,
      env: { ...runtime.env, PATH: [HARNESS_BIN, process.env.PATH].join(delimiter) },
    });
    const run = (prompt: string, args: string[] = []) =>
      agentctl(
        [
          'box',
          'run',
          '--workspace',
          dir,
          ...args,
          '--',
          profile.commands[0]!,
          ...profile.round!(prompt),
        ],
        options(),
      );
    const newest = async () => {
      const { tasks } = await runtime.agentd.listTasks({ query: { limit: 1 } });
      return tasks[0]!;
    };
    const ended = () =>
      eventually('the end of the task', async () => {
        const task = await newest();
        return task.ended_at === null ? undefined : task;
      });

    /** Asks on in the last session, and finds what was said before in it. */
    const continues = async (): Promise<void> => {
      const words = ['box', 'run', '--workspace', dir, '--', profile.commands[0]!];
      const next = await agentctl([...words, ...profile.nextRound!('and now?')], options());
      assert.equal(next.code, 0, next.stderr);
      const { calls } = await runtime.modeld.listCalls({ query: { task_id: (await ended()).id } });
      const texts = await Promise.all(
        calls.map(async ({ call_id }) => {
          const { messages } = await runtime.modeld.getCall({ params: { id: call_id } });
          return JSON.stringify(messages);
        }),
      );
      assert.ok(texts.some((text) => text.includes(BEFORE) && text.includes('and now?')));
    };

    it('is the version of its profile', () => {
      const { name, version } = profile.package!;
      assert.equal(lockedVersion(name), version);
    });

    it('is found and tried by agentctl harness', async () => {
      const { stdout } = await agentctl(['harness', 'list'], options());
      assert.match(
        stdout,
        new RegExp(`${profile.name} .*${profile.package!.version.replaceAll('.', '\\.')}`),
      );
      const ran = await agentctl(['harness', 'test', profile.name], options());
      assert.match(ran.stdout, /works: it edited a file and ran a command/, ran.stderr);
      assert.equal(ran.code, 0);
    });

    it('edits a file and runs a command, and its calls are on record', async () => {
      rewind();
      const ran = await run(ask('wc -l notes.txt'));
      assert.equal(ran.code, 0, ran.stderr);
      assert.match(ran.stdout, /\[rehearsal\] The command said:[\s\S]*1 notes\.txt/);
      assert.equal(readFileSync(notes, 'utf8'), `${AFTER}\n`);
      const task = await ended();
      assert.equal(task.status, 'completed');
      assert.ok(!task.labels.includes('outside'), 'nothing came from outside');
      const { calls } = await runtime.modeld.listCalls({ query: { task_id: task.id } });
      assert.ok(calls.length >= 3, `${calls.length} calls`);
      for (const call of calls) assert.equal(call.status, 'completed');
    });

    it('continues its session in the same directory, and not in another', async () => {
      rewind();
      assert.equal((await run(ask('true'))).code, 0);
      await continues();
    });

    it('learns from its vendor’s error that its budget is used up', async () => {
      rewind();
      await runtime.modeld.setBudget({
        body: { subject: 'agent', name: 'box', tokens_limit: 100 },
      });
      const ran = await run(ask('true'), ['--max-time', '25s']);
      await runtime.modeld.setBudget({
        body: { subject: 'agent', name: 'box', tokens_limit: null },
      });
      assert.notEqual(ran.code, 0);
      assert.match(`${ran.stdout}${ran.stderr}`, /budget|Quota exceeded/);
      assert.equal(readFileSync(notes, 'utf8'), `${BEFORE}\n`);
    });

    it('killed by SIGKILL in the middle of a command, it continues its session', async () => {
      rewind();
      const prompt = ask('touch started; tail -f /dev/null');
      const killed = run(prompt);
      await eventually('the command', async () => existsSync(join(dir, 'started')) || undefined);
      rmSync(join(dir, 'started'));
      for (const pid of pidsOf(prompt)) process.kill(pid, 'SIGKILL');
      assert.equal((await killed).code, 137);
      assert.equal((await ended()).status, 'failed');
      await continues();
    });

    it('is killed and started again, and halted, in the middle of a command', async () => {
      rewind();
      const slow = 'touch started; tail -f /dev/null';
      const started = () =>
        eventually('the command', async () => existsSync(join(dir, 'started')) || undefined);
      const killed = run(ask(slow));
      await started();
      const { id } = await newest();
      await agentctl(['task', 'cancel', id], { state: runtime.stateDir, env: runtime.env });
      assert.equal((await killed).code, 137);
      assert.equal((await ended()).status, 'canceled');
      rmSync(join(dir, 'started'));
      rewind();
      const halted = run(ask(slow));
      await started();
      await agentctl(['halt'], { state: runtime.stateDir, env: runtime.env });
      assert.equal((await halted).code, 137);
      assert.match((await ended()).reason ?? '', /halt/);
      await agentctl(['unhalt'], { state: runtime.stateDir, env: runtime.env });
    });
  });

// Starts that must be refused, each with the reason: a state directory that is in use, newer, owned
// by others or broken, and paths too long for a socket.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import type { FaultBody } from '../../src/wire/errors.ts';
import {
  DAEMONS_WITH_STORE,
  entryCommand,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';

/** Starts the program and resolves with the reason it gives for refusing. */
function refusal(
  stateDir: string,
  { xdg, mode = 'embedded' }: { xdg?: string; mode?: 'embedded' | 'split' } = {},
): Promise<FaultBody & { exit: number | null }> {
  const runtimeBase = xdg ?? join(stateDir, '..', 'r');
  mkdirSync(runtimeBase, { recursive: true, mode: 0o700 });
  const [program = '', ...first] = entryCommand(mode);
  const argv = [...first, '--state', stateDir, '--mode', mode, '--ready-fd', '1'];
  const env = {
    PATH: process.env.PATH ?? '',
    XDG_RUNTIME_DIR: runtimeBase,
    AGENTD_KEEPER_DIR: join(runtimeBase, 'keeper'),
  };
  const child = spawn(program, argv, { env, stdio: ['ignore', 'pipe', 'ignore'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString('utf8');
    if (output.includes('"ready":true')) child.kill('SIGKILL');
  });
  return new Promise((resolve, reject) => {
    child.on('close', (exit) => {
      const line = JSON.parse(output.split('\n')[0] || '{}') as { error?: FaultBody };
      if (line.error === undefined) reject(new Error(`it started: ${output}`));
      else resolve({ ...line.error, exit });
    });
  });
}

/** Lists what ended runtimes left in the socket directory. */
const leftIn = (base: string): string[] => readdirSync(join(base, 'r', 'agentd'));

describe('a refused start', () => {
  let runtime: TestRuntime;
  let base: string;
  before(async () => {
    base = freshDir();
    runtime = await startRuntime({ base });
  });
  after(() => runtime.remove());

  for (const mode of ['embedded', 'split'] as const) {
    it(`a second runtime (${mode}) on one state directory learns which process holds it`, async () => {
      const why = await refusal(runtime.stateDir, { mode });
      assert.equal(why.code, 'state_in_use');
      assert.ok(why.message.includes(runtime.stateDir), why.message);
      assert.ok(why.message.includes(`pid ${runtime.info.pid}`), why.message);
      assert.match(why.hint, /--state/);
      assert.notEqual(why.exit, 0);
      const { task } = await runtime.agentd.createTask({ body: { goal: 'Go on', agent: 'coder' } });
      assert.equal(
        (await taskEnded(runtime, task.id)).status,
        'completed',
        'the first still works',
      );
    });
  }

  for (const mode of ['embedded', 'split'] as const) {
    it(`a start (${mode}) refused for invalid rules leaves nothing behind`, async () => {
      const own = freshDir();
      const policies = join(own, 's', 'policies');
      mkdirSync(policies, { recursive: true, mode: 0o700 });
      chmodSync(join(own, 's'), 0o700);
      writeFileSync(join(policies, '10-x.cedar'), 'forbid (');
      const why = await refusal(join(own, 's'), { mode });
      assert.equal(why.code, 'bad_config');
      assert.match(why.message, /10-x\.cedar/);
      assert.deepEqual(leftIn(own), []);
      rmSync(own, { recursive: true, force: true });
    });

    it(`a start (${mode}) whose first process fails leaves nothing behind`, async () => {
      const own = freshDir();
      mkdirSync(join(own, 's'), { mode: 0o700 });
      const config = { modeld: { screenplays_dir: join(own, 'none') } };
      writeFileSync(join(own, 's', 'agentd.yaml'), JSON.stringify(config));
      const why = await refusal(join(own, 's'), { mode });
      assert.match(why.message, /rehearsal/);
      assert.deepEqual(leftIn(own), []);
      rmSync(own, { recursive: true, force: true });
    });
  }

  it('two at the same time: one starts, the other is refused', async () => {
    const together = freshDir();
    const all = await Promise.allSettled([
      startRuntime({ base: together }),
      startRuntime({ base: together }),
    ]);
    const won = all.filter((result) => result.status === 'fulfilled');
    const lost = all.filter((result) => result.status === 'rejected');
    assert.equal(won.length, 1);
    assert.equal((lost[0]!.reason as { code?: string }).code, 'state_in_use');
    await won[0]!.value.remove();
  });

  describe('with a state directory', () => {
    const state = (): string => {
      const dir = join(freshDir(), 'state');
      mkdirSync(dir, { mode: 0o700 });
      return dir;
    };
    const used: string[] = [];
    const make = (): string => {
      const dir = state();
      used.push(join(dir, '..'));
      return dir;
    };
    after(() => {
      for (const dir of used) rmSync(dir, { recursive: true, force: true });
    });

    it('written by a newer version is refused, and leaves it unchanged', async () => {
      const dir = make();
      writeFileSync(join(dir, 'VERSION'), '999\n');
      const why = await refusal(dir);
      assert.equal(why.code, 'state_newer');
      assert.equal(why.exit, 78);
      assert.match(why.message, /999/);
      assert.equal(readFileSync(join(dir, 'VERSION'), 'utf8'), '999\n');
    });

    // auditd-ai's database is only an index, which is rebuilt from the log.
    for (const name of DAEMONS_WITH_STORE.filter((daemon) => daemon !== 'auditd-ai')) {
      it(`with a ${name} database of a newer version is refused`, async () => {
        const dir = make();
        const db = new DatabaseSync(join(dir, `${name}.sqlite`));
        db.exec('PRAGMA user_version = 999');
        db.close();
        const why = await refusal(dir);
        assert.equal(why.code, 'state_newer');
        assert.ok(why.message.includes(`${name}.sqlite`), why.message);
        assert.match(
          why.message,
          /written by a newer agentd \(version 999, this one supports \d+\)/,
        );
      });
    }

    it('with a damaged database is refused, and names it', async () => {
      const dir = make();
      writeFileSync(join(dir, 'agentd.sqlite'), 'not a database, but long enough '.repeat(200));
      const why = await refusal(dir);
      assert.equal(why.code, 'storage_broken');
      assert.match(why.message, /agentd\.sqlite/);
    });

    it('that others may enter is refused, with the command that fixes it', async () => {
      const dir = make();
      chmodSync(dir, 0o755);
      const why = await refusal(dir);
      assert.equal(why.code, 'bad_config');
      assert.match(why.hint, /chmod 700/);
    });

    it('with an invalid configuration is refused with line and nearest key', async () => {
      const dir = make();
      writeFileSync(join(dir, 'agentd.yaml'), 'agentd:\n  runs_live_mx: 3\n');
      const why = await refusal(dir);
      assert.equal(why.code, 'bad_config');
      assert.match(why.message, /agentd\.yaml:2: unknown key agentd\.runs_live_mx/);
      assert.match(why.hint, /runs_live_max/);
    });

    it('whose key others may read is refused', async () => {
      const dir = make();
      writeFileSync(join(dir, 'operator.key'), `${'k'.repeat(43)}\n`, { mode: 0o644 });
      chmodSync(join(dir, 'operator.key'), 0o644);
      assert.match((await refusal(dir)).hint, /chmod 600/);
    });

    it('with a runtime path too long for a socket is refused, and names what to shorten', async () => {
      const dir = make();
      const why = await refusal(dir, { xdg: join(dir, 'x'.repeat(60)) });
      assert.equal(why.code, 'path_too_long');
      assert.match(why.hint, /XDG_RUNTIME_DIR/);
    });
  });
});

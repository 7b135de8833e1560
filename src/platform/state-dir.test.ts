// The state directory is private, of our version, and locked by one runtime; paths fit a socket.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { DAEMONS, RUN_DAEMONS } from '../wire/daemons.ts';
import { socketPathFor } from './daemon.ts';
import { assertSocketPath } from './http-server.ts';
import { tryLock, waitForLock } from './lock.ts';
import {
  defaultStateDir,
  makePrivateDir,
  makeRuntimeDir,
  prepareStateDir,
  readRuntimeInfo,
  runtimeDirFor,
  STATE_VERSION,
  writeAtomically,
} from './state-dir.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-s-'));
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;
const fresh = () => join(dir, `d${made++}`);

describe('state-dir: the directory', () => {
  it('is made with its subdirectories, all private', () => {
    const state = join(fresh(), 'deep', 'state');
    prepareStateDir(state);
    prepareStateDir(state);
    for (const name of ['', 'audit', 'objects', 'logs', 'agents'])
      assert.equal(statSync(join(state, name)).mode & 0o777, 0o700, name);
    assert.equal(readFileSync(join(state, 'VERSION'), 'utf8'), `${STATE_VERSION}\n`);
  });

  it('is refused when a newer version wrote it, and nothing in it is changed', () => {
    const state = fresh();
    mkdirSync(state, { mode: 0o700 });
    writeFileSync(join(state, 'VERSION'), `${STATE_VERSION + 1}\n`);
    assert.throws(
      () => prepareStateDir(state),
      (error: { code: string; message: string }) => {
        assert.equal(error.code, 'state_newer');
        assert.ok(error.message.includes(state));
        return true;
      },
    );
    assert.equal(readFileSync(join(state, 'VERSION'), 'utf8'), `${STATE_VERSION + 1}\n`);
    assert.equal(existsSync(join(state, 'audit')), false);
  });

  it('is refused when its version cannot be read', () => {
    for (const text of ['', 'x', '1.5', '-1', '0', '1\n2']) {
      const state = fresh();
      mkdirSync(state, { mode: 0o700 });
      writeFileSync(join(state, 'VERSION'), text);
      assert.throws(() => prepareStateDir(state), { code: 'storage_broken' }, JSON.stringify(text));
    }
  });

  it('is refused when others may enter it, with the command that corrects it', () => {
    const state = fresh();
    mkdirSync(state);
    for (const mode of [0o755, 0o710, 0o701, 0o770]) {
      chmodSync(state, mode);
      assert.throws(
        () => makePrivateDir(state),
        (error: { code: string; hint: string }) => {
          assert.equal(error.code, 'bad_config');
          assert.equal(error.hint, `chmod 700 ${state}`);
          return true;
        },
      );
    }
  });

  it('is refused when it is a link, a file', () => {
    const [target, link, file] = [fresh(), fresh(), fresh()];
    mkdirSync(target, { mode: 0o700 });
    symlinkSync(target, link);
    assert.throws(() => makePrivateDir(link), { code: 'bad_config' });
    writeFileSync(file, '');
    assert.throws(() => makePrivateDir(file), { code: 'bad_config' });
  });

  const isRoot = process.getuid?.() === 0;
  it('is refused when another user owns it', { skip: isRoot ? false : 'needs root' }, () => {
    const state = fresh();
    mkdirSync(state, { mode: 0o700 });
    chownSync(state, 12_345, 12_345);
    assert.throws(() => makePrivateDir(state), { code: 'bad_config' });
  });

  it('follows the environment', () => {
    assert.equal(defaultStateDir({ AGENTD_STATE: '/a/b' }), '/a/b');
    assert.equal(defaultStateDir({ XDG_STATE_HOME: '/x', HOME: '/h' }), '/x/agentd');
    assert.equal(defaultStateDir({ AGENTD_STATE: '', HOME: '/h' }), '/h/.local/state/agentd');
  });

  it('writes files atomically', () => {
    const file = fresh();
    writeAtomically(file, 'one');
    writeAtomically(file, 'two');
    assert.equal(readFileSync(file, 'utf8'), 'two');
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(existsSync(`${file}.${process.pid}.tmp`), false);
  });

  it('reads which runtime uses it, if it can', () => {
    const state = fresh();
    mkdirSync(state, { mode: 0o700 });
    assert.equal(readRuntimeInfo(state), undefined);
    writeFileSync(join(state, 'runtime.json'), '{"pid": 12');
    assert.equal(readRuntimeInfo(state), undefined);
    writeFileSync(join(state, 'runtime.json'), '{"pid": 12}');
    assert.equal(readRuntimeInfo(state)?.pid, 12);
  });
});

describe('state-dir: the runtime path', () => {
  it('is the same for every spelling of the state directory', () => {
    const state = fresh();
    mkdirSync(state, { mode: 0o700 });
    const link = fresh();
    symlinkSync(state, link);
    const env = { XDG_RUNTIME_DIR: '/run/user/1' };
    assert.equal(runtimeDirFor(link, env), runtimeDirFor(state, env));
    assert.match(runtimeDirFor(state, env), /^\/run\/user\/1\/agentd\/[0-9a-f]{8}$/);
    assert.notEqual(runtimeDirFor(state, env), runtimeDirFor(fresh(), env));
  });

  it('is refused when a socket path would be too long, and accepted when every one fits', () => {
    const id = `run_${'0'.repeat(26)}.99999`;
    let taken = 0;
    for (let length = 10; length < 90; length++) {
      const env = { XDG_RUNTIME_DIR: `/${'x'.repeat(length - 1)}` };
      let path: string;
      try {
        path = runtimeDirFor('/nowhere', env);
      } catch (error) {
        assert.equal((error as { code: string }).code, 'path_too_long');
        continue;
      }
      taken++;
      for (const daemon of DAEMONS)
        for (const caller of ['operator', ...DAEMONS.map((name) => `peer-${name}`)])
          assertSocketPath(socketPathFor(path, daemon, caller));
      for (const daemon of RUN_DAEMONS)
        for (const caller of [id, `${id}r`]) assertSocketPath(socketPathFor(path, daemon, caller));
    }
    assert.ok(taken > 10 && taken < 80);
  });
});

describe('state-dir: the runtime directory', () => {
  it('is made private below a directory of ours', () => {
    const runtime = join(fresh(), 'agentd', '01234567');
    assert.equal(makeRuntimeDir(runtime), runtime);
    assert.equal(statSync(join(runtime, '..')).mode & 0o777, 0o700);
  });

  it('is refused where another user could replace it', () => {
    const base = fresh();
    mkdirSync(base);
    chmodSync(base, 0o777);
    assert.throws(() => makeRuntimeDir(join(base, '01234567')), { code: 'bad_config' });
  });
});

describe('state-dir: the lock', () => {
  it('is held by one, and free again after its release', async () => {
    const file = fresh();
    const lock = tryLock(file);
    assert.ok(lock !== undefined);
    assert.equal(tryLock(file), undefined);
    assert.equal(await waitForLock(file, 60), undefined);
    const waiting = waitForLock(file, 5_000);
    lock.release();
    const next = await waiting;
    assert.ok(next !== undefined);
    next.release();
  });

  it('throws if the file cannot be locked at all', () => {
    const file = fresh();
    writeFileSync(file, 'this is not a lock file');
    assert.throws(() => tryLock(file), { code: 'storage_broken' });
  });

  it('is freed by the kernel when its holder is killed', async () => {
    const file = fresh();
    const code = `import { tryLock } from ${JSON.stringify(join(import.meta.dirname, 'lock.ts'))};
      console.log(tryLock(${JSON.stringify(file)}) !== undefined); setInterval(() => {}, 1000);`;
    const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const output = await new Promise<string>((resolve) =>
      child.stdout.once('data', (c) => resolve(`${c}`)),
    );
    assert.equal(output.trim(), 'true');
    assert.equal(tryLock(file), undefined, 'another process holds it');
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await exited;
    const lock = await waitForLock(file, 5_000);
    assert.ok(lock !== undefined);
    lock.release();
  });
});

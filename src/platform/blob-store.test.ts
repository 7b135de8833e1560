// Blobs on a real disk: stored once, verified when read, never partial after a full disk or a kill.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Fault } from '../wire/errors.ts';
import { openBlobStore } from './blob-store.ts';
import { sha256Hex } from './json.ts';

function freshDir(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'blobs-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return join(dir, 'objects');
}

const pathFor = (dir: string, hash: string) =>
  join(dir, 'sha256', hash.slice(0, 2), hash.slice(2, 4), hash);

function filesUnder(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

const hasCode = (code: string) => (error: unknown) => error instanceof Fault && error.code === code;

test('a blob is read back by its hash, also from a new store', async (t) => {
  const dir = freshDir(t);
  const store = await openBlobStore({ dir });
  const bytes = Buffer.from([0, 255, 10, 13, 128]);
  const { hash, sizeBytes } = await store.put(bytes);
  assert.equal(hash, sha256Hex(bytes));
  assert.equal(sizeBytes, 5);
  assert.deepEqual(await store.get(hash), bytes);
  assert.deepEqual(filesUnder(dir), [pathFor(dir, hash)]);
  const again = await openBlobStore({ dir });
  assert.deepEqual(await again.get(hash), bytes);
  assert.equal(statSync(pathFor(dir, hash)).mode & 0o077, 0);
});

test('a blob can be stored again after its directory was removed', async (t) => {
  const dir = freshDir(t);
  const store = await openBlobStore({ dir });
  const { hash } = await store.put(Buffer.from('a'));
  rmSync(join(dir, 'sha256', hash.slice(0, 2)), { recursive: true });
  await store.put(Buffer.from('a'));
  assert.equal((await store.get(hash)).toString(), 'a');
});

test('an empty blob can be stored', async (t) => {
  const store = await openBlobStore({ dir: freshDir(t) });
  const { hash } = await store.put(new Uint8Array());
  assert.equal((await store.get(hash)).length, 0);
});

test('the same bytes are stored once, also by concurrent callers', async (t) => {
  const dir = freshDir(t);
  let writes = 0;
  const store = await openBlobStore({
    dir,
    write: async (file, bytes) => {
      writes++;
      await file.writeFile(bytes);
    },
  });
  const bytes = Buffer.alloc(100_000, 'x');
  const results = await Promise.all(Array.from({ length: 20 }, () => store.put(bytes)));
  await store.put(bytes);
  assert.equal(new Set(results.map(({ hash }) => hash)).size, 1);
  assert.equal(writes, 1);
  assert.equal(filesUnder(dir).length, 1);
});

test('reading a damaged blob fails; storing it again repairs it', async (t) => {
  const dir = freshDir(t);
  const store = await openBlobStore({ dir });
  const { hash } = await store.put(Buffer.from('the truth'));
  for (const damage of ['the tru', 'the trutH', 'the truth and more', '']) {
    chmodSync(pathFor(dir, hash), 0o600);
    writeFileSync(pathFor(dir, hash), damage);
    await assert.rejects(store.get(hash), hasCode('storage_broken'));
    await store.put(Buffer.from('the truth'));
    assert.equal((await store.get(hash)).toString(), 'the truth');
  }
});

test('a missing blob is not found; a name that is no hash is rejected', async (t) => {
  const store = await openBlobStore({ dir: freshDir(t) });
  const missing = sha256Hex('never stored');
  await assert.rejects(store.get(missing), hasCode('not_found'));
  for (const bad of ['', '../../etc/passwd', missing.toUpperCase(), `${missing}/..`]) {
    await assert.rejects(store.get(bad), hasCode('bad_request'));
  }
});

test('a full disk is a fault, leaves nothing behind, and the next put succeeds', async (t) => {
  const dir = freshDir(t);
  let full = true;
  const store = await openBlobStore({
    dir,
    write: async (file, bytes) => {
      if (!full) return file.writeFile(bytes);
      await file.writeFile(bytes.subarray(0, bytes.length / 2));
      throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
    },
  });
  const bytes = Buffer.alloc(10_000, 'y');
  const results = await Promise.allSettled([store.put(bytes), store.put(bytes)]);
  for (const result of results) {
    assert.ok(result.status === 'rejected' && hasCode('storage_full')(result.reason));
  }
  assert.deepEqual(filesUnder(dir), []);
  full = false;
  const { hash } = await store.put(bytes);
  assert.deepEqual(await store.get(hash), bytes);
});

test('a directory that cannot be used is a fault when opening', async (t) => {
  const dir = freshDir(t);
  writeFileSync(dir, 'a file');
  await assert.rejects(openBlobStore({ dir }), hasCode('storage_broken'));
});

test('partial files of a previous process are removed when opening', async (t) => {
  const dir = freshDir(t);
  mkdirSync(join(dir, 'half'), { recursive: true });
  writeFileSync(join(dir, 'half', 'abc'), 'half a bl');
  await openBlobStore({ dir });
  assert.deepEqual(filesUnder(dir), []);
});

const writer = `
  const { openBlobStore } = await import(process.argv[1]);
  const store = await openBlobStore({ dir: process.argv[2] });
  for (let i = 0; ; i++) {
    const { hash } = await store.put(Buffer.alloc(300_000 + i, process.argv[3] + i));
    process.stdout.write(hash + '\\n');
  }`;

test('after a kill every blob is complete and every acknowledged one exists', async (t) => {
  const dir = freshDir(t);
  for (let round = 0; round < 4; round++) {
    const child = spawn(
      process.execPath,
      [
        '--input-type=module',
        '-e',
        writer,
        '--',
        import.meta.resolve('./blob-store.ts'),
        dir,
        `${round}`,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'], env: {} },
    );
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (output.length > 65 * (2 + round)) child.kill('SIGKILL');
    });
    await once(child, 'close');
    assert.equal(child.signalCode, 'SIGKILL');
    const store = await openBlobStore({ dir });
    const acknowledged = output.split('\n').slice(0, -1);
    assert.ok(acknowledged.length > 0);
    for (const hash of acknowledged) await store.get(hash);
    for (const file of filesUnder(dir)) {
      assert.equal(sha256Hex(readFileSync(file)), basename(file));
    }
  }
});

test('a blob in use is not removed, and one being removed is not used', async (t) => {
  const dir = freshDir(t);
  const store = await openBlobStore({ dir });
  const bytes = Buffer.from('shared');
  const { hash } = await store.put(bytes);
  const gate = Promise.withResolvers<void>();
  const use = store.whileUsed(hash, () => gate.promise);
  assert.equal(await store.remove(hash, async () => true), false, 'in use');
  gate.resolve();
  await use;
  assert.equal(await store.remove(hash, async () => false), false, 'a row refers to it');
  assert.deepEqual(await store.get(hash), bytes);

  const order: string[] = [];
  const asked = Promise.withResolvers<void>();
  const removal = store
    .remove(hash, async () => {
      await asked.promise;
      return true;
    })
    .then(() => order.push('removed'));
  const again = store.whileUsed(hash, async () => {
    order.push('stored');
    await store.put(bytes);
  });
  asked.resolve();
  await Promise.all([removal, again]);
  assert.deepEqual(order, ['removed', 'stored']);
  assert.deepEqual(await store.get(hash), bytes, 'stored again after its removal');
  assert.equal(await store.remove(hash, async () => true), true);
  assert.deepEqual(filesUnder(dir), []);
  assert.equal(await store.remove(hash, async () => true), true, 'also if it is gone already');
});

test('property: blobs that are stored and removed at once are there whenever a row says so', async (t) => {
  const store = await openBlobStore({ dir: freshDir(t) });
  const rows = new Map<string, number>();
  const count = (hash: string) => rows.get(hash) ?? 0;
  const save = (n: number) => {
    const bytes = Buffer.from(`content ${n}`);
    const hash = sha256Hex(bytes);
    return store.whileUsed(hash, async () => {
      await store.put(bytes);
      rows.set(hash, count(hash) + 1);
    });
  };
  const drop = async (n: number) => {
    const hash = sha256Hex(Buffer.from(`content ${n}`));
    if (count(hash) > 0) rows.set(hash, count(hash) - 1);
    await store.remove(hash, async () => count(hash) === 0);
  };
  const jobs: Promise<unknown>[] = [];
  for (let i = 0; i < 400; i++) jobs.push((i * 7) % 3 === 0 ? drop(i % 5) : save(i % 5));
  await Promise.all(jobs);
  for (const [hash, n] of rows) if (n > 0) await store.get(hash);
  assert.ok([...rows.values()].some((n) => n > 0));
});

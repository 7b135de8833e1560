// Tests boxfs under the sanitizers, through its client: operations, refusals, and that a path never
// leads out of its root, however the tree changes meanwhile.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { startBoxfs } from '../../../../test/support/boxfs.ts';
import { eventually } from '../../../../test/support/runtime.ts';
import { systemClock } from '../../../platform/clock.ts';
import { Fault } from '../../../wire/errors.ts';
import {
  files,
  inWork,
  logs,
  outside,
  read,
  reason,
  setUpEachTest,
  started,
  work,
} from '../testing/boxfs-files.ts';
import { boxfsArgs, locateInRoots, openBoxfs } from './boxfs-client.ts';
import { HEADER_BYTES } from './boxfs-wire.ts';

const sha256 = (text: string | Buffer) => createHash('sha256').update(text).digest('hex');

const write = (name: string, content: string, more: object = {}) =>
  files.perform({ op: 'write', path: inWork(name), content, ...more });

setUpEachTest();

describe('reading', () => {
  it('returns text with its hash, in pages that never split a character', async () => {
    const text = 'naïve 日本語 👩‍👩‍👧\n'.repeat(50);
    writeFileSync(inWork('a.txt'), text);
    const whole = await read('a.txt');
    assert.equal(whole.content, text);
    assert.equal(whole.sha256, sha256(text));
    assert.equal(whole.real_path, inWork('a.txt'));
    let pages = '';
    for (let offset = 0; offset < whole.size_bytes; ) {
      const ask = { op: 'read', path: inWork('a.txt'), offset, length: 7 } as const;
      const page = await files.perform(ask);
      assert.equal(page.encoding, 'utf8');
      pages += page.content;
      offset += page.bytes;
    }
    assert.equal(pages, text);
  });

  it('returns content that is not text as base64, and the end when read from the end', async () => {
    const bytes = Buffer.from([0, 255, 1, 254]);
    writeFileSync(inWork('b'), bytes);
    const found = await read('b');
    assert.deepEqual([found.encoding, found.content], ['base64', bytes.toString('base64')]);
    const ask = { op: 'read', path: logs, from_end: true, offset: 4 } as const;
    assert.equal((await files.perform(ask)).content, 'two\n');
  });

  it('refuses anything but a regular file, and never blocks on a pipe', async () => {
    execFileSync('mkfifo', [inWork('pipe')]);
    await assert.rejects(read('pipe'), reason('not_regular'));
    await assert.rejects(read('.'), reason('is_directory'));
    await assert.rejects(read('none'), reason('not_found'));
    const device = files.perform({ op: 'read', path: '/dev/zero' });
    await assert.rejects(device, reason('outside'));
  });

  it('computes the standard SHA-256 for any length', async () => {
    for (const size of [0, 1, 55, 56, 63, 64, 65, 119, 120, 65_535, 65_536, 200_001]) {
      const bytes = Buffer.alloc(size, 'ab');
      writeFileSync(inWork('h'), bytes);
      assert.equal((await read('h')).sha256, sha256(bytes), `${size} bytes`);
    }
  });
});

describe('a path stays in its root', () => {
  const ways: Record<string, () => void> = {
    'a link to a file outside': () => symlinkSync(join(outside, 'secret'), inWork('way')),
    'a relative link out': () => symlinkSync('../outside/secret', inWork('way')),
    'a link in the middle': () => symlinkSync('../outside', inWork('dir')),
    'a link to a link': () => {
      symlinkSync('../outside', inWork('other'));
      symlinkSync('other/secret', inWork('way'));
    },
    'a magic link': () => symlinkSync('/proc/self/root', inWork('dir')),
  };
  for (const [name, make] of Object.entries(ways)) {
    it(`${name} is refused for reading, writing, listing, searching and deleting`, async () => {
      make();
      const path = inWork(existsSync(inWork('dir')) ? 'dir/secret' : 'way');
      // The control: without boxfs the same path leads out.
      if (!name.includes('magic')) assert.equal(readFileSync(path, 'utf8'), 'secret\n');
      await assert.rejects(files.perform({ op: 'read', path }), reason('outside'));
      const writing = files.perform({ op: 'write', path, content: 'x' });
      await assert.rejects(writing, Fault);
      const through = path.includes('/dir/') ? inWork('dir') : path;
      await assert.rejects(files.perform({ op: 'list', path: through }), Fault);
      await assert.rejects(files.perform({ op: 'search', path: through, pattern: 's' }), Fault);
      assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'secret\n');
    });
  }

  it('.. out of the root is refused, .. inside it is not', async () => {
    mkdirSync(inWork('d'));
    writeFileSync(inWork('a'), 'a');
    assert.equal((await files.perform({ op: 'read', path: `${work}/d/../a` })).content, 'a');
    const path = `${work}/../outside/secret`;
    await assert.rejects(files.perform({ op: 'read', path }), reason('outside'));
  });

  it('links inside the root are followed for reading, never written through', async () => {
    writeFileSync(inWork('real'), 'real');
    symlinkSync('real', inWork('link'));
    const found = await read('link');
    assert.deepEqual([found.content, found.real_path], ['real', inWork('real')]);
    await assert.rejects(write('link', 'x'), reason('is_link'));
  });

  it('a directory that becomes a link while in use never leads out', async () => {
    mkdirSync(inWork('d'));
    writeFileSync(inWork('d/secret'), 'mine\n');
    const swap = () => {
      renameSync(inWork('d'), inWork('e'));
      symlinkSync('../outside', inWork('d'));
    };
    const back = () => {
      rmSync(inWork('d'));
      renameSync(inWork('e'), inWork('d'));
    };
    const seen = new Set<string>();
    for (let i = 0; i < 200; i++) {
      const asked = [read('d/secret'), write('d/new', 'x'), read('d/secret')];
      swap();
      for (const one of await Promise.allSettled(asked)) {
        if (one.status === 'fulfilled' && 'content' in one.value) seen.add(one.value.content);
      }
      back();
    }
    assert.ok(!seen.has('secret\n'));
    assert.deepEqual(readdirSync(outside), ['secret']);
  });

  it('a root that is one file is that file, and nothing beside it', async () => {
    assert.equal((await files.perform({ op: 'read', path: logs })).content, 'one\ntwo\n');
    await assert.rejects(files.perform({ op: 'read', path: `${logs}/x` }), reason('not_directory'));
    const writing = files.perform({ op: 'write', path: logs, content: 'x' });
    await assert.rejects(writing, reason('read_only'));
    const deleting = files.perform({ op: 'delete', path: logs });
    await assert.rejects(deleting, reason('read_only'));
  });
});

describe('writing', () => {
  it('is atomic, keeps the mode, leaves nothing beside it', async () => {
    writeFileSync(inWork('run.sh'), 'old');
    chmodSync(inWork('run.sh'), 0o750);
    const done = await write('run.sh', 'new');
    assert.deepEqual([done.created, done.unchanged, done.sha256], [false, false, sha256('new')]);
    assert.equal(readFileSync(inWork('run.sh'), 'utf8'), 'new');
    assert.equal(statSync(inWork('run.sh')).mode & 0o777, 0o750);
    const made = await write('deep/er/x', 'x', { make_parents: true, executable: true });
    assert.equal(made.created, true);
    assert.equal(statSync(inWork('deep/er/x')).mode & 0o100, 0o100);
    assert.deepEqual(readdirSync(work), ['deep', 'run.sh']);
    await assert.rejects(write('none/x', 'x'), reason('not_found'));
  });

  it('replaces a hard link instead of writing into its other name', async () => {
    linkSync(join(outside, 'secret'), inWork('hard'));
    await write('hard', 'mine');
    assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'secret\n');
  });

  it('refuses when the file is not what the writer saw, and says so', async () => {
    writeFileSync(inWork('a'), 'one');
    const expected = { expected_sha256: sha256('one') };
    await write('a', 'two', expected);
    await assert.rejects(write('a', 'three', expected), reason('conflict'));
    assert.equal(readFileSync(inWork('a'), 'utf8'), 'two');
    // Repeated, the same write finds its own result.
    assert.equal((await write('a', 'two', expected)).unchanged, true);
    await assert.rejects(write('gone', 'x', expected), reason('conflict'));
  });

  it('create_only creates a file once', async () => {
    const more = { create_only: true };
    assert.equal((await write('n', 'one', more)).created, true);
    assert.equal((await write('n', 'one', more)).unchanged, true);
    await assert.rejects(write('n', 'two', more), reason('exists'));
    assert.equal(readFileSync(inWork('n'), 'utf8'), 'one');
  });

  it('two writers with the same view: one wins, the other gets a conflict', async () => {
    const roots = [{ path: work, writable: true }];
    const other = startBoxfs(boxfsArgs(roots), 'sanitized');
    const second = await openBoxfs({ stream: other.stream, roots, clock: systemClock() });
    try {
      for (let round = 0; round < 30; round++) {
        writeFileSync(inWork('shared'), `start ${round}`);
        const expected_sha256 = sha256(`start ${round}`);
        const path = inWork('shared');
        const both = await Promise.allSettled(
          [files, second].map((one, i) =>
            one.perform({ op: 'write', path, content: `${i} of ${round}`, expected_sha256 }),
          ),
        );
        const won = both.findIndex(({ status }) => status === 'fulfilled');
        assert.equal(both.filter(({ status }) => status === 'fulfilled').length, 1);
        assert.equal(readFileSync(path, 'utf8'), `${won} of ${round}`);
      }
    } finally {
      second.close();
      await other.stop();
    }
  });

  it('refuses a directory, a name that is too long, the root itself', async () => {
    await assert.rejects(write('.', 'x'), reason('is_directory'));
    await assert.rejects(write('n'.repeat(256), 'x'), reason('bad_name'));
    mkdirSync(inWork('d'));
    await assert.rejects(write('d', 'x'), reason('is_directory'));
    const up = files.perform({ op: 'write', path: `${work}/d/..`, content: 'x' });
    await assert.rejects(up, reason('bad_name'));
  });
});

describe('the protocol', () => {
  it('responds to many concurrent requests, each with its own result', async () => {
    for (let i = 0; i < 40; i++) writeFileSync(inWork(`f${i}`), `content ${i}`);
    const asked = Array.from({ length: 40 }, (_, i) => read(`f${i}`));
    const texts = (await Promise.all(asked)).map(({ content }) => content);
    assert.deepEqual(
      texts,
      texts.map((_, i) => `content ${i}`),
    );
  });

  it('refuses requests over its limit, and fails all of them when boxfs dies', async () => {
    const asked = Array.from({ length: 80 }, () => read('none').catch((e: Fault) => e.code));
    const codes = await Promise.all(asked);
    assert.ok(codes.includes('overloaded'));
    assert.ok(codes.includes('not_found'));
    const hanging = read('none').catch((e: Fault) => e.code);
    started.process.kill('SIGKILL');
    assert.ok(['unavailable', 'not_found'].includes(String(await hanging)));
    assert.equal((await files.ended).code, 'unavailable');
    await assert.rejects(read('a'), { code: 'unavailable' });
  });

  it('arbitrary bytes as frames never crash it', async () => {
    const anyFrame = fc.tuple(fc.integer({ min: 0, max: 10 }), fc.uint8Array({ maxLength: 300 }));
    await fc.assert(
      fc.asyncProperty(fc.array(anyFrame, { minLength: 1, maxLength: 20 }), async (frames) => {
        for (const [op, payload] of frames)
          started.stream.write(rawFrame(op, Buffer.from(payload)));
        writeFileSync(inWork('alive'), 'yes');
        assert.equal((await read('alive')).content, 'yes');
      }),
      { numRuns: 60 },
    );
  });

  it('almost valid frames never crash it', async () => {
    const text = fc.string({ unit: 'binary', maxLength: 40 });
    const anyRequest = fc.record({
      op: fc.integer({ min: 1, max: 8 }),
      root: fc.integer({ min: 0, max: 3 }),
      path: fc.oneof(text, fc.constantFrom('', 'a', '../x', 'a/../../b', './/.', '/etc/passwd')),
      rest: fc.uint8Array({ maxLength: 80 }),
    });
    await fc.assert(
      fc.asyncProperty(anyRequest, async ({ op, root, path, rest }) => {
        const name = Buffer.from(path);
        const sizes = Buffer.from([root, 0, name.length & 255, name.length >> 8]);
        started.stream.write(rawFrame(op, Buffer.concat([sizes, name, Buffer.from(rest)])));
        writeFileSync(inWork('alive'), 'yes');
        assert.equal((await read('alive')).content, 'yes');
        assert.deepEqual(readdirSync(outside), ['secret']);
      }),
      { numRuns: 200 },
    );
  });

  it('ends on a frame of another protocol, or one that is too long', async () => {
    started.stream.write(Buffer.alloc(HEADER_BYTES, 'x'));
    await files.ended;
    await assert.rejects(read('a'), { code: 'unavailable' });
    // stderr has its own pipe, so it may arrive later.
    await eventually(
      'its error output',
      async () => /invalid frame header/.test(started.stderr()) || undefined,
    );
  });
});

function rawFrame(op: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(HEADER_BYTES);
  head.write('BXFS', 0);
  head.writeUInt32LE(payload.length, 4);
  head.writeUInt32LE(0xffff_ffff, 8);
  head[12] = op;
  head[13] = 1;
  return Buffer.concat([head, payload]);
}

describe('locateInRoots', () => {
  it('chooses the innermost root, by whole path segments', () => {
    const roots = ['/workspace', '/workspace/in', '/home/a'].map((path) => ({
      path,
      writable: true,
    }));
    assert.deepEqual(locateInRoots('/workspace/in/x', roots), { root: 1, path: 'x' });
    assert.deepEqual(locateInRoots('/workspace/inside', roots), { root: 0, path: 'inside' });
    assert.deepEqual(locateInRoots('/home/a', roots), { root: 2, path: '' });
    assert.equal(locateInRoots('/home/ab', roots), undefined);
  });
});

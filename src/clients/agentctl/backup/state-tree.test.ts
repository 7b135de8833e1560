// Reading a tree that others own: links are never followed, what is no plain file is named and left
// out, names may be any bytes, and the content is read up to the length the file had.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { type FoundEntry, openBelow, openDir, readChunks, stampOf, walk } from './state-tree.ts';

const IS_ROOT = process.getuid?.() === 0;
const dir = mkdtempSync(join(tmpdir(), 'agentd-w-'));
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;
function fresh(): string {
  const path = join(dir, `d${made++}`);
  mkdirSync(path);
  return path;
}

function walkAll(path: string, isWanted?: (path: Buffer) => boolean): Map<string, FoundEntry> {
  const fd = openDir(path);
  const found = new Map<string, FoundEntry>();
  for (const entry of walk(fd, undefined, isWanted)) {
    found.set(entry.path.toString('latin1'), entry);
    if (entry.type === 'file') closeSync(entry.fd);
  }
  closeSync(fd);
  return found;
}
const typesOf = (found: Map<string, FoundEntry>) =>
  [...found].map(([path, entry]) => `${path} ${entry.type}`);
async function textOf(fd: number, sizeBytes?: number): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of readChunks(fd, sizeBytes)) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

describe('walking a tree', () => {
  it('yields directories before their contents, in the same order each time', () => {
    const at = fresh();
    mkdirSync(join(at, 'b'));
    for (const name of ['c', 'a', 'b/z', 'b/y']) writeFileSync(join(at, name), name);
    const expected = ['a file', 'b dir', 'b/y file', 'b/z file', 'c file'];
    assert.deepEqual(typesOf(walkAll(at)), expected);
    assert.deepEqual(
      typesOf(walkAll(at, (path) => path.toString() !== 'b')),
      ['a file', 'c file'],
      'what is not wanted is not entered',
    );
  });

  it('follows no link, to a file or a directory', () => {
    const at = fresh();
    symlinkSync('/etc/passwd', join(at, 'file'));
    symlinkSync('/etc', join(at, 'dir'));
    symlinkSync('nowhere', join(at, 'none'));
    const found = walkAll(at);
    assert.deepEqual(typesOf(found), ['dir link', 'file link', 'none link']);
    const entry = found.get('file')!;
    assert.equal(entry.type === 'link' && entry.target.toString(), '/etc/passwd');
    const fd = openDir(at);
    assert.equal(openBelow(fd, 'file'), undefined);
    closeSync(fd);
    assert.throws(() => openDir(join(at, 'dir')), { code: 'ENOTDIR' });
  });

  it('names sockets, pipes, sparse files and deep directories, and leaves them out', async () => {
    const at = fresh();
    execFileSync('mkfifo', [join(at, 'pipe')]);
    writeFileSync(join(at, 'sparse'), '');
    truncateSync(join(at, 'sparse'), 2 ** 40);
    mkdirSync(join(at, ...Array.from({ length: 200 }, () => 'd')), { recursive: true });
    const server = createServer().listen(join(at, 's'));
    await new Promise((resolve) => server.once('listening', resolve));
    const found = walkAll(at);
    server.close();
    const skipped = [...found.values()].flatMap((e) => (e.type === 'skipped' ? [e.reason] : []));
    assert.deepEqual(skipped.sort(), [
      'directories are nested too deeply',
      'it is a socket, pipe or device',
      'it is a socket, pipe or device',
      'it is a sparse file',
    ]);
  });

  it('takes any name', () => {
    const at = fresh();
    const name = Buffer.concat([Buffer.from(`${at}/`), Buffer.from([0xff, 0x0a, 0x41])]);
    writeFileSync(name, 'x');
    assert.deepEqual([...walkAll(at).keys()], ['\u00ff\nA']);
  });

  it('names what it may not open', { skip: IS_ROOT }, () => {
    const at = fresh();
    writeFileSync(join(at, 'closed'), '');
    chmodSync(join(at, 'closed'), 0);
    mkdirSync(join(at, 'shut'));
    chmodSync(join(at, 'shut'), 0);
    const reasons = [...walkAll(at).values()].map((e) => e.type === 'skipped' && e.reason);
    chmodSync(join(at, 'shut'), 0o700);
    assert.deepEqual(reasons, ['it cannot be opened (EACCES)', 'it cannot be opened (EACCES)']);
  });

  it("leaves out a second name of root's file", { skip: !IS_ROOT }, () => {
    const at = fresh();
    writeFileSync(join(at, 'secret'), '');
    assert.equal(walkAll(at).get('secret')!.type, 'file');
    linkSync(join(at, 'secret'), join(at, 'second'));
    assert.deepEqual(typesOf(walkAll(at)), ['second skipped', 'secret skipped']);
    execFileSync('chown', ['12345', join(at, 'secret')]);
    assert.deepEqual(typesOf(walkAll(at)), ['second file', 'secret file'], "an agent's own");
  });
});

describe('reading a file', () => {
  it('ends where the file ended, or where it was told to', async () => {
    const file = join(fresh(), 'f');
    writeFileSync(file, 'abcdef');
    assert.equal(await textOf(openSync(file, 'r')), 'abcdef');
    assert.equal(await textOf(openSync(file, 'r'), 4), 'abcd');
    assert.equal(await textOf(openSync(file, 'r'), 100), 'abcdef');
    const big = 'x'.repeat(3_000_000);
    writeFileSync(file, big);
    assert.equal(await textOf(openSync(file, 'r')), big);
  });

  it('is known to be unchanged by its stamp', () => {
    const file = join(fresh(), 'f');
    writeFileSync(file, 'abc');
    const stamp = () => stampOf(statSync(file, { bigint: true }));
    const before = stamp();
    assert.equal(stamp(), before);
    writeFileSync(file, 'abd');
    assert.notEqual(stamp(), before);
    const changed = stamp();
    execFileSync('touch', ['-d', '@1', file]);
    assert.notEqual(stamp(), changed, 'also by who sets the time back');
  });
});

// The directory of declared tools: valid declarations are offered, invalid ones are reported.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { manualClock } from '../../../platform/clock.ts';
import { silentLog } from '../../../platform/log.ts';
import { fakeHost, RESTART } from '../testing/declared-tools.ts';
import { openCommandTools } from './directory.ts';

const { places } = fakeHost();

describe('the directory', () => {
  let dir: string;
  const clock = manualClock(0);
  const open = () =>
    openCommandTools({ dir, taken: new Set(['file.read']), places, clock, log: silentLog });
  const write = (name: string, text: string) =>
    writeFileSync(join(dir, name), text, { mode: 0o600 });
  const names = (set: { tools: { name: string }[] }) => set.tools.map(({ name }) => name);
  beforeEach(() => {
    dir = join(mkdtempSync(join(tmpdir(), 'command-tools-')), 'tools');
    mkdirSync(dir);
  });
  afterEach(() => rmSync(join(dir, '..'), { recursive: true, force: true }));

  it('loads valid files, reports invalid ones, and follows changes', async () => {
    write('a.yaml', RESTART);
    write(
      'b.yaml',
      RESTART.replace('service.restart', 'service.stop').replace('risk: high', 'risk: huge'),
    );
    write('notes.txt', 'not a tool');
    const tools = await open();
    try {
      assert.deepEqual(names(tools.current()), ['service.restart']);
      const [problem] = tools.current().problems;
      assert.equal(problem!.file, join(dir, 'b.yaml'));
      assert.equal(problem!.line, 3);
      write('b.yaml', RESTART.replace('service.restart', 'service.stop'));
      await tools.rescan();
      assert.deepEqual(names(tools.current()), ['service.restart', 'service.stop']);
      assert.deepEqual(tools.current().problems, []);
      write('a.yaml', 'half: [');
      await tools.rescan();
      assert.deepEqual(names(tools.current()), ['service.stop']);
    } finally {
      tools.close();
    }
  });

  it('polls by itself, also for a directory that is created later', async () => {
    rmSync(dir, { recursive: true });
    const changed = Promise.withResolvers<void>();
    const onChange = (set: { tools: unknown[] }) => set.tools.length > 0 && changed.resolve();
    const options = { dir, taken: new Set<string>(), places, clock, log: silentLog };
    const tools = await openCommandTools({ ...options, onChange });
    try {
      assert.deepEqual(tools.current(), { tools: [], problems: [] });
      mkdirSync(dir);
      write('a.yaml', RESTART);
      clock.advance(2_000);
      await changed.promise;
      assert.deepEqual(names(tools.current()), ['service.restart']);
    } finally {
      tools.close();
    }
  });

  it('refuses names in use, and files that another user could have written', async () => {
    write('a.yaml', RESTART);
    write('b.yaml', RESTART);
    write('c.yaml', RESTART.replace('service.restart', 'file.read'));
    write('d.yaml', RESTART.replace('service.restart', 'service.d'));
    chmodSync(join(dir, 'd.yaml'), 0o666);
    symlinkSync('/etc/hostname', join(dir, 'e.yaml'));
    const tools = await open();
    try {
      assert.deepEqual(names(tools.current()), ['service.restart']);
      const problems = tools.current().problems.map(({ file, message }) => [file.at(-6), message]);
      assert.deepEqual(
        problems.map(([name]) => name),
        ['b', 'c', 'd', 'e'],
      );
      assert.match(String(problems[1]![1]), /built-in/);
      assert.match(String(problems[2]![1]), /changed by other users/);
    } finally {
      tools.close();
    }
  });
});

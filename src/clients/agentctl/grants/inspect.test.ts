// The ways out of a directory for an agent that works in place: hard links and mounts.
import assert from 'node:assert/strict';
import { linkSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { describeOpenings, inspectDirectory } from './inspect.ts';

test('hard links and mounts below a directory are found, and nothing in a plain one', (t) => {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'openings-')));
  t.after(() => rmSync(base, { recursive: true }));
  const dir = join(base, 'repo');
  mkdirSync(join(dir, 'sub'), { recursive: true });
  writeFileSync(join(dir, 'sub', 'plain'), '');
  assert.deepEqual(describeOpenings(dir, inspectDirectory(dir, '')), []);
  writeFileSync(join(base, 'outside'), '');
  linkSync(join(base, 'outside'), join(dir, 'sub', 'linked'));
  mkdirSync(join(dir, 'a mount'));
  const mountinfo = [
    `36 35 98:0 / ${dir}/a\\040mount rw,noatime - ext4 /dev/root rw`,
    `37 35 98:0 / ${dir}-beside rw - ext4 /dev/root rw`,
    `38 35 98:0 / ${base} rw - ext4 /dev/root rw`,
  ].join('\n');
  const found = inspectDirectory(dir, mountinfo);
  assert.deepEqual(found, {
    hardLinks: { count: 1, example: join(dir, 'sub', 'linked') },
    mounts: [join(dir, 'a mount')],
    isComplete: true,
  });
  const [links, mount] = describeOpenings(dir, found);
  assert.match(links!, /^1 file has other hard links in .*, such as .*linked: an agent/);
  assert.match(mount!, /a mount is a mount: an agent that works in place can change it$/);
});

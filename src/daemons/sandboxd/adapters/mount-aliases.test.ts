// The other names of a path, from tables of mounts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findAliases, readMounts } from './mount-aliases.ts';

const tableOf = (...rows: [device: string, root: string, at: string][]) =>
  readMounts(
    rows
      .map(([device, root, at], i) => `${i} 1 ${device} ${root} ${at} rw - ext4 /dev/x rw`)
      .join('\n'),
  );

test('a path has another name where it, a directory above it, or a part of it is mounted again', () => {
  const plain = tableOf(['8:1', '/', '/'], ['8:2', '/', '/srv'], ['0:5', '/', '/proc']);
  assert.deepEqual(findAliases('/srv/secret', plain), []);
  const aliases = (root: string, at: string, device = '8:2') =>
    findAliases('/srv/secret', [...plain, ...tableOf([device, root, at])]);
  assert.deepEqual(aliases('/', '/opt/all'), ['/opt/all/secret']);
  assert.deepEqual(aliases('/secret', '/opt/it'), ['/opt/it']);
  assert.deepEqual(aliases('/secret/part', '/opt/part'), ['/opt/part']);
  assert.deepEqual(aliases('/secrets', '/opt/other'), []);
  assert.deepEqual(aliases('/', '/opt/other', '8:3'), []);
  assert.deepEqual(aliases('/secret', '/srv/secret/again'), [], 'it is denied there already');
  assert.deepEqual(aliases('/secret', '/opt/a\\040name'), ['/opt/a name']);
});

test('a bind mount of a directory of the root file system, in both directions', () => {
  const table = tableOf(['8:1', '/', '/'], ['8:1', '/data/home', '/home']);
  assert.deepEqual(findAliases('/home/bob/.ssh', table), ['/data/home/bob/.ssh']);
  assert.deepEqual(findAliases('/data/home/bob/.ssh', table), ['/home/bob/.ssh']);
  assert.deepEqual(findAliases('/data', table), ['/home']);
  assert.deepEqual(findAliases('/etc/shadow', table), []);
});

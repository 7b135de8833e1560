// Tests that host paths in errors become paths of the box, and nothing else changes.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { fault } from '../../wire/errors.ts';
import { makePathRenamer } from './error-paths.ts';

const renamePaths = makePathRenamer(
  [
    ['/s/workspaces/t', '/workspace'],
    ['/s/homes/t/coder', '/home/coder'],
  ],
  ['/s', '/run/a', '/run/a.warden'],
);
const rename = async (message: string) => {
  const failing = renamePaths(Promise.reject(fault('sandbox_refused', message)));
  return failing.then(
    () => '',
    (error: Error) => error.message,
  );
};

it('shows box paths as the box does, and no other host path', async () => {
  const cases = {
    'the disk of /s/workspaces/t has 3 MiB': 'the disk of /workspace has 3 MiB',
    '/s/workspaces/t/.git/hooks: no': '/workspace/.git/hooks: no',
    'below "/s/homes/t/coder/x"': 'below "/home/coder/x"',
    'mounting /run/a.warden/root: no': 'mounting …/root: no',
    'in /s, /run/a and (/s/x)': 'in …, … and (…/x)',
    '/s/workspaces/t2 and /s/workspaces/t': '…/workspaces/t2 and /workspace',
  };
  for (const [message, wanted] of Object.entries(cases))
    assert.equal(await rename(message), wanted);
});

it('leaves other, similar paths and other errors unchanged', async () => {
  for (const message of ['/usr/share and /srv/s/x', '/sbin/s', 'a/s/b', '/run/ab', 'no path'])
    assert.equal(await rename(message), message);
  const other = new Error('/s');
  await assert.rejects(renamePaths(Promise.reject(other)), other);
  assert.equal(await renamePaths(Promise.resolve('/s')), '/s');
});

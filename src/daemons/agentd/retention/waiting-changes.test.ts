// Which trees are kept for their changes, and for how long. sandboxd is scripted.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fault } from '../../../wire/errors.ts';
import type { LayerChangeView } from '../../../wire/sandboxd/layers.ts';
import { makeWaitingChanges } from './waiting-changes.ts';

const DAY_MS = 86_400_000;
const NOW_MS = 1_000 * DAY_MS;

const changeOf = (path: string, refused: string[] = []): LayerChangeView => ({
  path,
  kind: 'added',
  before: null,
  after: { type: 'file', mode: 0o644, size_bytes: 1, sha256: null, link_target: null },
  refused,
  conflict: null,
  merged: false,
});

function start(mode: string | null, pages: LayerChangeView[][], ageMs: number | null = null) {
  const state = { pages, listed: 0 };
  const waiting = makeWaitingChanges({
    store: { taskRow: async () => ({ workspace: '/srv/app', workspace_mode: mode }) as never },
    sandboxd: {
      async layerChanges({ query }: { query: { after?: string | undefined } }) {
        state.listed++;
        const at = query.after === undefined ? 0 : Number(query.after);
        const changes = state.pages[at];
        if (changes === undefined) throw fault('denied', 'the directory is not granted');
        const next = at + 1 < state.pages.length ? String(at + 1) : null;
        return { layer: null, changes, next };
      },
    } as never,
    ageMs,
  });
  const find = async (by = 'person:ann', endedDays = 10) => {
    const tree = { id: 'task_1', endedMs: NOW_MS - endedDays * DAY_MS };
    return (await waiting.findKept(tree, { nowMs: NOW_MS, by: by as never }))?.reason;
  };
  return { state, find };
}

describe('trees with changes that wait', () => {
  it('are kept for any change that an apply would write, on whatever page', async () => {
    const caches = [
      changeOf('__pycache__/a.pyc', ['bytecode']),
      changeOf('.git/index', ['git_files']),
    ];
    assert.equal(await start('layer', [caches, [changeOf('a')]]).find(), 'unapplied');
    assert.equal(await start('layer', [caches]).find(), undefined);
    assert.equal(await start('layer', [[]]).find(), undefined);
    const commit = changeOf('.git/refs/heads/topic', ['git_files']);
    assert.equal(await start('layer', [[commit]]).find(), 'unapplied');
  });

  it('a directory that was changed in place has none', async () => {
    const { find, state } = start('live', [[changeOf('a')]]);
    assert.deepEqual([await find(), state.listed], [undefined, 0]);
  });

  it('changes that cannot be read are kept', async () => {
    assert.equal(await start('layer', []).find(), 'unapplied');
  });

  it('with an age they stay that long', async () => {
    const { find } = start('layer', [[changeOf('a')]], 30 * DAY_MS);
    assert.equal(await find('person:ann', 29), 'unapplied');
    assert.equal(await find('person:ann', 31), undefined);
  });

  it('the runtime lists them once a day, a person each time', async () => {
    const { find, state } = start('layer', [[changeOf('a')]]);
    for (let pass = 0; pass < 3; pass++) assert.equal(await find('service:agentd'), 'unapplied');
    assert.equal(state.listed, 1);
    state.pages = [[]];
    assert.equal(await find('person:ann'), undefined);
    assert.equal(await find('service:agentd'), undefined);
  });
});

// Tests the probes of this host: a level that does not work is reported with cause and fix, and
// without the runners' level sandboxd does not start.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fault } from '../../wire/errors.ts';
import type { SandboxCommand } from './adapters/warden.ts';
import { sandboxdConfig } from './config.ts';
import { assertLevel, makeLevels } from './levels.ts';
import { EXIT } from './testing/commands.ts';

const CAPABLE = {
  version: '1',
  mode: 'user',
  landlock: '7',
  namespaces: 'yes',
  missing: '',
  fix: '',
  level1: 'yes',
  level2: 'yes',
  memory: 'v2',
  pids: 'v2',
  cpu: 'v2',
  tree: 'v2',
  layers: 'root',
};
const RESTRICTED = {
  ...CAPABLE,
  namespaces: 'no',
  level2: 'no',
  missing: 'no namespaces: a rule forbids it',
  fix: 'sysctl -w the.rule=0',
  memory: 'none',
  layers: 'no: the state directory is on an overlay',
};
function levels(
  host: Record<string, string>,
  more: object = {},
  start?: () => Promise<SandboxCommand>,
) {
  const ran = {
    stdinEnd: () => undefined,
    discard: () => undefined,
    ended: Promise.resolve(EXIT),
  } as unknown as SandboxCommand;
  const refuse = fault('level_unavailable', 'the warden refused: no namespaces');
  return makeLevels({
    config: sandboxdConfig.parse(more),
    warden: {
      features: async () => new Map(Object.entries(host)),
      start:
        start ??
        (async ({ level }) => (level === 2 && host.level2 === 'no' ? Promise.reject(refuse) : ran)),
    },
    identities: {
      mode: (more as { identity?: 'dynamic' }).identity ?? 'single',
      nobody: { uid: 1_000, gid: 1_000 },
      refused: () => [],
    },
  });
}

describe('levels', () => {
  it('reports what works, from a real probe', async () => {
    const view = await levels(CAPABLE).view();
    assert.deepEqual(
      view.levels.map(({ name, works, fix }) => [name, works, fix]),
      [
        ['L1', true, null],
        ['L2', true, null],
        ['L3', false, null],
        ['L4', false, null],
      ],
    );
    assert.deepEqual(
      view.features.filter(({ works }) => !works).map(({ name }) => name),
      ['users'],
    );
  });

  it('reports what does not, why, and the one command that helps', async () => {
    const view = await levels(RESTRICTED).view();
    const l2 = view.levels.find(({ name }) => name === 'L2');
    assert.deepEqual([l2?.works, l2?.fix], [false, 'sysctl -w the.rule=0']);
    assert.match(l2!.detail, /no namespaces/);
    const failed = view.features.filter(({ works }) => !works).map(({ name }) => name);
    assert.deepEqual(failed, ['namespaces', 'memory', 'users', 'layers']);
    const layers = view.features.find(({ name }) => name === 'layers');
    assert.equal(layers?.detail, 'the state directory is on an overlay');
    await assert.rejects(levels(RESTRICTED).assertRunners(), {
      code: 'level_unavailable',
      message: /not support L2 sandboxes, which runners need: no namespaces: a rule forbids it/,
      hint: 'sysctl -w the.rule=0',
    });
  });

  it('runners start at L2 or not at all', async () => {
    await levels(CAPABLE).assertRunners();
    const nothing = { ...RESTRICTED, level1: 'no', landlock: '0', missing: '', fix: '' };
    await assert.rejects(levels(nothing).assertRunners(), /Landlock/);
  });

  it('while halted nothing is probed, and nothing is reported as broken', async () => {
    const halted = () => Promise.reject(fault('halted', 'halted'));
    const { levels: seen } = await levels(CAPABLE, {}, halted).view();
    assert.deepEqual(
      seen.slice(0, 2).map(({ works, detail }) => [works, detail]),
      [
        [true, 'not probed: everything is halted'],
        [true, 'not probed: everything is halted'],
      ],
    );
  });

  it('levels that are not implemented are refused with the reason', () => {
    for (const level of ['L0', 'L3', 'L4'] as const)
      assert.throws(() => assertLevel(level), { code: 'level_unavailable', message: /^L/ });
    assertLevel('L1');
    assertLevel('L2');
  });
});

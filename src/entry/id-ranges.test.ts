// The registry of ids: each state directory has its own, keeps them, and no configuration or
// restart makes two have the same ones unnoticed.
import assert from 'node:assert/strict';
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { sandboxdConfig } from '../daemons/sandboxd/config.ts';
import { assignIds } from './id-ranges.ts';
import type { RuntimeConfig } from './options.ts';

const IS_ROOT = process.getuid?.() === 0;
const SECOND = 0x7000_0000;
const ACCOUNT = 'agentd:x:61100:61100::/:/bin/false\nother:x:61101:61101::/:/bin/false\n';

describe('the ids of state directories', { skip: IS_ROOT ? false : 'needs root' }, () => {
  let base: string;
  beforeEach(() => {
    base = realpathSync(mkdtempSync(join(tmpdir(), 'ids-')));
    mkdirSync(join(base, 'keeper'));
  });
  afterEach(() => rmSync(base, { recursive: true }));

  const makeState = (name: string, owner = 0): string => {
    const dir = join(base, name);
    mkdirSync(dir, { recursive: true });
    chownSync(dir, owner, owner);
    return dir;
  };
  const assign = (stateDir: string, sandboxd: object = {}, passwd = '', user?: string) => {
    const runtime = user === undefined ? {} : { user };
    const config = { sandboxd: sandboxdConfig.parse(sandboxd), runtime } as RuntimeConfig;
    return assignIds({ keeperDir: join(base, 'keeper'), stateDir, config, passwd });
  };
  /** As chownState does afterwards. */
  const start = (
    stateDir: string,
    ...more: [sandboxd?: object, passwd?: string, user?: string]
  ) => {
    const found = assign(stateDir, ...more);
    chownSync(stateDir, found.user.uid, found.user.gid);
    return found;
  };

  it('the first has the usual ones, and each further its own, for ever', () => {
    const [one, two, three] = ['one', 'two', 'three'].map((name) => makeState(name));
    const first = start(one!);
    assert.deepEqual(first.ranges, {
      uid_first: 200_000,
      uid_last: 265_535,
      gid_first: 300_000,
      gid_last: 1_299_999,
    });
    assert.deepEqual([first.user.uid, first.warnings], [265_534, []]);
    assert.equal(first.others, 'uid 1879048192 2147483647\ngid 1879048192 2147483647\n');
    const second = start(two!);
    assert.deepEqual(second.ranges, {
      uid_first: SECOND,
      uid_last: SECOND + 65_535,
      gid_first: SECOND + 65_536,
      gid_last: SECOND + 0xf_ffff,
    });
    assert.equal(second.user.uid, SECOND + 65_534);
    assert.match(second.others, /^uid 200000 265535\nuid 300000 1299999\nuid 265534 265534\n/);
    assert.equal(start(three!).ranges.uid_first, SECOND + 0x10_0000);
    for (const again of [0, 1]) {
      assert.deepEqual(start(two!).ranges, second.ranges, `start ${again}`);
      assert.deepEqual(start(one!).ranges, first.ranges);
    }
  });

  it('are kept by a state that is moved, or made anew; those of a removed one are used last', () => {
    const [one, two] = [makeState('one'), makeState('two')];
    start(one);
    const { ranges } = start(two);
    renameSync(two, join(base, 'moved'));
    assert.deepEqual(start(join(base, 'moved')).ranges, ranges);
    rmSync(one, { recursive: true });
    assert.equal(start(makeState('three')).ranges.uid_first, SECOND + 0x10_0000);
    assert.equal(start(makeState('one')).ranges.uid_first, 200_000);
  });

  it('are kept by a state from before the registry, which its owner shows', () => {
    start(makeState('one'));
    const older = assign(makeState('older', 265_534));
    assert.equal(older.ranges.uid_first, 200_000);
    assert.match(older.warnings.join(), /agents here and those of .*\/one have the same users/);
    assert.match(older.warnings.join(), /the daemons here and those of .*\/one are the same user/);
    const restored = assign(makeState('restored', SECOND + 5 * 0x10_0000 + 65_534));
    assert.deepEqual([restored.ranges.uid_first, restored.warnings], [SECOND + 5 * 0x10_0000, []]);
    const roots = makeState('roots');
    writeFileSync(join(roots, 'sandboxd.sqlite'), '');
    assert.equal(assign(roots).ranges.uid_first, 200_000, 'of a version whose daemons were root');
  });

  it('are in the state and so in its backups; it is restored with the ids of its files', () => {
    start(makeState('one'));
    const two = makeState('two');
    const { ranges } = start(two);
    const slot = readFileSync(join(two, 'agent-ids'), 'utf8');
    assert.equal(slot, '0\n');
    rmSync(two, { recursive: true });
    const restored = makeState('restored');
    writeFileSync(join(restored, 'sandboxd.sqlite'), '');
    writeFileSync(join(restored, 'agent-ids'), slot);
    assert.deepEqual(assign(restored).ranges, ranges);
    const broken = makeState('broken');
    writeFileSync(join(broken, 'sandboxd.sqlite'), '');
    writeFileSync(join(broken, 'agent-ids'), '256\n');
    assert.throws(() => assign(broken), { code: 'bad_config' });
  });

  it('of a configuration are refused where another has them, and otherwise used', () => {
    start(makeState('one'));
    const overlap = { uid_first: 265_000, uid_last: 266_000 };
    const two = makeState('two');
    assert.throws(() => assign(two, overlap), {
      code: 'bad_config',
      message: /overlap with those of .*\/one$/,
    });
    const free = { uid_first: 5_000, uid_last: 5_999, gid_first: 6_000, gid_last: 6_999 };
    assert.equal(start(two, free).ranges.uid_first, 5_000);
    // The groups of one’s task trees must not be users of another.
    const crossed = { uid_first: 6_500, uid_last: 6_600, gid_first: 9_000, gid_last: 9_100 };
    assert.throws(() => assign(makeState('three'), crossed), { code: 'bad_config' });
    assert.match(start(two, overlap).warnings.join(), /have the same users/, 'a state keeps them');
  });

  it('the daemons of two states are one user only if both are configured so', () => {
    const one = start(makeState('one'), {}, ACCOUNT);
    assert.deepEqual([one.user.name, one.user.uid], ['agentd', 61_100]);
    const two = makeState('two');
    for (const again of [0, 1])
      assert.equal(start(two, {}, ACCOUNT).user.uid, SECOND + 65_534, `${again}`);
    const three = makeState('three');
    assert.throws(() => assign(three, {}, ACCOUNT, 'agentd'), {
      code: 'bad_config',
      message: /agentd is the daemons’ user of .*\/one already/,
    });
    assert.equal(start(three, {}, ACCOUNT, 'other').user.uid, 61_101);
    assert.equal(start(join(base, 'one'), {}, ACCOUNT).user.uid, 61_100);
  });

  it('an unreadable registry refuses the start: it does not assign ids twice', () => {
    const one = makeState('one');
    start(one);
    const file = join(base, 'keeper', 'ids.json');
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, text.slice(0, 20));
    assert.throws(() => assign(one), { code: 'storage_broken' });
    writeFileSync(file, text);
    assert.equal(assign(one).ranges.uid_first, 200_000);
  });
});

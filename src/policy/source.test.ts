// The policy source loads at the first request, follows changes, and ignores invalid bundles.
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../platform/clock.ts';
import { silentLog } from '../platform/log.ts';
import type { Bundle } from './bundle.ts';
import { sealBundle, writeBundle } from './bundle-file.ts';
import { openPolicySource } from './source.ts';
import { call, makeBundle } from './testing/rights.ts';

function setUp(t: TestContext) {
  const dir = mkdtempSync(join(tmpdir(), 'agentd-source-'));
  chmodSync(dir, 0o700);
  const file = join(dir, 'bundle.json');
  const refused: { problem: string; versionInForce: number | null }[] = [];
  const loaded: number[] = [];
  const source = openPolicySource({
    file,
    log: silentLog,
    clock: systemClock(),
    onRefused: (refusal) => refused.push(refusal),
    onLoaded: ({ version }) => loaded.push(version),
  });
  t.after(() => {
    source.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const publish = (bundle: Bundle) => writeBundle(file, bundle);
  return { dir, file, source, refused, loaded, publish };
}

const version = (n: number, allow: string[]): Bundle => ({
  ...makeBundle({ coder: { tools: { allow } } }),
  version: n,
});

async function eventually(what: string, isTrue: () => Promise<boolean> | boolean): Promise<void> {
  const end = Date.now() + 10_000;
  while (!(await isTrue())) {
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test('requests fail without a bundle and are decided once one exists', async (t) => {
  const { source, publish, loaded } = setUp(t);
  await source.warm();
  await assert.rejects(source.decide(call('git.diff')), { code: 'unavailable' });
  publish(version(1, ['git.read']));
  await eventually('decided', () =>
    source.decide(call('git.diff')).then(
      ({ answer }) => answer === 'allow',
      () => false,
    ),
  );
  assert.deepEqual([source.version(), loaded], [1, [1]]);
});

test('an unreadable bundle is refused and reported', async (t) => {
  const { file, source, refused } = setUp(t);
  symlinkSync(file, file);
  await assert.rejects(source.decide(call('git.diff')), { code: 'unavailable' });
  assert.match(refused[0]?.problem ?? '', /ELOOP/);
});

test('revoking a capability takes effect on a request that was just allowed', async (t) => {
  const { source, publish } = setUp(t);
  publish(version(1, ['git.read']));
  const ask = async () => (await source.decide(call('git.diff'))).answer;
  assert.equal(await ask(), 'allow');
  publish(version(2, []));
  await eventually('revoked', async () => (await ask()) === 'deny');
  assert.equal(source.version(), 2);
});

test('with an invalid bundle the old one stays in force, reported once; a valid one replaces it', async (t) => {
  const { file, dir, source, publish, refused } = setUp(t);
  publish(version(1, ['git.read']));
  const ask = async () => (await source.decide(call('git.diff'))).answer;
  assert.equal(await ask(), 'allow');
  const put = (text: string) => {
    writeFileSync(join(dir, 'half'), text);
    renameSync(join(dir, 'half'), file);
  };
  const forged = { ...version(2, []), hash: version(1, ['git.read']).hash };
  const unread = sealBundle(
    { ...version(3, []), site: [{ file: '10.cedar', text: 'permit (principal' }] },
    { version: 3, madeAt: 'x' },
  );
  const broken: [string, RegExp][] = [
    ['{"format":1,', /not JSON/],
    [JSON.stringify(forged), /does not match its hash/],
    [JSON.stringify({ ...version(2, []), format: 9 }), /format/],
    [JSON.stringify(unread), /site:10\.cedar:1/],
  ];
  for (const [i, [text, why]] of broken.entries()) {
    put(text);
    await eventually(`refused ${why}`, () => refused.length === i + 1);
    assert.match(refused[i]!.problem, why);
    assert.equal(refused[i]!.versionInForce, 1);
    assert.equal(await ask(), 'allow');
  }
  rmSync(file);
  await eventually('gone', () => refused.length === broken.length + 1);
  assert.equal(await ask(), 'allow');
  publish(version(4, []));
  await eventually('healed', async () => (await ask()) === 'deny');
});

test('one version decides all requests of a call', async (t) => {
  const { source, publish } = setUp(t);
  publish(version(7, ['git.read']));
  const decision = await source.decideAll([call('git.diff'), call('git.log')]);
  assert.deepEqual([decision.answer, decision.version], ['allow', 7]);
  assert.equal((await source.planAgentBox('coder')).version, 7);
});

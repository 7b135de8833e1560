// The whole demo as a person sees it: as this user and, if that is root, as an ordinary user too.
// Its output must show what the demo promises.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
} from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { STEPS } from '../../demo/steps.ts';
import { ROOT } from '../support/runtime.ts';

const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;

/** Runs the demo in its own directory, with a Node that this user can read. */
function play(
  uid: number | undefined,
  more: Record<string, string> = {},
): { status: number | null; text: string; dir: string } {
  const dir = mkdtempSync('/var/tmp/agentd-t-demo-');
  mkdirSync(join(dir, 'bin'));
  copyFileSync(process.execPath, join(dir, 'bin', 'node'));
  chmodSync(join(dir, 'bin', 'node'), 0o755);
  if (uid !== undefined) chownSync(dir, uid, uid);
  const env = {
    PATH: `${join(dir, 'bin')}:/usr/local/bin:/usr/bin:/bin`,
    HOME: dir,
    AGENTD_STATE: join(dir, 'state'),
    DEMO_YES: '1',
    ...more,
  };
  const as =
    uid === undefined
      ? []
      : ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--'];
  const [program, ...args] = [...as, join(dir, 'bin', 'node'), join(ROOT, 'demo', 'main.ts')];
  const done = spawnSync(program!, args, { env, encoding: 'utf8', timeout: 170_000, cwd: '/' });
  return { status: done.status, text: `${done.stdout}${done.stderr}`, dir };
}

const PROMISED: readonly [what: string, shown: RegExp][] = [
  ['a log that was read marks who read it', /ops · marked by the output of logs\.read/],
  ['policy denies the stranger’s host', /ops · http\.fetch · denied by policy/],
  ['so does egressd, from inside the box', /collect\.example\.net:80 · denied by egressd: host/],
  [
    'the kernel hides paths outside the box',
    /blocked by the kernel, mount namespace: \/etc\/shadow/,
  ],
  ['the kernel allows no other egress', /blocked by the kernel, network namespace/],
  ['the log cannot be changed', /blocked by the kernel, read-only bind/],
  ['the tests failed, then passed', /"exit_code":1[\s\S]*"exit_code":0/],
  ['a person saw the change', /\+ {2}const byId = new Map/],
  ['a person approved it', /approved prod\.deploy \(approval_/],
  ['the log is whole', /The log is whole: \d+ events/],
];

/** The steps of the flow as the records tell them, in this order. */
const FLOW: readonly RegExp[] = [
  /asked planner for "Investigate why API latency/,
  /planner started it/,
  /planner asked ops for "Say from the access log/,
  /ops called logs\.read with .*access\.log.* — allowed by .*manifest:ops:file\.read:\d+, done/,
  /ops stored findings\.md — allowed by .*, done/,
  /planner asked coder for "Review what the last deploy changed/,
  /coder called git\.diff with \{"from":"HEAD~1","to":"HEAD"\} — allowed by .*file\.read.*, done/,
  /planner asked tester for "Reproduce it/,
  /tester called tests\.run with .* done/,
  /planner asked coder for "Make the lookup/,
  /deployer called prod\.deploy/,
  /approved prod\.deploy \(approval_/,
  /deployer completed: .*is live/,
];

/** The agents that the planner asked in the second incident. */
const asksOf = (text: string): string[] => {
  const second = text.slice(text.indexOf(STEPS.again));
  return [...second.matchAll(/^ +planner asked (\w+) for/gm)].map(([, who]) => who!);
};
const SHORT_WAY = ['coder', 'tester', 'deployer'];
const LONG_WAY = ['ops', 'coder', 'tester', 'coder', 'tester', 'deployer'];

it('without memory, the second incident takes the long way', { timeout: 180_000 }, () => {
  const { status, text, dir } = play(undefined, { DEMO_MEMORY: 'off' });
  try {
    assert.equal(status, 0, text.slice(-4_000));
    assert.deepEqual(asksOf(text), LONG_WAY);
    assert.doesNotMatch(text, /planner was briefed with/);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

for (const [who, uid] of [
  ['this user', undefined],
  ...(isRoot ? ([['an ordinary user', NOBODY]] as const) : []),
] as const)
  it(`[R384-R391, R393-R399] [R421] the incident is found, repaired and reported, as ${who}`, {
    timeout: 180_000,
  }, () => {
    const { status, text, dir } = play(uid);
    try {
      assert.equal(status, 0, text.slice(-4_000));
      for (const [what, shown] of PROMISED) assert.match(text, shown, what);
      let at = text.indexOf('$ agentctl task explain');
      for (const step of FLOW) {
        const found = text.slice(at).search(step);
        assert.ok(at >= 0 && found >= 0, `${step} after ${text.slice(at, at + 200)}`);
        at += found;
      }
      const [, now = '', before = ''] =
        /takes ([\d.]+) ms now, ([\d.]+) ms before/.exec(text) ?? [];
      assert.ok(Number(now) < Number(before) / 2, `${now} ms now, ${before} ms before`);
      assert.deepEqual(asksOf(text), SHORT_WAY, 'the first incident was remembered');
      assert.match(text, /planner was briefed with memory_\w+ .*"coder was asked: Review/);
      assert.match(text, /takes [\d.]+ ms again, [\d.]+ ms before/);
      assert.ok(readdirSync(dir).includes('state'), 'its state is kept');
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });

// One pass over one kind: what is due by age, by size and by rule, in which order, and what stays.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { manualClock } from '../../../platform/clock.ts';
import type { RetentionRule } from '../../../platform/retention-config.ts';
import type { PolicyDecision } from '../../../policy/request.ts';
import type { DataItem, DataPolicy } from './may-delete.ts';
import type { Candidate, KindPruner, Pass } from './pass.ts';
import { prunePass } from './pass.ts';
import { makePassReport } from './report.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NOW_MS = 1_000 * DAY_MS;

const decide = (answer: PolicyDecision['answer']): PolicyDecision =>
  ({ answer, reason: `it says ${answer}`, rules: [`rule-${answer}`] }) as never;

type Setup = {
  rule: RetentionRule;
  /** Ages in hours, oldest first; each takes 10 bytes. */
  ages: number[];
  mayDelete?: (item: DataItem) => PolicyDecision['answer'];
  mustGo?: (item: DataItem) => boolean;
  /** Ages in hours of those that are too many. */
  excess?: number[];
  pass?: Partial<Pass>;
};

async function run({ rule, ages, mayDelete = () => 'allow', mustGo, excess, pass = {} }: Setup) {
  const steps: string[] = [];
  const causes = new Map<string, string>();
  const toCandidate = (age: number) =>
    ({
      id: `${age}h`,
      endedMs: NOW_MS - age * HOUR_MS,
      policy: async () => ({ id: `${age}h` }),
    }) as unknown as Candidate;
  const pruner: KindPruner = {
    kind: 'artifacts',
    rule,
    sizeBytes: async () => 10 * ages.length,
    async *candidates(endedBeforeMs) {
      for (const candidate of ages.map(toCandidate))
        if (candidate.endedMs < endedBeforeMs) yield candidate;
    },
    ...(excess === undefined
      ? {}
      : {
          async *excess() {
            for (const candidate of excess.map(toCandidate)) yield { candidate, cause: 'too many' };
          },
        }),
    async prune({ id }, { cause }) {
      if (id === '99h') throw new Error('the disk is on fire');
      causes.set(id, cause);
      return { bytes: 10 };
    },
  };
  const policy: DataPolicy = {
    mayDelete: async (_, item) => decide(mayDelete(item)),
    mayRetain: async (_, item) => decide(mustGo?.(item) === true ? 'deny' : 'allow'),
    limitsRetaining: async () => mustGo !== undefined,
  };
  const clock = manualClock(NOW_MS);
  const report = makePassReport({ by: 'x', dryRun: false, kinds: ['artifacts'], clock });
  const pace: Pass['pace'] = {
    step(work) {
      steps.push('step');
      return work();
    },
  };
  await prunePass(
    pruner,
    {
      nowMs: NOW_MS,
      by: 'service:agentd',
      isDryRun: false,
      isApproved: false,
      olderThanMs: undefined,
      only: undefined,
      report,
      pace,
      ...pass,
    },
    policy,
  );
  const [kind] = report.view().kinds;
  const kept = Object.fromEntries(kind!.kept.map(({ reason, count }) => [reason, count]));
  return { pruned: [...causes.keys()], causes, kept, steps: steps.length };
}

describe('one pass', () => {
  it('prunes what is too old, and touches nothing else', async () => {
    const rule = { age: 2 * DAY_MS, size: null };
    const { pruned, steps, causes } = await run({ rule, ages: [72, 49, 47, 1] });
    assert.deepEqual([pruned, steps], [['72h', '49h'], 2]);
    assert.equal(causes.get('72h'), 'retention.artifacts keeps artifacts for 2 days');
  });

  it('prunes the oldest until the rest fits, but nothing of the last hour', async () => {
    const rule = { age: null, size: 25 };
    const { pruned, steps, causes } = await run({ rule, ages: [5, 4, 3, 2, 0.5] });
    assert.deepEqual([pruned, steps], [['5h', '4h', '3h'], 3], 'the rest takes no step');
    assert.match(causes.get('5h')!, /keeps up to .* of artifacts/);
    const recent = await run({ rule: { age: null, size: 1 }, ages: [0.9, 0.5] });
    assert.deepEqual(recent.pruned, []);
  });

  it('keeps what a rule forbids or asks about, and then the next oldest goes', async () => {
    const mayDelete = ({ id }: DataItem) => ({ '5h': 'deny', '4h': 'ask' })[id] ?? 'allow';
    const setup = { rule: { age: null, size: 15 }, ages: [5, 4, 3, 2], mayDelete } as Setup;
    const first = await run(setup);
    assert.deepEqual([first.pruned, first.kept], [['3h', '2h'], { policy: 1, needs_approval: 1 }]);
    const approved = await run({ ...setup, pass: { isApproved: true } });
    assert.deepEqual([approved.pruned, approved.kept], [['4h', '3h', '2h'], { policy: 1 }]);
  });

  it('prunes early what a rule does not let it retain', async () => {
    const rule = { age: 30 * DAY_MS, size: null };
    const mustGo = ({ id }: DataItem) => id === '4h';
    const { pruned, causes } = await run({ rule, ages: [5, 4, 3], mustGo });
    assert.deepEqual(pruned, ['4h']);
    assert.equal(causes.get('4h'), 'it says deny (rule-deny)');
  });

  it('prunes what is too many, once, unless a rule forbids it or a person sets an age', async () => {
    const rule = { age: 4 * HOUR_MS, size: null };
    const mayDelete = ({ id }: DataItem) => (id === '3h' ? 'deny' : 'allow');
    const setup: Setup = { rule, ages: [5, 4, 3, 2], excess: [5, 3, 2], mayDelete };
    const { pruned, causes, kept } = await run(setup);
    assert.deepEqual([pruned, kept], [['5h', '2h'], { policy: 1 }]);
    assert.equal(causes.get('2h'), 'too many');
    const older = await run({ ...setup, pass: { olderThanMs: 4.5 * HOUR_MS } });
    assert.deepEqual(older.pruned, ['5h']);
  });

  it("a person's age replaces both limits", async () => {
    const rule = { age: HOUR_MS, size: 1 };
    const pass = { olderThanMs: 4 * HOUR_MS, by: 'person:ann' };
    const { pruned, causes } = await run({ rule, ages: [5, 4, 3], pass });
    assert.deepEqual(pruned, ['5h', '4h']);
    assert.equal(causes.get('5h'), 'person:ann pruned artifacts older than 4 hours');
  });

  it('goes on after a failure, and reports it', async () => {
    const { pruned, kept } = await run({ rule: { age: HOUR_MS, size: null }, ages: [99, 98] });
    assert.deepEqual([pruned, kept], [['98h'], { failed: 1 }]);
  });
});

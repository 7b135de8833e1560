// Events: the quick look at one takes nothing that the schema would refuse.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type EventDraft, isPlainDraft, isPlainEvent, NewEvent } from './events.ts';

const plainText = fc.string({ maxLength: 300 });
const anyValue = fc.oneof(
  ...[plainText, fc.double(), fc.boolean(), fc.constant(null), fc.constant(undefined)],
  fc.array(fc.nat()),
);
const mostly = <T>(usual: fc.Arbitrary<T>) =>
  fc.oneof(
    { weight: 12, arbitrary: usual as fc.Arbitrary<unknown> },
    { weight: 1, arbitrary: anyValue },
  );
const anyDraft = fc.record(
  {
    id: fc.string({ maxLength: 140 }),
    event: fc.constantFrom('task.created', 'run.ended', 'task.ended', 'no.such'),
    principal: mostly(plainText),
    status: mostly(plainText),
    policy: fc.string({ maxLength: 600 }),
    allowed: mostly(fc.boolean()),
    data: mostly(fc.dictionary(plainText, mostly(fc.oneof(plainText, fc.integer())))),
  },
  { requiredKeys: ['id', 'event'] },
);

describe('the quick look at an event', () => {
  it('takes only drafts that the schema takes', () => {
    const Draft = NewEvent.omit({ ts: true, source: true, source_store: true, source_seq: true });
    let plain = 0;
    fc.assert(
      fc.property(anyDraft, (draft) => {
        if (!isPlainDraft(draft as EventDraft)) return;
        plain++;
        assert.ok(Draft.safeParse(draft).success, JSON.stringify(draft));
      }),
      { numRuns: 2_000 },
    );
    assert.ok(plain > 50, `${plain} were plain`);
  });

  it('and only events, with all that is added to drafts, that it takes as they are', () => {
    const own = { ts: '2026-06-29T18:00:00.123Z', source: 'a', source_store: 'b', source_seq: 1 };
    const anyEvent = fc.tuple(
      anyDraft,
      fc.record({
        ts: mostly(fc.constantFrom(own.ts, '2026-02-28T23:59:59Z', '2026-02-30T00:00:00Z')),
        source: mostly(plainText),
        source_store: mostly(plainText),
        source_seq: mostly(fc.constantFrom(1, 2, 3, 7, 0, 1.5, 2 ** 60)),
      }),
      fc.oneof(
        { weight: 9, arbitrary: fc.constant(undefined) },
        { weight: 1, arbitrary: fc.constantFrom('extra', '__proto__', 'constructor') },
      ),
    );
    const made = anyEvent.map(([draft, more, key]) => {
      const extra = key === undefined ? '' : `,"${key}":1`;
      return JSON.parse(`${JSON.stringify({ ...draft, ...more }).slice(0, -1)}${extra}}`);
    });
    let plain = 0;
    fc.assert(
      fc.property(made, (event: unknown) => {
        if (!isPlainEvent(event)) return;
        plain++;
        assert.deepEqual(NewEvent.parse(event), event);
      }),
      { numRuns: 3_000 },
    );
    assert.ok(plain > 20, `${plain} were plain`);
    const usual = { id: 'a', event: 'task.created', data: { n: 1 }, ...own };
    assert.equal(isPlainEvent(usual), true);
    for (const name of Object.keys(usual).filter((name) => name !== 'data'))
      assert.equal(isPlainEvent({ ...usual, [name]: undefined }), false, name);
  });
});

// Messages for invalid values are our own, never the library's.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as z from 'zod';
import { checkValue } from './check.ts';
import { knownKeys } from './schema-messages.ts';

const messageFor = (schema: z.ZodType, value: unknown): string => {
  const checked = checkValue(schema, value);
  assert.equal(checked.success, false, 'it is refused');
  return checked.success ? '' : checked.issues[0]!.message;
};

const size = z.union([z.int().positive(), z.string().regex(/^\d+G$/, 'must be a size such as 4G')]);
const part = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('text'), text: z.string() }),
  z.strictObject({ kind: z.literal('ref'), id: z.string() }),
]);
const cases: [schema: z.ZodType, value: unknown, message: string][] = [
  [z.string(), undefined, 'is missing; must be text'],
  [z.string(), 5, 'must be text, not a number'],
  [z.string(), null, 'must be text, not null'],
  [z.array(z.string()), 'git.read', 'must be a list, not text'],
  [z.strictObject({}), 'planner', 'must be an object, not text'],
  [z.strictObject({}), [], 'must be an object, not a list'],
  [z.boolean(), 'yes', 'must be true or false, not text'],
  [z.number(), true, 'must be a number, not true'],
  [z.int(), 1.5, 'must be a whole number'],
  [z.int(), 'many', 'must be a number, not text'],
  [z.coerce.number(), 'x', 'must be a number'],
  [z.literal('agentd/v1'), 'agentd/v2', 'must be agentd/v1'],
  [z.literal('agentd/v1'), undefined, 'is missing; must be agentd/v1'],
  [z.enum(['none', 'restricted']), 'open', 'must be one of: none, restricted'],
  [z.string().min(1), '', 'must not be empty'],
  [z.string().min(3), 'ab', 'must have at least 3 characters'],
  [z.string().max(1), 'ab', 'must have at most 1 character'],
  [z.array(z.int()).max(2), [1, 2, 3], 'must have at most 2 items'],
  [z.int().min(1), 0, 'must be at least 1'],
  [z.number().positive(), 0, 'must be more than 0'],
  [z.int().max(5), 6, 'must be at most 5'],
  [z.number().multipleOf(0.5), 0.3, 'must be a multiple of 0.5'],
  [z.base64(), '%', 'must be base64'],
  [z.string().regex(/x/), 'y', 'does not have the required format'],
  [z.string().regex(/x/, 'must hold an x'), 'y', 'must hold an x'],
  [z.record(z.string().max(2), z.int()), { abc: 1 }, 'the key must have at most 2 characters'],
  [size, true, 'must be a number or text, not true'],
  [size, 'big', 'must be a size such as 4G'],
  [part, { kind: 'memo' }, 'must be one of: text, ref'],
  [
    z.union([z.strictObject({ a: z.int() }), z.strictObject({ b: z.int() })]),
    { c: 1 },
    'matches none of the allowed forms',
  ],
];

for (const [schema, value, message] of cases)
  test(`${JSON.stringify(value) ?? 'nothing'} → ${message}`, () => {
    assert.equal(messageFor(schema, value), message);
  });

test('the keys allowed at a path', () => {
  const inner = z.strictObject({ size: z.int(), name: z.string() });
  const schema = z.strictObject({
    list: z.array(inner).optional(),
    by: z.record(z.string(), inner),
  });
  assert.deepEqual(knownKeys(schema, []), ['list', 'by']);
  assert.deepEqual(knownKeys(schema, ['list', 0]), ['size', 'name']);
  assert.deepEqual(knownKeys(schema, ['by', 'x']), ['size', 'name']);
  assert.deepEqual(knownKeys(schema, ['nowhere']), []);
});

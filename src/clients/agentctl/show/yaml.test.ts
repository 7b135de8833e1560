// Values written as YAML are read back unchanged.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readYaml } from '../../../platform/yaml-file.ts';
import { toYaml } from './yaml.ts';

/** Accepts anything: these tests only need the YAML reader. */
const anySchema = { safeParse: (data: unknown) => ({ success: true, data }) } as never;

function reread(value: Record<string, unknown>): unknown {
  const result = readYaml(`${toYaml(value).join('\n')}\n`, 'x.yaml', anySchema);
  assert.ok(result.ok, JSON.stringify(result));
  return result.value;
}

test('a manifest', () => {
  const manifest = {
    apiVersion: 'agentd/v1',
    metadata: { name: 'coder', description: 'yes: it codes # well' },
    spec: { tools: { allow: ['git.read', 'task.delegate'], deny: [] }, limits: {}, replicas: 2 },
  };
  assert.deepEqual(reread(manifest), manifest);
});

test('text of several lines stays readable', () => {
  const spec = { persona: 'You code.\n\n  Do it well: # always\n', model: 'x' };
  const lines = [
    'spec:',
    '  persona: |',
    '    You code.',
    '',
    '      Do it well: # always',
    '  model: x',
  ];
  assert.deepEqual(toYaml({ spec }), lines);
  assert.deepEqual(reread({ spec }), { spec });
});

test('any JSON value', () => {
  const { object } = fc.letrec((tie) => ({
    scalar: fc.oneof(
      fc.string(),
      fc.integer(),
      fc.boolean(),
      fc.constantFrom(null, 'no', '1', '~'),
      fc.array(fc.string({ unit: 'grapheme' })).map((lines) => `${lines.join('\n')}\n`),
    ),
    value: fc.oneof(
      { maxDepth: 3 },
      tie('scalar'),
      fc.array(tie('value'), { maxLength: 3 }),
      tie('object'),
    ),
    object: fc.dictionary(fc.stringMatching(/^[a-z]{1,6}$/), tie('value'), { maxKeys: 4 }),
  }));
  fc.assert(
    fc.property(object, (value) => {
      const plain = JSON.parse(JSON.stringify(value)) as Record<string, unknown>;
      fc.pre(Object.keys(plain).length > 0);
      assert.deepEqual(reread(plain), plain);
    }),
  );
});

// The table of request shapes agrees with the Cedar schema.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import * as cedarWasm from '@cedar-policy/cedar-wasm/nodejs';
import { SHAPES, shapeProblem } from './shapes.ts';

type Attribute = { type: string; name?: string; required?: boolean };

const kindOf = ({ type, name }: Attribute): string =>
  type === 'Set'
    ? 'Strings'
    : name === 'Bool' || name === '__cedar::Bool'
      ? 'Bool'
      : (name ?? type).replace('__cedar::', '');

test('the table agrees with the schema for every action', () => {
  const text = readFileSync(new URL('./schema.cedarschema', import.meta.url), 'utf8');
  const found = cedarWasm.schemaToJson(text);
  assert.ok(found.type === 'success');
  const actions = Object.entries(found.json['']!.actions).map(([action, { appliesTo }]) => {
    const context = appliesTo!.context as unknown as { attributes: Record<string, Attribute> };
    const pick = (isRequired: boolean) =>
      Object.fromEntries(
        Object.entries(context.attributes)
          .filter(([, { required }]) => (required ?? true) === isRequired)
          .map(([name, type]) => [name, kindOf(type)]),
      );
    return [
      action,
      {
        principals: appliesTo!.principalTypes,
        resources: appliesTo!.resourceTypes,
        required: pick(true),
        optional: pick(false),
      },
    ];
  });
  assert.deepEqual(Object.fromEntries(actions), SHAPES);
});

test('missing, unknown and mistyped context members are reported', () => {
  const good = { path: '/a', labels: [] };
  const ask = (context: object, more: object = {}) =>
    shapeProblem({
      principal: 'Agent',
      action: 'file.read',
      resource: 'Path',
      context: context as never,
      ...more,
    });
  assert.equal(ask(good), undefined);
  assert.match(ask({ labels: [] })!, /needs path/);
  assert.match(ask({ ...good, label: [] })!, /has no label/);
  assert.match(ask({ ...good, constructor: 'x' })!, /has no constructor/);
  assert.match(ask({ ...good, recursive: 'yes' })!, /not a Bool/);
  assert.match(ask({ ...good, labels: 'outside' })!, /not a Strings/);
  assert.match(ask(good, { principal: 'Person' })!, /not apply to principals of type Person/);
  assert.match(ask(good, { resource: 'Tool' })!, /not apply to resources of type Tool/);
  assert.match(ask(good, { action: 'toString' })!, /unknown action/);
});

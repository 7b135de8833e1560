// Rules that read the arguments of a tool: their types, the check of rule files, and decisions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findNearest } from '../platform/did-you-mean.ts';
import { describeArguments, pickArguments } from './arguments.ts';
import { loadCedar } from './cedar.ts';
import type { PolicyRecord } from './request.ts';
import { checkSiteFile } from './site.ts';
import { call, makeTestPolicy } from './testing/rights.ts';

const text = { type: 'string' };
/** One member for every kind of schema that tools have. */
const SCHEMA = {
  type: 'object',
  additionalProperties: false,
  required: ['branch', 'opts'],
  properties: {
    branch: text,
    mode: { enum: ['soft', 'hard'], default: 'soft' },
    depth: { type: 'integer', minimum: 0 },
    force: { type: 'boolean', default: false },
    paths: { type: 'array', items: text },
    ports: { type: 'array', items: { type: 'integer' } },
    opts: {
      type: 'object',
      required: ['remote'],
      properties: { remote: text, weight: { type: 'number' } },
    },
    edits: { type: 'array', items: { type: 'object' } },
    headers: { type: 'object', additionalProperties: text },
    either: { anyOf: [text, { type: 'null' }] },
    ratio: { type: 'number' },
    any: {},
  },
};
const GIVEN = { branch: 'main', opts: { remote: 'origin' } };

test('a schema becomes a record type; what Cedar cannot type is left out by name', () => {
  const { type, known, leftOut } = describeArguments(SCHEMA);
  assert.equal(
    type,
    '{ "branch": String, "mode": String, "depth"?: Long, "force": Bool, "paths"?: Set<String>, ' +
      '"ports"?: Set<Long>, "opts": { "remote": String } }',
  );
  assert.ok(known.includes('opts.remote'));
  assert.deepEqual(Object.fromEntries(leftOut), {
    'opts.weight': 'it may be a fraction',
    edits: 'it is a list of records or lists',
    headers: 'its members have no fixed names',
    either: 'it may have several types',
    ratio: 'it may be a fraction',
    any: 'it has no fixed type',
  });
});

test('values are picked by the schema alone, with defaults; a wrong value is left out', () => {
  assert.deepEqual(pickArguments(SCHEMA, GIVEN), {
    branch: 'main',
    mode: 'soft',
    force: false,
    opts: { remote: 'origin' },
  });
  const odd = {
    branch: 5,
    depth: 2 ** 60,
    paths: ['a', 1],
    ports: [1, 2],
    opts: { remote: '\ud800', __entity: { type: 'Agent', id: 'x' } },
    edits: [{}],
    __entity: { type: 'Agent', id: 'x' },
  };
  assert.deepEqual(pickArguments(SCHEMA, odd), {
    mode: 'soft',
    force: false,
    ports: [1, 2],
    opts: {},
  });
  assert.deepEqual(pickArguments(SCHEMA, 'nothing'), { mode: 'soft', force: false });
});

const about = (condition: string, more = '') =>
  `${more}forbid (principal, action == Action::"tool.call", resource == Tool::"git.push")\n` +
  `when { ${condition} };\n`;
const check = async (rule: string, tools?: Map<string, typeof SCHEMA>) =>
  checkSiteFile(
    await loadCedar(),
    { file: '10.cedar', text: rule },
    { agents: ['coder'], nearest: findNearest, tools },
  );
const known = new Map([['git.push', SCHEMA]]);

const VALID = [
  'context.arguments.branch == "main"',
  'context.arguments.force && context.labels.contains("outside")',
  'context.arguments has depth && context.arguments.depth > 3',
  'context.arguments has paths && context.arguments.paths.contains("/srv")',
  'context.arguments.opts.remote like "git@*"',
];
const INVALID: [condition: string, says: RegExp][] = [
  ['context.arguments.brnch == "main"', /brnch.*not found/],
  ['context.arguments.branch == 5', /types.*not compatible|expected|unexpected type/i],
  ['context.arguments.depth > 3', /depth/],
  [
    'context.arguments.edits == 1',
    /^rules cannot use the argument edits of git\.push: it is a list/,
  ],
  [
    'context.arguments.opts.weight == 1',
    /argument opts\.weight of git\.push: it may be a fraction/,
  ],
  ['context.arguments has headers && context.arguments.headers has x', /argument headers/],
];

for (const condition of VALID)
  test(`the check accepts ${condition}`, async () => {
    assert.deepEqual((await check(about(condition), known)).problems, []);
  });

for (const [condition, says] of INVALID)
  test(`the check refuses ${condition}`, async () => {
    const { problems } = await check(`// first\n${about(condition)}`, known);
    assert.match(problems[0]?.message ?? '', says);
    assert.ok([2, 3].includes(problems[0]?.line ?? 0), String(problems[0]?.line));
    assert.notEqual(problems[0]?.hint, '');
  });

test('the check wants one tool, and says when it does not know it', async () => {
  const any =
    'forbid (principal, action == Action::"tool.call", resource) when { context.arguments.x };';
  assert.match((await check(any, known)).problems[0]!.message, /not about one tool/);
  const rule = about('context.arguments.branch == "main"');
  for (const [tools, says] of [
    [undefined, /the tools are not known now/],
    [new Map(), /tool git\.push not found/],
  ] as const) {
    const { problems, warnings } = await check(rule, tools);
    assert.deepEqual(problems, []);
    assert.ok(
      warnings.some(({ message }) => says.test(message)),
      JSON.stringify(warnings),
    );
  }
  const { warnings } = await check(
    'permit (principal, action == Action::"tool.call", resource == Tool::"git.push");',
    known,
  );
  assert.deepEqual(warnings, [], 'a declared tool is known');
});

const agents = { coder: { tools: { allow: ['git.push', 'git.read'] } } };
const push = (given: object) => ({
  ...call('git.push'),
  arguments: () => pickArguments(SCHEMA, { ...GIVEN, ...given }),
});

test('a decision follows the arguments, also when it was made before', async () => {
  const site = { '10.cedar': about('context.arguments.branch == "main"') };
  const policy = makeTestPolicy(agents, { site });
  for (let i = 0; i < 2; i++)
    for (const [branch, answer] of [
      ['main', 'deny'],
      ['topic', 'allow'],
      [`main${'x'.repeat(9_000)}`, 'allow'],
    ] as const)
      assert.equal((await policy.decide(push({ branch }))).answer, answer, branch);
  const control = makeTestPolicy(agents);
  assert.equal((await control.decide(push({ branch: 'main' }))).answer, 'allow');
});

test('without the argument, a forbid holds and a permit does not', async () => {
  const condition = 'context.arguments.branch == "topic"';
  const forbid = makeTestPolicy(agents, { site: { '10.cedar': about(condition) } });
  const bare = call('git.push');
  const odd = { ...bare, arguments: (): PolicyRecord => pickArguments(SCHEMA, { branch: 5 }) };
  for (const request of [bare, odd]) {
    const { answer, rules } = await forbid.decide(request);
    assert.deepEqual([answer, rules], ['deny', ['site:10.cedar:1']]);
  }
  const site = { '10.cedar': about(condition).replace('forbid', 'permit') };
  const permit = makeTestPolicy({ coder: {} }, { site });
  assert.equal((await permit.decide(push({ branch: 'topic' }))).answer, 'allow', 'control');
  for (const request of [bare, odd]) assert.equal((await permit.decide(request)).answer, 'deny');
});

test('arguments are not read, and split no cache, where no rule about the tool reads them', async () => {
  const site = { '10.cedar': about('context.arguments.branch == "main"') };
  const policy = makeTestPolicy(agents, { site });
  await policy.warm();
  let reads = 0;
  const other = () => ({
    ...call('git.log'),
    arguments: () => ({ n: String(reads++) }),
  });
  const first = policy.decideNow(other());
  assert.equal(policy.decideNow(other()), first, 'the same decision, from the cache');
  assert.equal(reads, 0);
  policy.decideNow({ ...other(), ...call('git.push') });
  assert.equal(reads, 1, 'control');
});

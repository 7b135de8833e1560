// Reading manifests: the published example, the defaults, and every kind of mistake.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EXAMPLE_MANIFEST } from '../../../../test/support/example-manifest.ts';
import { sha256Hex } from '../../../platform/json.ts';
import { manifestSizeBytesMax, readManifest } from './read-manifest.ts';

const head = 'apiVersion: agentd/v1\nkind: Agent\n';
const named = (name: string) => `${head}metadata:\n  name: ${name}\n`;

function agentIn(text: string) {
  const result = readManifest(text, 'a.yaml');
  assert.ok(result.ok, JSON.stringify(result));
  return result.agent;
}

function problemsIn(text: string) {
  const result = readManifest(text, 'a.yaml');
  assert.ok(!result.ok);
  return result.problems;
}

test('the example of the source document loads unchanged', () => {
  const agent = agentIn(EXAMPLE_MANIFEST);
  assert.equal(agent.name, 'coder');
  assert.equal(agent.linuxUser, 'agent-coder');
  assert.equal(agent.model, 'coder-large');
  assert.equal(agent.replicas, 2);
  assert.deepEqual(agent.resources, {
    cpu: 2,
    memoryBytes: 4 * 1024 ** 3,
    pids: 256,
    diskBytes: null,
  });
  assert.deepEqual(agent.capabilities, [
    'git.read',
    'git.write_branch',
    'tests.run',
    'file.read',
    'file.write_workspace',
  ]);
  for (const tool of ['git.diff', 'git.commit', 'tests.run', 'file.search', 'file.edit']) {
    assert.ok(agent.tools.includes(tool), tool);
  }
  const { spec } = agent.manifest;
  assert.deepEqual(spec.memory?.write, ['project:app/coder']);
  assert.deepEqual(spec.filesystem?.deny, ['/etc', '/home', '/srv/prod']);
  assert.deepEqual(spec.network?.allow, ['github.com', 'internal-registry.local']);
  assert.equal(agent.hash, sha256Hex(EXAMPLE_MANIFEST));
});

test('[C12] a minimal manifest gets safe defaults; what it needs is a name', () => {
  const agent = agentIn(`${named('helper')}  description: Reads things.\nspec: {}\n`);
  assert.equal(agent.linuxUser, 'agent-helper');
  assert.equal(agent.model, 'default');
  assert.equal(agent.replicas, 4);
  assert.equal(agent.persona, 'You are helper. Reads things.');
  assert.deepEqual(agent.capabilities, []);
  assert.ok(agent.tools.includes('task.finish'));
  assert.ok(!agent.tools.includes('task.delegate'));
  assert.deepEqual(agent.limits, {});
  assert.deepEqual(agent.budget, { tokens_per_day: null, cost_microusd_per_day: null });
  assert.deepEqual(agent.team, { delegateTo: null, talkTo: null });
  assert.deepEqual(agent.resources, { cpu: null, memoryBytes: null, pids: null, diskBytes: null });
  assert.equal(agentIn(`${named('helper')}spec: {}\n`).persona, 'You are helper.');
  for (const metadata of ['{}', '{ description: Reads. }', '{ name: "" }', '{ name: null }']) {
    const problems = problemsIn(`${head}metadata: ${metadata}\nspec: {}\n`);
    assert.ok(
      problems.some(({ message }) => message.includes('metadata.name')),
      JSON.stringify(problems),
    );
  }
});

test('limits and budgets are converted to integers in wire units', () => {
  const agent = agentIn(`${named('planner')}spec:
  limits: { maxSteps: 12, maxTokens: 8000, maxCostUsd: 0.29, maxTimeS: 60 }
  budget: { tokensPerDay: 5, costUsdPerDay: 1.1 }
  team: { delegateTo: [coder], talkTo: [] }
`);
  assert.deepEqual(agent.limits, {
    max_steps: 12,
    max_tokens: 8000,
    max_cost_microusd: 290_000,
    max_time_s: 60,
  });
  assert.deepEqual(agent.budget, { tokens_per_day: 5, cost_microusd_per_day: 1_100_000 });
  assert.deepEqual(agent.team, { delegateTo: ['coder'], talkTo: [] });
});

test('sizes use powers of 1024, as in systemd', () => {
  const disk = agentIn(`${named('a')}spec:\n  resources: { disk: 2G }\n`).resources.diskBytes;
  assert.equal(disk, 2 * 1024 ** 3);
  const bytes = (memory: string) =>
    agentIn(`${named('a')}spec:\n  resources: { memory: ${memory} }\n`).resources.memoryBytes;
  assert.equal(bytes('512M'), 512 * 1024 ** 2);
  assert.equal(bytes('2048K'), 2048 * 1024);
  assert.equal(bytes('4GiB'), 4 * 1024 ** 3);
  assert.equal(bytes('1T'), 1024 ** 4);
  assert.equal(bytes('4194304'), 4_194_304);
});

test('a capability in both allow and deny is denied', () => {
  const agent = agentIn(`${named('a')}spec:\n  tools: { allow: [git.read], deny: [git.read] }\n`);
  assert.deepEqual(agent.capabilities, []);
  assert.ok(!agent.tools.includes('git.diff'));
});

test('an unknown key is named with its line and the nearest known key', () => {
  const [problem, ...rest] = problemsIn(EXAMPLE_MANIFEST.replace('  model:', '  modell:'));
  assert.deepEqual(rest, []);
  assert.deepEqual(problem, {
    file: 'a.yaml',
    line: 7,
    message: 'unknown key spec.modell',
    hint: 'Did you mean model?',
  });
});

test('an unknown capability is named with its line and the nearest known one', () => {
  assert.deepEqual(problemsIn(EXAMPLE_MANIFEST.replace('- tests.run', '- test.run')), [
    {
      file: 'a.yaml',
      line: 19,
      message: 'spec.tools.allow.2: unknown capability test.run',
      hint: 'Did you mean tests.run?',
    },
  ]);
  const [far] = problemsIn(EXAMPLE_MANIFEST.replace('- delete.recursive', '- moon.landing'));
  assert.equal(far?.line, 47);
  assert.match(far?.hint ?? '', /^Known capabilities: .*git\.read/);
});

test('paths that no box can have are refused, with line and reason', () => {
  const closedDirs = new Map([['/var/lib/agentd', "the runtime's state"]]);
  const read = (path: string, key = 'read') =>
    readManifest(`${named('a')}spec:\n  filesystem:\n    ${key}: ['${path}']\n`, 'a.yaml', {
      closedDirs,
    });
  const cases: [string, RegExp][] = [
    ['/proc', /never get access to \/proc/],
    ['/sys/fs/cgroup', /never get access to \/sys/],
    ['/run/agentd.sock', /never get access to \/run/],
    ['/var/lib/agentd', /agentd: it is the runtime's state/],
    ['/var/lib/agentd/objects/', /agentd: it is the runtime's state/],
    ['srv/x', /must be an absolute path/],
    ['/srv/../var/lib/agentd', /component \.\./],
  ];
  for (const [path, says] of cases)
    for (const key of ['read', 'write']) {
      const result = read(path, key);
      assert.ok(!result.ok, `${key} ${path}`);
      assert.deepEqual([result.problems[0]!.line, result.problems[0]!.file], [7, 'a.yaml']);
      assert.match(result.problems[0]!.message, says);
      assert.notEqual(result.problems[0]!.hint, '');
    }
  for (const path of ['/var/lib/agentd2', '/var/lib', '/srv/x'])
    assert.ok(read(path).ok, `control: ${path}`);
  assert.ok(read('/var/lib/agentd', 'deny').ok, 'control: a deny closes what is closed');
});

test('methods are named for hosts that are allowed', () => {
  const network =
    "{ allow: ['*.a.org', b.org], change: { x.a.org: [POST], b.org: [PUT, DELETE] } }";
  const { spec } = agentIn(`${named('a')}spec:\n  network: ${network}\n`).manifest;
  assert.deepEqual(spec.network?.change, { 'x.a.org': ['POST'], 'b.org': ['PUT', 'DELETE'] });
  const [wrong] = problemsIn(
    `${named('a')}spec:\n  network: { allow: [a.org], change: { a.org: [GET] } }\n`,
  );
  assert.match(wrong?.message ?? '', /network\.change/);
});

test('values that could never work are refused with a reason', () => {
  const cases: [string, number, RegExp][] = [
    [`${named('a')}spec:\n  linuxUser: root\n`, 6, /cannot run as root/],
    [`${named('a'.repeat(31))}spec: {}\n`, 4, /more than 32 characters/],
    [`${named('a')}spec:\n  tools: { deny: [team.basic] }\n`, 6, /team\.basic cannot be denied/],
    [`${named('a')}spec:\n  filesystem:\n    read:\n      - /srv/../etc\n`, 8, /component \.\./],
    [`${named('a')}spec:\n  filesystem: { read: [/srv//a] }\n`, 6, /two slashes/],
    [`${named('a')}spec:\n  filesystem: { deny: ['/srv/**/.env'] }\n`, 6, /is a pattern/],
    [`${named('a')}spec:\n  filesystem: { write: [/etc/app/] }\n`, 6, /never get access to \/etc/],
    [`${named('a')}spec:\n  network: { allow: ['127.1'] }\n`, 6, /address in an unusual form/],
    [
      `${named('a')}spec:\n  network:\n    allow: [a.org]\n    change: { b.org: [POST] }\n`,
      8,
      /b\.org is in network\.change, but network\.allow does not include it/,
    ],
    [
      `${named('a')}spec:\n  network:\n    allow: [a.org]\n    change: { '*.a.org': [POST] }\n`,
      8,
      /\*\.a\.org is in network\.change/,
    ],
    [
      `${named('a')}spec:\n  network:\n    allow: ['a.org:443']\n    change: { 'a.org:8443': [POST] }\n`,
      8,
      /a\.org:8443 is in network\.change/,
    ],
    [
      `${named('a')}spec:\n  network:\n    allow: [a.org]\n    change: { '1.2': [POST] }\n`,
      8,
      /address in an unusual form/,
    ],
    [`${named('a')}spec:\n  resources: { memory: 4 }\n`, 6, /4 is less than 1M/],
    [`${named('a')}spec:\n  resources: { memory: 99999999999T }\n`, 6, /too large/],
    [`${named('a')}spec:\n  resources: { disk: 4K }\n`, 6, /4K is less than 1M/],
  ];
  for (const [text, line, message] of cases) {
    const [problem, ...rest] = problemsIn(text);
    assert.deepEqual(rest, []);
    assert.equal(problem?.line, line, text);
    assert.match(problem?.message ?? '', message);
    assert.doesNotMatch(`${problem?.message}${problem?.hint}`, /\0/);
    assert.notEqual(problem?.hint, '');
  }
  const long = 'a'.repeat(31);
  assert.equal(agentIn(`${named(long)}spec:\n  linuxUser: agent-a\n`).linuxUser, 'agent-a');
});

test('one file declares one agent', () => {
  const [problem] = problemsIn(`${named('a')}spec: {}\n---\n${named('b')}spec: {}\n`);
  assert.equal(problem?.line, 6);
  assert.match(problem?.message ?? '', /declares one agent/);
  assert.equal(agentIn(`---\n${named('a')}spec: {}\n`).name, 'a');
});

test('text that is no manifest is a problem with message and hint, whatever it is', () => {
  const texts = [
    '',
    'hello',
    '- a\n- b\n',
    'a: [1, 2\n',
    '\0\0\0',
    '{{{{',
    `${named('a')}spec: {}\nspec: {}\n`,
    `${named('a')}spec: {}\n__proto__: { x: 1 }\n`,
    `${named('a')}spec: &s {}\n`.replace('kind: Agent', 'kind: &k Agent\nx: *k'),
    `${named('Coder')}spec: {}\n`,
    `${named('a')}spec:\n  replicas: "2"\n`,
    '['.repeat(10_000),
  ];
  for (const text of texts) {
    for (const problem of problemsIn(text)) {
      assert.equal(problem.file, 'a.yaml');
      assert.notEqual(problem.message, '', text.slice(0, 40));
      assert.notEqual(problem.hint, '');
    }
  }
});

test('type errors are reported in plain messages', () => {
  const text = `${named('x')}spec:\n  replicas: many\n  tools: { allow: git.read }\n  team: boss\n`;
  assert.deepEqual(
    problemsIn(text).map(({ line, message }) => `${line}: ${message}`),
    [
      '6: spec.replicas: must be a number, not text',
      '7: spec.tools.allow: must be a list, not text',
      '8: spec.team: must be an object, not text',
    ],
  );
});

test('an empty manifest is one problem', () => {
  for (const text of ['', '\n  \n', '# nothing yet\n  # at all']) {
    const [problem, ...more] = problemsIn(text);
    assert.equal(problem!.message, 'the manifest is empty');
    assert.deepEqual(more, []);
  }
});

test('a manifest that is too large is not parsed', () => {
  const text = `${named('a')}spec: {}\n# ${'ä'.repeat(manifestSizeBytesMax / 2)}\n`;
  const [problem] = problemsIn(text);
  assert.match(problem?.message ?? '', /at most 262144/);
});

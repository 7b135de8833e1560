// Personas on the command line: what agents are created with, and the list.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { readYaml } from '../../../platform/yaml-file.ts';
import { fault } from '../../../wire/errors.ts';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import { agent } from '../testing/fixtures.ts';
import { agentctl } from '../testing/run-agentctl.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });
const last = () => fake.seen.at(-1)!;
const anySchema = { safeParse: (data: unknown) => ({ success: true, data }) } as never;

test('[K18] agent create --persona allows what the persona expects, unless --allow is given', async () => {
  const head = { kind: 'roles', role: null, purpose: null, extends: [], sources: [], agents: [] };
  const coder = { ...head, name: 'coder', ref: 'roles/coder', tools: ['file.read', 'tests.run'] };
  const other = { ...head, name: 'x', ref: 'roles/x', tools: ['shell.exec'] };
  fake.script({
    agentd: {
      putAgent: async () => ({ agent: agent('bob') }),
      listPersonas: async () => ({
        personas: [coder, other] as never,
        problems: [],
      }),
    },
  });
  const specOf = async (...words: string[]) => {
    const ran = await run('agent', 'create', 'bob', ...words);
    assert.equal(ran.code, 0, ran.stderr);
    const { manifest_yaml: yaml } = last().body as { manifest_yaml: string };
    return (readYaml(yaml, 'm.yaml', anySchema) as { value: { spec: unknown } }).value.spec;
  };
  assert.deepEqual(await specOf('--persona', 'coder', '--persona', 'groups/night'), {
    personas: ['coder', 'groups/night'],
    tools: { allow: ['file.read', 'tests.run'] },
  });
  assert.deepEqual(await specOf('--persona', 'coder', '--allow', 'git.read'), {
    personas: ['coder'],
    tools: { allow: ['git.read'] },
  });
  const own = ['--instructions', 'Ask first.', '--allow', 'git.read'];
  assert.deepEqual(await specOf('--persona', 'coder', ...own), {
    personas: ['coder'],
    persona: 'Ask first.',
    tools: { allow: ['git.read'] },
  });
  assert.deepEqual(await specOf('--persona', 'base'), { personas: [] });
  const words = await run('agent', 'create', 'bob', '--persona', 'You code.');
  assert.equal(words.code, 2);
  assert.match(words.stderr, /--instructions/);
});

test('[K19] agent update --persona takes the place of personas; base resets them', async () => {
  const manifest = {
    apiVersion: 'agentd/v1',
    kind: 'Agent',
    metadata: { name: 'bob' },
    spec: { personas: ['coder'], persona: 'Mine.' },
  };
  fake.script({
    agentd: {
      putAgent: async () => ({ agent: agent('bob') }),
      getAgent: async () => ({ agent: agent('bob'), manifest }),
    },
  });
  const specOf = async (...words: string[]) => {
    const ran = await run('agent', 'update', 'bob', ...words);
    assert.equal(ran.code, 0, ran.stderr);
    const { manifest_yaml: yaml } = last().body as { manifest_yaml: string };
    return (readYaml(yaml, 'm.yaml', anySchema) as { value: { spec: unknown } }).value.spec;
  };
  assert.deepEqual(await specOf('--persona', 'reviewer'), {
    personas: ['reviewer'],
    persona: 'Mine.',
  });
  assert.deepEqual(await specOf('--persona', 'base', '--instructions', 'Yours.'), {
    personas: [],
    persona: 'Yours.',
  });
});

test('[K20] agent remove removes the home that it kept, unless it is to stay or is in use', async () => {
  const home_id = `home_${'a'.repeat(24)}`;
  let isInUse = false;
  fake.script({
    agentd: { removeAgent: async () => ({ agent: agent('bob', { home_id }) }) },
    sandboxd: {
      removeHome: async () => {
        if (isInUse) throw fault('conflict', `a program that uses ${home_id} is running`);
        return { removed: true, bytes: 2_000, entries: 2 };
      },
    },
  });
  const removed = await run('agent', 'remove', 'bob');
  assert.match(removed.stdout, /bob is removed[\s\S]*Its home is deleted/);
  assert.deepEqual([last().route, last().params], ['removeHome', { id: home_id }]);
  const kept = await run('agent', 'remove', 'bob', '--keep-home');
  assert.match(kept.stdout, /Its home is kept/);
  assert.equal(last().route, 'removeAgent');
  isInUse = true;
  const busy = await run('agent', 'remove', 'bob');
  assert.match(busy.stdout, /missing +home: .*is running[\s\S]*Again: agentctl agent remove bob/);
});

test('[K22] persona list shows each with its agents, and what is wrong with them', async () => {
  const view = { kind: 'roles', tools: [], extends: [] } as const;
  const coder = {
    ...view,
    ref: 'roles/coder',
    name: 'coder',
    role: 'Coder',
    purpose: 'Writes code',
    sources: ['package', 'operator'],
    agents: ['bob', 'eve'],
  };
  const thin = {
    ...coder,
    ref: 'groups/thin',
    name: 'thin',
    role: null,
    purpose: null,
    agents: [],
  };
  const problem = { file: '/p/thin.md', line: 3, message: 'it is thin', hint: 'Write more.' };
  fake.script({
    agentd: {
      listPersonas: async () => ({ personas: [coder, thin] as never, problems: [problem] }),
    },
  });
  const { stdout } = await run('persona', 'list');
  assert.match(stdout, /coder +Coder +package \+ operator +bob, eve +Writes code/);
  assert.match(stdout, /groups\/thin .*–/);
  assert.match(stdout, /\/p\/thin\.md:3: it is thin\n +Write more\./);
});

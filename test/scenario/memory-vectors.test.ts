// Memories are recalled by meaning where a model for it is configured, embedded and split: what its
// labels keep from the model is not sent, nothing waits for the model, and forgetting reaches it.
import assert from 'node:assert/strict';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import {
  type FakeProvider,
  type ProviderPlay,
  sendJson,
  startProvider,
} from '../../src/daemons/modeld/testing/provider.ts';
import type { NewMemory } from '../../src/wire/memoryd/records.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import { doTask, manifestOf, startScriptedWorld } from '../support/scripted-world.ts';

/** A model of embeddings that knows these words to mean the same. */
const TOPICS = [/kestrel|windhover/i, /azalea\b|rhododendron/i];
const embed = (text: string): number[] => {
  const found = TOPICS.map((topic) => (topic.test(text) ? 1 : 0));
  return [...found, found.includes(1) ? 0 : 1];
};

const answers: ProviderPlay = ({ body, response }) => {
  const input = body.input as string[];
  const data = input.map((text, index) => ({ object: 'embedding', index, embedding: embed(text) }));
  const usage = { prompt_tokens: input.length, total_tokens: input.length };
  sendJson(response, 200, { object: 'list', model: 'meaning-embed', data, usage });
};

const configFor = (url: string): string => `
modeld:
  providers: { meaning: { dialect: openai, base_url: "${url}/v1", models: [meaning-embed] } }
  prices: { meaning-embed: { input: 1, output: 0 } }
memoryd: { embedding_model: meaning-embed }
`;

const agents = { coder: manifestOf('coder', '{ memory: { read: ["project:app"] } }') };

const countVectors = ({ stateDir }: { stateDir: string }, memoryId: string): number => {
  const db = new DatabaseSync(join(stateDir, 'memoryd.sqlite'), { readOnly: true });
  try {
    const text =
      'SELECT COUNT(*) AS n FROM vectors x JOIN versions v ON v.number = x.number WHERE v.memory_id = ?';
    return Number((db.prepare(text).get(memoryId) as { n: number }).n);
  } finally {
    db.close();
  }
};

for (const mode of ['embedded', 'split'] as const)
  describe(`memory with vectors, ${mode}`, () => {
    const base = freshDir();
    let provider: FakeProvider;
    let runtime: TestRuntime;
    before(async () => {
      provider = await startProvider();
      provider.usual = answers;
      runtime = await startRuntime({ base, mode, agents, config: configFor(provider.url) });
    });
    after(async () => {
      await runtime.remove();
      await provider.close();
      rmSync(base, { recursive: true, force: true });
    });
    const remember = async (text: string, more: Partial<NewMemory> = {}) => {
      const body: NewMemory = { class: 'semantic', scope: 'project:app', text, ...more };
      return (await runtime.memoryd.remember({ body })).memory;
    };
    const embedded = (id: string) =>
      eventually('its vector', async () => countVectors(runtime, id) === 1 || undefined);
    const recall = (query: string) => runtime.memoryd.recall({ body: { query } });
    const isSent = (text: string) =>
      provider.requests.some((request) => request.text.includes(text));

    it('[R57] [R84] a question in other words finds it', async () => {
      const { id } = await remember('The windhover comes on Mondays.');
      await embedded(id);
      const { memories, ...rest } = await recall('kestrel');
      assert.deepEqual(
        memories.map((memory) => memory.id),
        [id],
      );
      assert.deepEqual(rest, {}, 'neither words only nor a rehearsal');
    });

    it('what is personal or secret is not sent, and is recalled by words', async () => {
      const phone = await remember('The windhover has the number +49 30 901820.');
      const marked = await remember('The windhover of the vault.', { labels: ['secret'] });
      const { id } = await remember('An rhododendron.');
      await embedded(id);
      for (const one of [phone, marked]) {
        assert.equal(countVectors(runtime, one.id), 0);
        assert.ok((await recall('windhover')).memories.some((memory) => memory.id === one.id));
      }
      assert.ok(!isSent('901820') && !isSent('vault'));
      assert.ok(isSent('An rhododendron.'), 'control');
    });

    it('forgetting removes the vector; no copy of the text was kept on the way', async () => {
      const { id } = await remember('The rhododendron is chartreuse.');
      await embedded(id);
      await runtime.memoryd.forget({ body: { ids: [id] } }, { deadlineMs: 60_000 });
      assert.equal(countVectors(runtime, id), 0);
      for (const file of ['memoryd.sqlite', 'memoryd.sqlite-wal', 'modeld.sqlite'])
        assert.ok(!readFileSync(join(runtime.stateDir, file)).includes('chartreuse'), file);
    });

    it('without the model it goes on by words, says so, and catches up', async () => {
      provider.usual = ({ response }) => sendJson(response, 503, { error: { message: 'away' } });
      const began = performance.now();
      const { id } = await remember('The azalea is in the yard.');
      assert.ok(performance.now() - began < 1_000, 'no write waits for a model');
      const { memories, words_only } = await recall('azalea yard');
      assert.equal(memories[0]?.id, id);
      assert.match(words_only!, /./);
      const words = ['memory', 'search', 'coder', 'azalea'];
      const { stdout } = await agentctl(words, { state: runtime.stateDir });
      assert.match(stdout, /Searched by words only, without vectors: /);
      assert.equal(countVectors(runtime, id), 0);
      provider.usual = answers;
      await embedded(id);
      await eventually('recall by meaning', async () =>
        (await recall('rhododendron')).memories.some((memory) => memory.id === id)
          ? true
          : undefined,
      );
    });
  });

describe('memory with vectors of the rehearsal', () => {
  it('says that they are', async () => {
    const config = 'memoryd: { embedding_model: rehearsal-embed }\n';
    const runtime = await startRuntime({ agents, config });
    try {
      const body = { class: 'semantic', scope: 'project:app', text: 'A heron nests.' } as const;
      const { memory } = await runtime.memoryd.remember({ body });
      await eventually(
        'its vector',
        async () => countVectors(runtime, memory.id) === 1 || undefined,
      );
      assert.equal((await runtime.memoryd.recall({ body: { query: 'heron' } })).rehearsal, true);
      const words = ['memory', 'search', 'coder', 'heron'];
      const { stdout } = await agentctl(words, { state: runtime.stateDir });
      assert.match(stdout, /The rehearsal made the vectors\./);
    } finally {
      await runtime.remove();
    }
  });
});

describe('memory with vectors, of runs', () => {
  it('a run pays for the vectors of what it remembers and asks', async () => {
    const memory =
      '{ memory: { write: ["project:app"] }, tools: { allow: [memory.read, memory.write, test.tools] } }';
    const world = await startScriptedWorld({
      agents: { coder: manifestOf('coder', memory) },
      memoryd: { embedding_model: 'scripted/scripted-embed' },
    });
    try {
      const text = 'The heron service restarts with make heron.';
      world.model.on(
        'Remember',
        says(call('memory.remember', { text, scope: 'project:app' })),
        says(call('memory.recall', { query: 'heron' })),
        finishes('done'),
      );
      const task = await doTask(world, 'Remember', { agent: 'coder' });
      const paid = await eventually('its calls', async () => {
        const { calls } = await world.modeld.listCalls({ query: { task_id: task.id, limit: 100 } });
        const own = calls.filter(
          ({ purpose, status }) => purpose === 'memory' && status !== 'running',
        );
        return own.length >= 2 ? own : undefined;
      });
      for (const one of paid) {
        assert.equal(one.agent, 'coder');
        assert.equal(one.status, 'completed', JSON.stringify(one.error));
      }
      const { call: ofMemory, messages } = await world.modeld.getCall({
        params: { id: paid.at(-1)!.call_id },
      });
      assert.equal(ofMemory.task_id, task.id);
      assert.ok(!JSON.stringify(messages).includes(text), 'the record names the memory');
    } finally {
      await world.stop();
    }
  });
});

// The rows of modeld's routes.
import assert from 'node:assert/strict';
import type { IdleWorld } from '../support/callers.ts';
import { admission, freshRun } from './admission.ts';
import { eraseCopiesRow } from './erasure-rows.ts';
import { expireRow, pruneRow } from './prune-rows.ts';
import { type Good, rows, withBody } from './row.ts';

let made = 0;
const nothing = async (): Promise<Good> => ({});

const forModels = () => ({
  ...admission(),
  model: 'default',
  max_steps: 9,
  max_tokens: null,
  max_cost_microusd: null,
});

const userMessage = (text: string) => [{ role: 'user', parts: [{ type: 'text', text }] }];

async function modelCall(world: IdleWorld) {
  return world.modeld.generate({
    body: { model: 'default', messages: userMessage('hello') as never },
  });
}

export const ROWS = rows({
  generate: {
    cites: '[R290]',
    good: async (world) => ({
      run: world.someRun,
      body: { model: 'default', messages: userMessage('hello'), purpose: 'a test' },
    }),
    check: (response: { rehearsal: boolean; message: { role: string } }) => {
      assert.equal(response.rehearsal, true);
      assert.equal(response.message.role, 'assistant');
    },
    bad: [
      ['neither messages nor a reference', () => ({ body: { model: 'default' } }), 'bad_request'],
      [
        'an unknown part type',
        (g) => withBody(g, { messages: [{ role: 'user', parts: [{ type: 'smoke' }] }] }),
        'bad_request',
      ],
    ],
  },
  embed: {
    cites: '[R291]',
    good: async (world) => ({ run: world.someRun, body: { model: 'embed', input: ['a', 'b'] } }),
    check: (response: { embeddings: unknown[] }) => assert.equal(response.embeddings.length, 2),
    bad: [['an empty text', (g) => withBody(g, { input: [''] }), 'bad_request']],
  },
  embedMemories: {
    good: async (world) => ({
      body: {
        model: 'embed',
        input: [
          { text: 'a', memory: { id: `memory_${'0'.repeat(26)}`, version: 1 } },
          { text: 'b' },
        ],
        labels: ['agent'],
        principal: 'agent:worker',
        run_id: world.someRun.id,
      },
    }),
    check: (response: { embeddings: unknown[]; recorded: boolean }) =>
      assert.deepEqual([response.embeddings.length, response.recorded], [2, false]),
    unknownRun: 'fine',
    bad: [
      ['an empty text', (g) => withBody(g, { input: [{ text: '' }] }), 'bad_request'],
      ['nobody who pays', (g) => withBody(g, { principal: 'somebody' }), 'bad_request'],
    ],
  },
  watchLive: {
    good: async (world) => ({ query: { root_task_id: world.someRun.taskId, seconds: '1' } }),
    bad: [['no task', (good) => ({ ...good, query: { seconds: '1' } }), 'bad_request']],
  },
  listModels: { cites: '[R292]', good: async (world) => ({ run: world.someRun }) },
  usage: {
    cites: '[R293]',
    good: async () => ({ query: { since: '2026-01-01T00:00:00Z', by: 'person' } }),
  },
  listBudgets: { good: nothing },
  setBudget: {
    good: async () => ({ body: { subject: 'agent', name: `a${made++}`, tokens_limit: 1_000 } }),
    check: (response: { budget: { tokens_limit: number } }) =>
      assert.equal(response.budget.tokens_limit, 1_000),
    bad: [
      ['no name for an agent', () => ({ body: { subject: 'agent' } }), 'bad_request'],
      ['a name for the site', () => ({ body: { subject: 'site', name: 'x' } }), 'bad_request'],
      ['a period for an agent', (g) => withBody(g, { period: 'month' }), 'bad_request'],
    ],
  },
  setAlias: {
    good: async () => ({ body: { pattern: `alias-${made++}-*`, model: 'default' } }),
    check: (response: { aliases: { set_by: string }[] }) =>
      assert.equal(response.aliases[0]!.set_by, 'operator'),
    bad: [
      ['a model that nobody offers', (g) => withBody(g, { model: 'gone' }), 'not_found'],
      ['the name default', (g) => withBody(g, { pattern: 'default' }), 'bad_request'],
    ],
  },
  testModel: {
    good: async () => ({ body: { name: 'default' } }),
    check: (response: { ok: boolean }) => assert.equal(response.ok, true),
  },
  listCalls: {
    good: async (world) => {
      await modelCall(world);
      return { query: { limit: '3' } };
    },
    bad: [['an invalid cursor', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  getCall: { good: async (world) => ({ params: { id: (await modelCall(world)).call_id } }) },
  forgetPart: {
    unknownId: 'fine',
    good: async (world) => {
      const body = { model: 'default', messages: userMessage(`forget me ${made++}`) as never };
      const { call_id } = await world.modeld.generate({ body });
      const { call } = await world.modeld.getCall({ params: { id: call_id } });
      return { params: { hash: call.context.at(-1)! } };
    },
    check: (response: { forgotten: boolean }) => assert.equal(response.forgotten, true),
  },
  openaiChat: {
    vendor: true,
    good: async (world) => ({
      run: world.someRun,
      body: { model: 'default', messages: [{ role: 'user', content: 'hello' }] },
    }),
    check: (response: { object: string }) => assert.equal(response.object, 'chat.completion'),
    bad: [
      ['no messages', (g) => withBody(g, { messages: undefined }), 'bad_request'],
      ['a message of no role', (g) => withBody(g, { messages: [{}] }), 'provider_refused'],
    ],
  },
  openaiResponses: {
    vendor: true,
    good: async (world) => ({ run: world.someRun, body: { model: 'default', input: 'hello' } }),
    check: (response: { object: string }) => assert.equal(response.object, 'response'),
    bad: [
      ['no input', (g) => withBody(g, { input: undefined }), 'bad_request'],
      [
        'a response that is stored elsewhere',
        (g) => withBody(g, { previous_response_id: 'resp_1' }),
        'bad_request',
      ],
      ['a message of no role', (g) => withBody(g, { input: [{}] }), 'provider_refused'],
    ],
  },
  openaiEmbeddings: {
    vendor: true,
    good: async (world) => ({
      run: world.someRun,
      body: { model: 'embed', input: ['a', 'b'], encoding_format: 'float' },
    }),
    check: (response: { data: unknown[] }) => assert.equal(response.data.length, 2),
    bad: [
      ['no input', (g) => withBody(g, { input: undefined }), 'bad_request'],
      ['an empty text', (g) => withBody(g, { input: ['a', ''] }), 'bad_request'],
      ['an unknown field', (g) => withBody(g, { input_type: 'query' }), 'bad_request'],
      ['an unknown format', (g) => withBody(g, { encoding_format: 'int8' }), 'bad_request'],
      ['no dimensions', (g) => withBody(g, { dimensions: 0 }), 'bad_request'],
    ],
  },
  openaiModels: {
    good: async (world) => ({ run: world.someRun }),
    check: (response: { object: string }) => assert.equal(response.object, 'list'),
  },
  openaiModel: {
    good: async (world) => ({ run: world.someRun, params: { id: 'rehearsal-large' } }),
    check: (response: { id: string }) => assert.equal(response.id, 'rehearsal-large'),
  },
  anthropicMessages: {
    vendor: true,
    good: async (world) => ({
      run: world.someRun,
      body: { model: 'default', max_tokens: 50, messages: [{ role: 'user', content: 'hello' }] },
    }),
    check: (response: { type: string }) => assert.equal(response.type, 'message'),
    bad: [['no messages', (g) => withBody(g, { messages: undefined }), 'bad_request']],
  },
  anthropicCountTokens: {
    vendor: true,
    good: async (world) => ({
      run: world.someRun,
      query: { beta: 'true' },
      body: { model: 'default', messages: [{ role: 'user', content: 'hello' }] },
    }),
    check: (response: { input_tokens: number }) => assert.ok(response.input_tokens > 0),
    bad: [['no messages', (g) => withBody(g, { messages: undefined }), 'bad_request']],
  },
  anthropicModels: {
    good: async (world) => ({ run: world.someRun }),
    check: (response: { has_more: boolean }) => assert.equal(response.has_more, false),
  },
  anthropicModel: {
    good: async (world) => ({ run: world.someRun, params: { id: 'rehearsal-large' } }),
    check: (response: { id: string }) => assert.equal(response.id, 'rehearsal-large'),
  },
  createKey: {
    good: async () => ({ body: { name: `k${made++}`, models: ['gpt-*'], owner: 'alice' } }),
    check: (response: { key: { secret: string; models: string[] } }) => {
      assert.match(response.key.secret, /^agentd_[0-9A-Za-z]{61}$/);
      assert.deepEqual(response.key.models, ['gpt-*']);
    },
    bad: [
      ['a name in use', (g) => withBody(g, { name: 'tester' }), 'conflict'],
      [
        'an end in the past',
        (g) => withBody(g, { expires_at: '2000-01-01T00:00:00Z' }),
        'bad_request',
      ],
    ],
  },
  listKeys: {
    good: nothing,
    check: (response: { keys: object[] }) => {
      assert.ok(response.keys.length > 0);
      assert.ok(response.keys.every((key) => !('secret' in key)));
    },
  },
  getKey: { good: async () => ({ params: { name: 'tester' } }) },
  rotateKey: {
    good: async (world) => {
      const { key } = await world.modeld.createKey({ body: { name: `k${made++}` } });
      return { params: { name: key.name }, body: { overlap_s: 60 } };
    },
    check: (response: { key: { secrets: object[] } }) =>
      assert.equal(response.key.secrets.length, 2),
  },
  revokeKey: {
    good: async (world) => {
      const { key } = await world.modeld.createKey({ body: { name: `k${made++}` } });
      return { params: { name: key.name } };
    },
    check: (response: { key: { status: string } }) => assert.equal(response.key.status, 'revoked'),
  },
  admitRun: {
    unknownId: 'fine',
    good: async () => ({ params: { id: freshRun() }, body: forModels() }),
  },
  dismissRun: {
    unknownId: 'fine',
    good: async () => ({ params: { id: freshRun() }, query: { fence: '1' } }),
  },
  markRun: {
    unknownId: 'fine',
    good: async () => ({ params: { id: freshRun() }, body: { labels: ['outside'] } }),
    check: (response: { labels: string[] }) => assert.deepEqual(response.labels, ['outside']),
    bad: [['no label', (g) => withBody(g, { labels: [] }), 'bad_request']],
  },
  // Last: afterwards the model names are routed to this provider, which does not respond.
  addProvider: {
    unknownId: 'fine',
    good: async () => ({
      params: { name: `p${made++}` },
      body: { dialect: 'openai', base_url: 'http://127.0.0.1:9/v1', key: 'k', models: ['m'] },
    }),
    check: (response: { provider: { has_key: boolean } }) =>
      assert.equal(response.provider.has_key, true),
    bad: [['an invalid base URL', (g) => withBody(g, { base_url: 'ftp://x' }), 'bad_request']],
  },
  removeProvider: {
    good: async (world) => {
      const name = `p${made++}`;
      const body = { dialect: 'openai', base_url: 'http://127.0.0.1:9/v1', models: ['n'] } as const;
      await world.modeld.addProvider({ params: { name }, body: { ...body, models: ['n'] } });
      return { params: { name } };
    },
    check: (response: { provider: null }) => assert.equal(response.provider, null),
    bad: [['a model it does not have', (g) => ({ ...g, query: { model: 'x' } }), 'not_found']],
  },
  prune: pruneRow,
  eraseCopies: eraseCopiesRow,
  pruneContexts: pruneRow,
  prunePeoplesCalls: {
    good: async () => ({ body: { before: '2000-01-01T00:00:00Z', limit: 10 } }),
    check: (answer: { rows: number }) => assert.equal(answer.rows, 0),
    bad: [['no limit', (g) => withBody(g, { limit: 0 }), 'bad_request']],
  },
  listContexts: { good: async () => ({ query: { limit: '10' } }) },
  contextSizes: { good: async () => ({}) },
  expireTombstones: expireRow,
});

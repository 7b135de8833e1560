// The rows of modeld's routes.
import assert from 'node:assert/strict';
import type { Quiet } from '../support/callers.ts';
import { admission, freshRun } from './admission.ts';
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

const said = (text: string) => [{ role: 'user', parts: [{ type: 'text', text }] }];

async function modelCall(world: Quiet) {
  return world.modeld.generate({ body: { model: 'default', messages: said('hello') as never } });
}

export const ROWS = rows({
  generate: {
    cites: '[R290]',
    good: async (world) => ({
      run: world.someRun,
      body: { model: 'default', messages: said('hello'), purpose: 'a test' },
    }),
    check: (answer: { rehearsal: boolean; message: { role: string } }) => {
      assert.equal(answer.rehearsal, true);
      assert.equal(answer.message.role, 'assistant');
    },
    bad: [
      ['neither messages nor a reference', () => ({ body: { model: 'default' } }), 'bad_request'],
      [
        'a part of no kind',
        (g) => withBody(g, { messages: [{ role: 'user', parts: [{ type: 'smoke' }] }] }),
        'bad_request',
      ],
    ],
  },
  embed: {
    cites: '[R291]',
    good: async (world) => ({ run: world.someRun, body: { model: 'embed', input: ['a', 'b'] } }),
    check: (answer: { embeddings: unknown[] }) => assert.equal(answer.embeddings.length, 2),
    bad: [['an empty text', (g) => withBody(g, { input: [''] }), 'bad_request']],
  },
  listModels: { cites: '[R292]', good: async (world) => ({ run: world.someRun }) },
  usage: { cites: '[R293]', good: async () => ({ query: { since: '2026-01-01T00:00:00Z' } }) },
  listBudgets: { good: nothing },
  setBudget: {
    good: async () => ({ body: { subject: 'agent', name: `a${made++}`, tokens_limit: 1_000 } }),
    check: (answer: { budget: { tokens_limit: number } }) =>
      assert.equal(answer.budget.tokens_limit, 1_000),
    bad: [
      ['no name for an agent', () => ({ body: { subject: 'agent' } }), 'bad_request'],
      ['a name for the site', () => ({ body: { subject: 'site', name: 'x' } }), 'bad_request'],
    ],
  },
  testModel: {
    good: async () => ({ body: { name: 'default' } }),
    check: (answer: { ok: boolean }) => assert.equal(answer.ok, true),
  },
  listCalls: {
    good: async (world) => {
      await modelCall(world);
      return { query: { limit: '3' } };
    },
    bad: [['a cursor of nobody', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  getCall: { good: async (world) => ({ params: { id: (await modelCall(world)).call_id } }) },
  forgetPart: {
    unknownId: 'fine',
    good: async (world) => {
      const body = { model: 'default', messages: said(`forget me ${made++}`) as never };
      const { call_id } = await world.modeld.generate({ body });
      const { call } = await world.modeld.getCall({ params: { id: call_id } });
      return { params: { hash: call.context.at(-1)! } };
    },
    check: (answer: { forgotten: boolean }) => assert.equal(answer.forgotten, true),
  },
  openaiChat: {
    vendor: true,
    good: async (world) => ({
      run: world.someRun,
      body: { model: 'default', messages: [{ role: 'user', content: 'hello' }] },
    }),
    check: (answer: { object: string }) => assert.equal(answer.object, 'chat.completion'),
    bad: [
      ['no messages', (g) => withBody(g, { messages: undefined }), 'bad_request'],
      ['a message of no role', (g) => withBody(g, { messages: [{}] }), 'provider_refused'],
    ],
  },
  openaiModels: {
    good: async (world) => ({ run: world.someRun }),
    check: (answer: { object: string }) => assert.equal(answer.object, 'list'),
  },
  anthropicMessages: {
    vendor: true,
    good: async (world) => ({
      run: world.someRun,
      body: { model: 'default', max_tokens: 50, messages: [{ role: 'user', content: 'hello' }] },
    }),
    check: (answer: { type: string }) => assert.equal(answer.type, 'message'),
    bad: [['no messages', (g) => withBody(g, { messages: undefined }), 'bad_request']],
  },
  anthropicModels: {
    good: async (world) => ({ run: world.someRun }),
    check: (answer: { has_more: boolean }) => assert.equal(answer.has_more, false),
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
    check: (answer: { labels: string[] }) => assert.deepEqual(answer.labels, ['outside']),
    bad: [['no label', (g) => withBody(g, { labels: [] }), 'bad_request']],
  },
  // Last: from then on the names of models mean the provider, and nobody answers there.
  addProvider: {
    unknownId: 'fine',
    good: async () => ({
      params: { name: `p${made++}` },
      body: { dialect: 'openai', base_url: 'http://127.0.0.1:9/v1', key: 'k', models: ['m'] },
    }),
    check: (answer: { provider: { has_key: boolean } }) =>
      assert.equal(answer.provider.has_key, true),
    bad: [
      ['a base that is no address', (g) => withBody(g, { base_url: 'ftp://x' }), 'bad_request'],
    ],
  },
});

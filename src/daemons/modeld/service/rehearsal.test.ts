// Tests the rehearsal, which responds to every name, in every dialect, while no provider is set.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { RawReply } from '../../../platform/dispatch.ts';
import {
  freshStateDir,
  type Modeld,
  OPERATOR,
  rejects,
  startModeld,
  userMessage,
} from '../testing/harness.ts';
import { type FakeProvider, startProvider } from '../testing/provider.ts';

const REHEARSAL = join(import.meta.dirname, '../../../../rehearsal/main.ts');

describe('the rehearsal', () => {
  let child: ChildProcess;
  let modeld: Modeld;
  let provider: FakeProvider;
  before(async () => {
    const address = join(freshStateDir(), 'r.sock');
    child = spawn(process.execPath, [REHEARSAL, '--listen', address, '--exit-with-stdin'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    await new Promise<void>((resolve, reject) => {
      child.stdout!.once('data', () => resolve());
      child.once('exit', (code) => reject(new Error(`the rehearsal ended with ${code}`)));
    });
    modeld = await startModeld({ config: { rehearsal: { address: `unix:${address}` } } });
    provider = await startProvider();
  });
  after(async () => {
    await modeld.stop();
    await provider.close();
    child.kill('SIGKILL');
  });

  test('every name is its large model, flagged and free', async () => {
    const response = await modeld.operator.generate({
      body: { model: 'coder-large', messages: [userMessage('What is 2 + 2?', ['secret'])] },
    });
    assert.equal(response.rehearsal, true);
    assert.equal(response.provider, 'rehearsal');
    assert.equal(response.model, 'rehearsal-large');
    assert.equal(response.cost_microusd, 0);
    assert.ok(response.usage.input_tokens > 0);
    const { models } = await modeld.operator.listModels({});
    assert.ok(models.every((model) => model.rehearsal));
  });

  test('clients of both vendors are passed through to it', async () => {
    const bodies = {
      '/openai/v1/chat/completions': {
        model: 'gpt-9',
        messages: [{ role: 'user', content: 'hi' }],
      },
      '/anthropic/v1/messages': {
        model: 'claude-9',
        max_tokens: 100,
        messages: [{ role: 'user', content: 'hi' }],
      },
    };
    for (const [path, body] of Object.entries(bodies)) {
      const response = await modeld.dispatch.run({
        method: 'POST',
        path,
        query: {},
        body,
        rawBody: JSON.stringify(body),
        caller: OPERATOR,
      });
      assert.ok(response instanceof RawReply);
      assert.equal(response.headers['agentd-rehearsal'], 'true');
      assert.match(String(response.body), /"usage"/);
    }
  });

  test('it embeds', async () => {
    const response = await modeld.operator.embed({ body: { model: 'memory', input: ['one'] } });
    assert.equal(response.rehearsal, true);
    assert.equal(response.embeddings[0]!.length, 256);
  });

  test('it can be tested', async () => {
    for (const name of ['rehearsal', 'rehearsal-small', 'default']) {
      const result = await modeld.operator.testModel({ body: { name } });
      assert.equal(result.ok, true, result.message);
      assert.equal(result.rehearsal, true);
      const { abilities } = result.routes[0]!;
      assert.ok(
        abilities.every((one) => one.result === 'yes'),
        JSON.stringify(abilities),
      );
    }
  });

  test('an unknown name works in a call and is an error in a model test', async () => {
    const ask = { model: 'rehearsal-lrage', messages: [userMessage('hi')] };
    assert.equal((await modeld.operator.generate({ body: ask })).rehearsal, true);
    const tried = modeld.operator.testModel({ body: { name: 'rehearsal-lrage' } });
    const refused = await rejects(tried, 'not_found');
    assert.match(
      refused.message,
      /model rehearsal-lrage not found; did you mean rehearsal-large\?/,
    );
    assert.match(refused.hint, /agentctl model list/);
  });

  test('once a real provider offers a model, names resolve to it', async () => {
    await modeld.operator.addProvider({
      params: { name: 'real' },
      body: { dialect: 'openai', base_url: provider.url },
    });
    const ask = (model: string) =>
      modeld.operator.generate({ body: { model, messages: [userMessage('hi')] } });
    assert.equal((await ask('coder-large')).rehearsal, true, 'it offers no model yet');
    await modeld.operator.addProvider({
      params: { name: 'real' },
      body: { dialect: 'openai', base_url: provider.url, models: ['gpt-test'] },
    });
    await rejects(ask('coder-large'), 'not_found');
    const response = await ask('default');
    assert.equal(response.rehearsal, false);
    assert.equal(response.provider, 'real');
    assert.equal((await ask('rehearsal-large')).rehearsal, true);
  });
});

// The names of models in a person's program: what stands for a name that its agent may not use,
// what a person can choose instead, and what a rule still forbids.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { publishPolicy } from '../../../policy/testing/publish.ts';
import type { RunCaller } from '../../../wire/caller.ts';
import {
  admission,
  type Modeld,
  rejects,
  runCaller,
  runId,
  startModeld,
  until,
  userMessage,
} from '../testing/harness.ts';
import { type FakeProvider, startProvider } from '../testing/provider.ts';

const AGENTS = { coder: { model: 'small' } };
const permit = (model: string) =>
  `permit (principal is Agent, action == Action::"model.use", resource == Model::"${model}");`;
const forbid = (model: string) =>
  `@why("too dear") forbid (principal is Agent, action == Action::"model.use", resource == Model::"${model}");`;

describe('the model of a program', () => {
  let provider: FakeProvider;
  let modeld: Modeld;
  before(async () => {
    provider = await startProvider();
  });
  after(() => provider.close());
  beforeEach(async () => {
    provider.requests.length = 0;
    const to = (model: string) => ({ routes: [{ provider: 'local', model }] });
    modeld = await startModeld({
      policy: { agents: AGENTS, site: '' },
      config: {
        providers: {
          local: { dialect: 'openai', base_url: `${provider.url}/v1`, models: ['s', 'l'] },
        },
        models: { small: to('s'), large: to('l') },
      },
    });
  });
  afterEach(() => modeld.stop());

  const program: RunCaller = { ...runCaller(1, 1), isProgram: true };
  const admit = (chosen?: string) =>
    modeld.agentd.admitRun({
      params: { id: runId(1) },
      body: admission(1, {
        model: 'small',
        is_program: true,
        ...(chosen === undefined ? {} : { chosen_model: chosen }),
      }),
    });
  const ask = async (model: string, as = program): Promise<unknown> => {
    const messages = [{ role: 'user', content: 'hi' }];
    await modeld.as(as).openaiChat({ query: {}, body: { model, messages } });
    return provider.requests.at(-1)?.body.model;
  };
  const publish = async (site: string, version = 2) => {
    publishPolicy(modeld.stateDir, { agents: AGENTS, site, version });
    await until(() => modeld.allOutput().includes(`"version":${version}`), 'the new policy');
  };

  it('is its agent’s for every name that the agent may not use', async () => {
    await admit();
    assert.equal(await ask('claude-of-tomorrow'), 's');
    assert.equal(await ask('large'), 's');
    assert.equal(await ask('small'), 's');
  });

  it('is the one it names where a rule permits that', async () => {
    await admit();
    await publish(permit('large'));
    assert.equal(await ask('large'), 'l');
  });

  it('is the one that a person chose, whatever it names', async () => {
    await admit('large');
    assert.equal(await ask('small'), 'l');
    assert.equal(await ask('gpt-of-tomorrow'), 'l');
  });

  it('is not one that a rule forbids: neither the chosen one nor its agent’s', async () => {
    await admit('large');
    await publish(forbid('large'));
    assert.match((await rejects(ask('small'), 'denied')).message, /too dear/);
    await publish(forbid('small'), 3);
    assert.match((await rejects(ask('large'), 'denied')).message, /too dear/);
  });

  it('is asked for on the vendors’ routes only; an agent’s run has the others too', async () => {
    await admit();
    const asks = { model: 'small', messages: [userMessage('hi')] };
    await rejects(modeld.as(program).generate({ body: asks }), 'forbidden_caller');
    await rejects(modeld.as(program).listModels({}), 'forbidden_caller');
    assert.equal(provider.requests.length, 0);
    await modeld.as(runCaller(1, 1)).generate({ body: asks });
    assert.equal(provider.requests.length, 1);
  });
});

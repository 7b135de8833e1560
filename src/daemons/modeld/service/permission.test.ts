// Tests policy on model use: decided on every call and recorded in the log.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { readDecision } from '../../../policy/recorded.ts';
import { publishPolicy } from '../../../policy/testing/publish.ts';
import type { AuditEvent } from '../../../wire/events.ts';
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
const NOT_OUTSIDE = `@why("text from outside stays with small models")
forbid (principal is Agent, action == Action::"model.use", resource == Model::"small")
when { context.labels.contains("outside") };`;
const ASK = `@ask("money") forbid (principal is Agent, action == Action::"model.use", resource);`;

describe('[R314] policy about models', () => {
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
    await modeld.agentd.admitRun({ params: { id: runId(1) }, body: admission(1) });
  });
  afterEach(() => modeld.stop());

  const ask = (model: string, labels?: 'outside'[]) =>
    modeld
      .as(runCaller(1, 1))
      .generate({ body: { model, messages: [userMessage('hello', labels)] } });
  const publish = async (version: number, site: string) => {
    publishPolicy(modeld.stateDir, { version, agents: AGENTS, site });
    await until(() => modeld.allOutput().includes(`"version":${version}`), 'the new policy');
  };
  const eventsOf = (event: string) => modeld.events.filter((one) => one.event === event);

  test("the manifest's model is allowed, any other is denied, and both are logged", async () => {
    await ask('small');
    const refused = await rejects(ask('large'), 'denied');
    assert.match(refused.message, /does not let coder use model large: no rule allows/);
    await rejects(ask('a name that only the default would answer'), 'denied');
    assert.equal(provider.requests.length, 1);
    const [made] = eventsOf('model.call.attempted');
    assert.equal(made?.policy, 'manifest:coder:model.use:1');
    await until(() => eventsOf('model.call.refused').length > 0, 'the refusal in the log');
    const [denied] = eventsOf('model.call.refused');
    assert.deepEqual(
      [denied?.status, denied?.allowed, denied?.data?.answer],
      ['denied', false, 'deny'],
    );
  });

  test('a rule can permit the same call; policy does not apply to people', async () => {
    await modeld.operator.generate({ body: { model: 'large', messages: [userMessage('I may')] } });
    await publish(
      2,
      'permit (principal is Agent, action == Action::"model.use", resource == Model::"large");',
    );
    await ask('large');
    assert.equal(provider.requests.length, 2);
  });

  test('a revoked capability takes effect on the next call', async () => {
    await ask('small');
    await publish(
      2,
      'forbid (principal == Agent::"coder", action == Action::"model.use", resource);',
    );
    await rejects(ask('small'), 'denied');
  });

  test('labels of the text and of the run apply', async () => {
    await publish(2, NOT_OUTSIDE);
    await ask('small');
    const refused = await rejects(ask('small', ['outside']), 'denied');
    assert.match(refused.message, /text from outside stays with small models/);
    const labels = { labels: ['outside' as const] };
    await modeld.agentd.markRun({ params: { id: runId(1) }, body: labels });
    await rejects(ask('small'), 'denied');
  });

  test('where policy asks for approval, the call is denied with the reason', async () => {
    await publish(2, ASK);
    const refused = await rejects(ask('small'), 'denied');
    assert.match(refused.message, /without approval, and a step cannot wait: .*money/);
  });

  test('decisions are read back from the log', async () => {
    await ask('small');
    const [event] = eventsOf('model.call.attempted');
    const read = readDecision({ ...event, seq: 0 } as AuditEvent)!;
    assert.deepEqual(
      [read.tool, read.answer, read.agent, read.isWhole],
      ['model.use', 'allow', 'coder', true],
    );
    assert.deepEqual(read.requests[0]?.resource, { type: 'Model', id: 'small' });
  });
});

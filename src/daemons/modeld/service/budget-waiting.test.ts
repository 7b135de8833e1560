// Tests calls that ask for more than is left while others are under way: they wait, their output is
// cut no further than is useful, and no budget is overspent.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { RawReply } from '../../../platform/dispatch.ts';
import { type Modeld, OPERATOR, rejects, startModeld, until } from '../testing/harness.ts';
import { type FakeProvider, type ProviderPlay, startProvider } from '../testing/provider.ts';

const event = (value: { type: string; [name: string]: unknown }): string =>
  `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;

describe('calls that wait for a budget', () => {
  let provider: FakeProvider;
  let modeld: Modeld;
  let controllers: AbortController[];
  beforeEach(async () => {
    controllers = [];
    provider = await startProvider();
    provider.usual = streams(5, 0.02);
  });
  afterEach(async () => {
    await modeld.stop();
    await provider.close();
  });

  const start = async (costUsd: number) => {
    modeld = await startModeld({
      config: {
        providers: { up: { dialect: 'anthropic', base_url: provider.url, models: ['claude-up'] } },
        models: {
          big: {
            routes: [{ provider: 'up', model: 'claude-up' }],
            context_tokens: 200_000,
            max_output_tokens: 128_000,
          },
        },
        prices: { 'claude-up': { input: 1, output: 10 } },
        budgets: { site: { cost_usd: costUsd } },
      },
    });
  };

  const send = async (more: object = {}, deadlineMs?: number): Promise<string> => {
    const messages = [{ role: 'user', content: 'hi' }];
    const body = { model: 'big', max_tokens: 128_000, stream: true, messages, ...more };
    const controller = new AbortController();
    controllers.push(controller);
    const reply = await modeld.dispatch.run({
      method: 'POST',
      path: '/anthropic/v1/messages',
      query: { beta: 'true' },
      body,
      rawBody: JSON.stringify(body),
      caller: OPERATOR,
      signal: controller.signal,
      deadlineMs,
    });
    assert.ok(reply instanceof RawReply);
    let text = '';
    for await (const piece of reply.body as AsyncIterable<Buffer>) text += piece.toString();
    return text;
  };

  /** Streams for this long and reports this share of what it was allowed. */
  const streams =
    (ms: number, share = 1): ProviderPlay =>
    async ({ body, response }) => {
      const outputTokens = Math.floor((body.max_tokens as number) * share);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(
        event({ type: 'message_start', message: { id: 'm', usage: { input_tokens: 5 } } }),
      );
      await new Promise((resolve) => setTimeout(resolve, ms));
      response.write(
        event({
          type: 'message_delta',
          delta: { stop_reason: 'end_turn' },
          usage: { output_tokens: outputTokens },
        }),
      );
      response.end(event({ type: 'message_stop' }));
    };

  const readSite = async () => {
    const { budgets } = await modeld.operator.listBudgets({});
    return budgets.find(({ subject }) => subject === 'site')!;
  };
  const asked = (): number[] => provider.requests.map(({ body }) => body.max_tokens as number);

  test('50 streams at once that ask for 128,000 tokens each: all end, none overspends', async () => {
    await start(2);
    let worst = 0;
    let most = 0;
    const watch = setInterval(async () => {
      const { cost_spent_microusd, cost_reserved_microusd } = await readSite();
      worst = Math.max(worst, cost_spent_microusd + cost_reserved_microusd);
      most = Math.max(most, cost_reserved_microusd);
    }, 2);
    const ends = await Promise.all(Array.from({ length: 50 }, () => send()));
    clearInterval(watch);
    for (const text of ends) assert.match(text, /message_stop/);
    const site = await readSite();
    assert.equal(provider.requests.length, 50);
    assert.ok(most > 1_000_000, 'control: together they wanted more than there was');
    assert.ok(worst <= 2_000_000, `${worst} of 2,000,000`);
    assert.ok(site.cost_spent_microusd <= 2_000_000);
    assert.equal(site.cost_reserved_microusd, 0);
    assert.ok(Math.min(...asked()) >= 4_096, 'none was cut to little while others were under way');
  });

  test('a call waits for the one before it and then gets what is left', async () => {
    await start(1.3);
    provider.plays.push(streams(100, 0.5));
    const first = send();
    await until(() => provider.requests.length === 1, 'the first call');
    const second = send();
    await first;
    await second;
    assert.equal(asked()[0], 128_000);
    // The first has used half of what it had reserved.
    assert.ok(asked()[1]! > 60_000 && asked()[1]! < 70_000, String(asked()));
  });

  test('without others under way, the output is cut to what is left', async () => {
    await start(0.01);
    await send();
    assert.ok(asked()[0]! < 1_000 && asked()[0]! > 16, String(asked()));
  });

  test('the output is never cut below the budget of thinking; the refusal says what to do', async () => {
    await start(0.05);
    const thinking = { type: 'enabled', budget_tokens: 10_000 };
    const refused = await rejects(send({ thinking }), 'budget');
    assert.match(
      refused.message,
      /the site budget has \$0\.05 left of \$0\.05; this call may need/,
    );
    assert.match(refused.hint, /An operator can raise it: agentctl model budget site --cost USD/);
    assert.equal(provider.requests.length, 0);
    await send({ thinking: { type: 'enabled', budget_tokens: 2_000 } });
    assert.ok(asked()[0]! > 2_000 && asked()[0]! < 5_000, String(asked()));
  });

  test('a wait ends with its deadline, and a caller that hangs up leaves at once', async () => {
    await start(1.2803);
    provider.plays.push(streams(400));
    const first = send();
    await until(() => provider.requests.length === 1, 'the first call');
    const late = await rejects(send({}, 100), 'budget');
    assert.match(late.message, /calls under way may use \$1\.28/);
    const gone = send();
    await new Promise((resolve) => setTimeout(resolve, 20));
    controllers.at(-1)!.abort();
    await rejects(gone, 'canceled');
    await first;
    assert.equal(provider.requests.length, 1);
    assert.equal((await readSite()).cost_reserved_microusd, 0);
  });

  test('a raised limit lets the waiting go on', async () => {
    await start(1.2803);
    provider.plays.push(streams(2_000));
    const first = send();
    await until(() => provider.requests.length === 1, 'the first call');
    const second = send();
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(provider.requests.length, 1);
    await modeld.operator.setBudget({
      body: { subject: 'site', cost_limit_microusd: 5_000_000 },
    });
    await second;
    assert.equal(provider.requests.length, 2);
    await first;
  });

  test('what a stopping daemon cannot start is refused', async () => {
    await start(1.2803);
    provider.plays.push(streams(100));
    const first = send();
    await until(() => provider.requests.length === 1, 'the first call');
    const second = send();
    await new Promise((resolve) => setTimeout(resolve, 20));
    await Promise.all([modeld.drain(), rejects(second, 'stopping')]);
    await first;
  });
});

// API keys, made with agentctl, used by curl and both vendors' SDKs against a real runtime: what
// they open, what they see of models, and how each way to end one is reported.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, it } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { agentctl, documentOf } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import type { AuditEvent } from '../../src/wire/events.ts';
import { eventually } from '../support/runtime.ts';
import { startForClients, type VendorClients } from './setup.ts';

type Made = { name: string; secret: string };
const messages = [{ role: 'user' as const, content: 'How is the weather?' }];

describe('API keys', () => {
  let clients: VendorClients;
  before(async () => {
    clients = await startForClients();
  });
  after(() => clients.close());

  const ctl = (...argv: string[]) =>
    agentctl(argv, { state: clients.runtime.stateDir, env: clients.runtime.env });
  const makeKey = async (...argv: string[]): Promise<Made> => {
    const ran = await ctl('key', 'create', ...argv, '--json');
    assert.equal(ran.code, 0, ran.stderr);
    return documentOf<{ key: Made }>(ran).key;
  };
  const openai = ({ secret }: Made) =>
    new OpenAI({ baseURL: `${clients.url}/openai/v1`, apiKey: secret, maxRetries: 0 });
  const anthropic = ({ secret }: Made) =>
    new Anthropic({ baseURL: `${clients.url}/anthropic`, apiKey: secret, maxRetries: 0 });
  const chat = (made: Made, model = 'gpt-up') =>
    openai(made).chat.completions.create({ model, messages });
  const message = (made: Made, model = 'claude-up') =>
    anthropic(made).messages.create({ model, max_tokens: 100, messages });
  const curl = (...argv: string[]) =>
    new Promise<{ status: number; body: string }>((resolve, reject) => {
      execFile('curl', ['-sS', '-w', '\n%{http_code}', ...argv], (error, out) => {
        if (error !== null) return reject(error);
        const at = out.lastIndexOf('\n');
        resolve({ status: Number(out.slice(at + 1)), body: out.slice(0, at) });
      });
    });

  it('opens the vendors’ routes to curl and both SDKs, on the port and the socket', async () => {
    const made = await makeKey('sdk');
    assert.equal((await chat(made)).choices[0]!.message.content, 'Hello there.');
    assert.equal((await message(made)).stop_reason, 'end_turn');
    const stream = anthropic(made).messages.stream({
      model: 'claude-up',
      max_tokens: 100,
      messages,
    });
    assert.equal((await stream.finalMessage()).stop_reason, 'end_turn');
    const socket = socketPathFor(clients.runtime.runtimeDir, 'modeld', 'operator');
    const ways = [
      [`${clients.url}/openai/v1/models`],
      ['--unix-socket', socket, 'http://agentd/openai/v1/models'],
    ];
    for (const way of ways)
      for (const header of [`Authorization: Bearer ${made.secret}`, `x-api-key: ${made.secret}`])
        assert.equal((await curl('-H', header, ...way)).status, 200, way.join(' '));
  });

  it('opens nothing else; the operator key does', async () => {
    const made = await makeKey('only-models');
    const get = (path: string, key: string) =>
      curl('-H', `Authorization: Bearer ${key}`, `${clients.url}${path}`);
    for (const path of ['/v1/status', '/v1/models', '/v1/keys', '/v1/audit/events', '/v1/tools']) {
      const refused = await get(path, made.secret);
      assert.equal(refused.status, 403, path);
      assert.match(refused.body, /\/openai\/… and \/anthropic\/…|may not call/);
      assert.equal((await get(path, clients.runtime.operatorKey)).status, 200, path);
    }
  });

  it('the name of the key is in the record and the log; its secret and hash are nowhere', async () => {
    const made = await makeKey('recorded', '--owner', 'alice');
    await chat(made);
    const events = await eventually('the end of the call in the log', async () => {
      const page = await clients.runtime.audit.events({ query: { limit: 1_000 } });
      const isEnd = (event: AuditEvent) =>
        event.event === 'model.call.ended' && event.principal === 'key:recorded';
      return page.events.some(isEnd) ? page.events : undefined;
    });
    const created = events.find(
      ({ event, data }) => event === 'key.created' && data?.key === 'recorded',
    );
    assert.equal(created?.data?.owner, 'alice');
    const listed = await ctl('key', 'list', '--json');
    const shown = await ctl('key', 'show', 'recorded');
    const all = JSON.stringify(events) + listed.stdout + shown.stdout;
    assert.ok(all.includes(made.secret.slice(0, 19)), 'control: the prefix is there');
    assert.ok(!all.includes(made.secret.slice(0, 40)));
    assert.ok(!all.includes(made.secret.slice(19)));
  });

  it('uses only the models it was made for, and lists no others', async () => {
    const made = await makeKey('narrow', '--models', 'claude-*,coder-large');
    assert.equal((await message(made)).stop_reason, 'end_turn');
    assert.equal((await message(made, 'coder-large')).stop_reason, 'end_turn');
    await assert.rejects(chat(made), (error: Error) => {
      assert.ok(error instanceof OpenAI.PermissionDeniedError);
      assert.match(error.message, /key narrow may not use model gpt-up/);
      return true;
    });
    await assert.rejects(message(made, 'gpt-up'), Anthropic.PermissionDeniedError);
    // It is not offered, so it would fall back to the default model, which is another one.
    await assert.rejects(message(made, 'claude-unknown'), Anthropic.PermissionDeniedError);
    const names: string[] = [];
    for await (const { id } of openai(made).models.list()) names.push(id);
    assert.deepEqual(names.sort(), ['claude-up', 'coder-large']);
    assert.ok((await chat(await makeKey('wide'))).choices.length > 0, 'control');
  });

  it('a revoked key is an AuthenticationError that says so, and is in the log once', async () => {
    const made = await makeKey('leaked');
    await chat(made);
    const revoked = await ctl('key', 'revoke', 'leaked');
    assert.equal(revoked.code, 0, revoked.stderr);
    for (const call of [() => chat(made), () => message(made), () => chat(made)])
      await assert.rejects(call(), (error: Error) => {
        assert.ok(
          error instanceof OpenAI.AuthenticationError ||
            error instanceof Anthropic.AuthenticationError,
        );
        assert.match(error.message, /key leaked was revoked at/);
        return true;
      });
    // The refusal is sent to the log after the response.
    const refused = await eventually('the refusal in the log', async () => {
      const { events } = await clients.runtime.audit.events({ query: { limit: 1_000 } });
      const found = events.filter(({ event }) => event === 'key.refused');
      return found.length > 0 ? found : undefined;
    });
    assert.equal(refused.length, 1);
    assert.deepEqual([refused[0]!.principal, refused[0]!.status], ['key:leaked', 'revoked']);
    const again = await ctl('key', 'create', 'leaked');
    assert.equal(again.code, 1);
    assert.match(again.stderr, /key leaked exists and is revoked/);
  });

  it('beyond its rate it gets a RateLimitError with the time to wait, on every route', async () => {
    const made = await makeKey('slow', '--rpm', '2');
    await chat(made);
    await message(made);
    await assert.rejects(chat(made), (error: Error) => {
      assert.ok(error instanceof OpenAI.RateLimitError);
      assert.match(error.message, /key slow may make 2 requests per minute/);
      assert.ok(Number(error.headers.get('retry-after')) >= 1);
      return true;
    });
    await assert.rejects(message(made), Anthropic.RateLimitError);
    const models = [`${clients.url}/openai/v1/models`];
    assert.equal((await curl('-H', `x-api-key: ${made.secret}`, ...models)).status, 429);
    assert.ok((await chat(await makeKey('quick'))).choices.length > 0, 'control');
  });

  it('stops at its budget, and a rotation ends its old secret', async () => {
    const made = await makeKey('thrifty', '--budget', '0.000001/day');
    await assert.rejects(chat(made), /the budget of key thrifty/);
    const shown = await ctl('key', 'show', 'thrifty');
    assert.match(shown.stdout, /budget +\$0\.0000 of <\$0\.0001\/day/);
    const raised = await ctl('model', 'budget', 'key', 'thrifty', '--cost', '5', '--per', 'month');
    assert.equal(raised.code, 0, raised.stderr);
    await chat(made);
    const rotated = await ctl('key', 'rotate', 'thrifty', '--json');
    const next = documentOf<{ key: Made }>(rotated).key;
    await chat(next);
    await assert.rejects(chat(made), /this secret of key thrifty ended at/);
    const overlapping = await ctl('key', 'rotate', 'thrifty', '--overlap', '1h', '--json');
    await chat(documentOf<{ key: Made }>(overlapping).key);
    await chat(next);
    await ctl('key', 'revoke', 'thrifty');
    const late = await ctl('key', 'rotate', 'thrifty');
    assert.match(late.stderr, /key thrifty is revoked/);
  });

  it('lasts over a restart, and so does its end', async () => {
    const kept = await makeKey('kept');
    const ended = await makeKey('ended');
    await ctl('key', 'revoke', 'ended');
    await clients.runtime.stop();
    clients.runtime = await clients.runtime.restart();
    clients.url = `http://127.0.0.1:${clients.runtime.info.port}`;
    await chat(kept);
    await assert.rejects(chat(ended), /key ended was revoked/);
  });

  it('agentctl refuses what it cannot mean, with a hint', async () => {
    for (const [argv, code, message] of [
      [['key', 'create', 'Big Name'], 2, /name: must be 1 to 64 lowercase/],
      [['key', 'create', 'x', '--expires', 'soon'], 2, /soon is not a time/],
      [['key', 'create', 'x', '--models', 'a,,b'], 2, /has an empty name/],
      [['key', 'create', 'x', '--owner', 'a b'], 2, /owner/],
      [['key', 'show', 'wid'], 5, /key wid not found/],
      [['key', 'revoke', 'nothing-like-it'], 5, /agentctl key list/],
    ] as const) {
      const ran = await ctl(...argv);
      assert.equal(ran.code, code, `${argv.join(' ')}: ${ran.stderr}`);
      assert.match(ran.stderr, message);
    }
    const help = await ctl('key', 'create', '--help');
    assert.match(help.stdout, /agentctl key create ci/);
  });
});

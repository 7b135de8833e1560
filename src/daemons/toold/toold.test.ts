// toold as its callers see it, hosted between fake peers: fences, sockets, dismissal, replay,
// reads, and results.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, it } from 'node:test';
import { makeClient, socketLink } from '../../platform/link.ts';
import { fault } from '../../wire/errors.ts';
import { tooldRoutes } from '../../wire/toold.ts';
import { host, restart, setUpEachTest, world } from './testing/each-test.ts';
import {
  ALL_TOOLS,
  advanceUntil,
  allSent,
  effectsIn,
  isCode,
  type TooldTestRun,
} from './testing/host.ts';

setUpEachTest();
let run: TooldTestRun;
beforeEach(async () => {
  run = await host.admit('one');
});

describe('a fence', () => {
  it('that is old is refused, also after a restart', async () => {
    const old = run;
    run = await host.admit('one', { fence: 2 });
    await assert.rejects(old.ask(1, 'test.echo', { text: 'a' }), isCode('stale_fence'));
    await assert.rejects(host.admit('one', { fence: 1 }), isCode('stale_fence'));
    await restart();
    await assert.rejects(host.admit('one', { fence: 1 }), isCode('stale_fence'));
    run = await host.admit('one', { fence: 2 });
    assert.equal((await run.ask(1, 'test.echo', { text: 'a' })).status, 'completed');
  });

  it('that is newer joins a call that an older one has in progress', async () => {
    const slow = run.ask(1, 'test.count_effect', { key: 'a', delay_ms: 10 });
    const newer = await host.admit('one', { fence: 2 });
    const joined = newer.ask(1, 'test.count_effect', { key: 'a', delay_ms: 10 });
    const answers = await advanceUntil(world, Promise.all([slow, joined]));
    assert.deepEqual(
      answers.map((answer) => answer.status),
      ['completed', 'completed'],
    );
    assert.deepEqual(effectsIn(world), ['a']);
  });

  it('that is newer performs the call itself when agentd refuses the older', async () => {
    let begun: () => void = () => {};
    const began = new Promise<void>((resolve) => {
      begun = resolve;
    });
    world.agentd.state.gate = (route) => {
      if (route === 'put') begun();
    };
    world.agentd.state.fenceMin = 2;
    const args = { name: 'n', text: 't' };
    const old = run.ask(1, 'artifact.put', args);
    old.catch(() => undefined);
    const newer = await host.admit('one', { fence: 2 });
    const answer = await newer.ask(1, 'artifact.put', args);
    await began;
    assert.equal(answer.status, 'completed');
    await assert.rejects(old, isCode('stale_fence'));
  });
});

describe('a result', () => {
  it('that is too large becomes an artifact with a preview', async () => {
    await restart({ config: { result_size_bytes_max: 1_024 } });
    run = await host.admit('one', { fence: 2 });
    const answer = await run.ask(1, 'test.echo', { text: 'é'.repeat(2_000) });
    assert.equal(answer.status, 'completed');
    assert.equal(answer.result?.size_bytes, 4_011);
    const stored = [...world.agentd.artifacts.values()][0]!;
    assert.equal(answer.result?.artifact, stored.view.ref);
    assert.equal(JSON.parse(stored.text).text.length, 2_000);
    await allSent(world);
    const ended = world.audit.events.find((e) => e.event === 'tool.call.ended');
    assert.equal(ended?.artifact, stored.view.ref);
  });

  it('of a child that is too large becomes an artifact of its own', async () => {
    const args = { agent: 'researcher', goal: 'find out' };
    const { wait } = await run.ask(1, 'task.delegate', args);
    const result = 'x'.repeat(300_000);
    world.agentd.endWait(wait!.id, { outcome: 'completed', answer: { result } });
    const answer = await run.ask(1, 'task.delegate', args);
    assert.match(String(answer.result?.artifact), /^artifact:\/\/artifact_/);
    assert.ok(String(answer.result?.preview).length < 3_000);
  });

  it('shows no hidden characters', async () => {
    const answer = await run.ask(1, 'test.echo', { text: 'a\u202eb\u0007' });
    assert.deepEqual(answer.result, { text: 'a[U+202E]b[U+0007]' });
  });
});

describe('dismissing a run', () => {
  it('refuses its calls and stops those without an effect yet, to be done later', async () => {
    const args = { key: 'a', delay_ms: 5_000 };
    const slow = run.ask(1, 'test.count_effect', args);
    slow.catch(() => undefined);
    while (world.audit.events.length === 0) await new Promise((resolve) => setImmediate(resolve));
    await allSent(world);
    const params = { id: run.id };
    assert.equal((await host.asAgentd.dismissRun({ params, query: { fence: 1 } })).dismissed, true);
    await assert.rejects(slow, isCode('canceled'));
    await assert.rejects(run.ask(2, 'test.echo', { text: 'a' }), isCode('stale_fence'));
    await assert.rejects(host.admit('one', { fence: 1 }), isCode('stale_fence'));
    run = await host.admit('one', { fence: 2 });
    assert.equal(
      (await advanceUntil(world, run.ask(1, 'test.count_effect', args))).status,
      'completed',
    );
    assert.deepEqual(effectsIn(world), ['a']);
  });

  it('by an old fence leaves the newer activation alone', async () => {
    run = await host.admit('one', { fence: 5 });
    const query = { fence: 4 };
    const { dismissed } = await host.asAgentd.dismissRun({ params: { id: run.id }, query });
    assert.equal(dismissed, false);
    assert.equal((await run.ask(1, 'test.echo', { text: 'a' })).status, 'completed');
  });
});

describe("a run's socket", () => {
  it('is its identity, and exists again after a restart', async () => {
    const link = socketLink({ socketPath: run.socket });
    const client = makeClient(tooldRoutes, link);
    const body = { call_id: run.callId(1), tool: 'test.echo', arguments: { text: 'a' } };
    assert.equal((await client.call({ body })).recorded, false);
    await restart();
    assert.equal((await client.call({ body })).recorded, true);
    await host.asAgentd.dismissRun({ params: { id: run.id }, query: { fence: 1 } });
    await assert.rejects(
      client.call({ body }),
      (e) => isCode('stale_fence')(e) || isCode('unavailable')(e),
    );
    link.close();
    await restart();
    assert.equal(existsSync(run.socket), false);
  });
});

describe('replay', () => {
  it('reads only the record and writes nothing', async () => {
    await run.ask(1, 'test.count_effect', { key: 'a' });
    await allSent(world);
    const before = world.audit.events.length;
    const replay = await host.admit('one', { mode: 'replay', fence: 7 });
    const answer = await replay.ask(1, 'test.count_effect', { key: 'a' });
    assert.deepEqual(answer.result, { counted: 'a' });
    assert.equal(answer.recorded, true);
    const wrong: Promise<unknown>[] = [
      replay.ask(2, 'test.count_effect', { key: 'b' }),
      replay.ask(1, 'test.count_effect', { key: 'b' }),
      replay.ask(1, 'test.echo', { key: 'a' }),
    ];
    for (const asked of wrong) await assert.rejects(asked, isCode('replay_differs'));
    // The live activation goes on under its own, lower fence.
    assert.equal((await run.ask(1, 'test.count_effect', { key: 'a' })).recorded, true);
    await allSent(world);
    assert.equal(world.audit.events.length, before);
    assert.deepEqual(effectsIn(world), ['a']);
  });

  it('shows an open wait as it is, and a call without outcome as a difference', async () => {
    const waiting = await run.ask(1, 'person.ask', { question: 'q' });
    world.agentd.state.gate = () => {
      throw fault('unavailable', 'agentd is away');
    };
    await assert.rejects(run.ask(2, 'timer.wait', { after_s: 1 }), isCode('unavailable'));
    const replay = await host.admit('one', { mode: 'replay' });
    const answer = await replay.ask(1, 'person.ask', { question: 'q' });
    assert.deepEqual(answer, { ...waiting, recorded: true });
    await assert.rejects(replay.ask(2, 'timer.wait', { after_s: 1 }), isCode('replay_differs'));
  });
});

describe('reads', () => {
  it('list to a run only its granted tools, to a person all', async () => {
    const narrow = await host.admit('narrow', { tools: ['task.finish', 'no.such'] });
    const names = async (client: typeof narrow.client) =>
      (await client.listTools({})).tools.map((tool) => tool.name);
    assert.deepEqual(await names(narrow.client), ['task.finish']);
    const all = new Set(await names(host.operator));
    const hands = ['file.read', 'git.diff', 'shell.exec', 'tests.run', 'logs.read', 'http.fetch'];
    for (const tool of [...ALL_TOOLS, ...hands]) assert.ok(all.has(tool), tool);
  });

  it('report invalid declared tools to a person, and nothing of them to a run', async () => {
    const dir = join(world.dir, 'tools');
    mkdirSync(dir);
    writeFileSync(
      join(dir, 'bad.yaml'),
      'name: a.b\ndescription: x\nargv: [/bin/true]\nrisc: low\n',
    );
    await restart({ config: { tools_dir: dir } });
    const { problems } = await host.operator.listTools({});
    assert.match(problems?.[0]?.file ?? '', /bad\.yaml$/);
    assert.match(JSON.stringify(problems), /risc/);
    const run = await host.admit('asks', { fence: 9 });
    assert.equal((await run.client.listTools({})).problems, undefined);
  });

  it('include test tools only if the configuration says so', async () => {
    await restart({ config: { test_tools: false } });
    const { tools } = await host.operator.listTools({});
    assert.equal(tools.filter((tool) => tool.name.startsWith('test.')).length, 0);
    for (const tool of tools) assert.equal(tool.input_schema.type, 'object');
  });

  it('page over calls without losing or repeating one', async () => {
    const two = await host.admit('two');
    for (let i = 0; i < 7; i++) {
      await run.ask(i, 'test.echo', { text: `${i}` });
      await two.ask(i, i % 2 === 0 ? 'test.echo' : 'test.count_effect', { text: 'x', key: `${i}` });
    }
    const all = async (query: object): Promise<string[]> => {
      const ids: string[] = [];
      let cursor: string | null | undefined;
      do {
        const more: object = cursor === undefined ? {} : { cursor };
        const page = await host.operator.listCalls({ query: { limit: 3, ...query, ...more } });
        ids.push(...page.calls.map((call) => call.call_id));
        cursor = page.cursor;
      } while (cursor !== null);
      return ids;
    };
    assert.equal(new Set(await all({})).size, 14);
    assert.equal((await all({})).length, 14);
    const times = (await host.operator.listCalls({ query: { run_id: run.id } })).calls;
    assert.equal(times[0]!.arguments.text, '6', 'newest first');
    assert.equal(times.at(-1)!.arguments.text, '0');
    assert.equal((await all({ run_id: run.id })).length, 7);
    assert.equal((await all({ run_id: two.id, tool: 'test.echo' })).length, 4);
    const { calls } = await host.operator.listCalls({ query: { run_id: two.id, limit: 1 } });
    assert.equal((await all({ task_id: calls[0]!.task_id })).length, 7);
    assert.ok(calls[0]!.created_at.endsWith('Z'));
    await assert.rejects(
      host.operator.listCalls({ query: { cursor: 'x' } }),
      isCode('bad_request'),
    );
  });

  it('show a call to its own run and to people, not to other runs', async () => {
    const params = { id: run.callId(1) };
    await run.ask(1, 'test.echo', { text: 'a' }, { purpose: 'to see' });
    assert.equal((await run.client.getCall({ params })).call.purpose, 'to see');
    assert.equal((await host.operator.getCall({ params })).call.attempts, 1);
    const two = await host.admit('two');
    await assert.rejects(two.client.getCall({ params }), isCode('not_found'));
  });
});

describe('while the audit log accepts nothing', () => {
  it('no call has an effect, and calls go on when the log is back', async () => {
    const args = { key: 'a' };
    world.audit.state.gate = () => {
      throw fault('storage_full', 'the disk of the audit log is full');
    };
    await assert.rejects(run.ask(1, 'test.count_effect', args), isCode('audit_unavailable'));
    assert.deepEqual(effectsIn(world), []);
    await assert.rejects(run.ask(2, 'test.count_effect', args), isCode('audit_unavailable'));
    // By now toold knows that the log accepts nothing, so no new call is even started.
    const params = { id: run.callId(2) };
    await assert.rejects(host.operator.getCall({ params }), isCode('not_found'));
    world.audit.state.gate = () => {};
    let answer: Awaited<ReturnType<typeof run.ask>> | undefined;
    while (answer === undefined) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      answer = await run.ask(1, 'test.count_effect', args).catch(() => undefined);
    }
    assert.equal(answer.status, 'completed');
    assert.deepEqual(effectsIn(world), ['a']);
  });
});

describe('an invalid published policy', () => {
  it('changes nothing, and is in the log', async () => {
    const refusals = () => world.audit.events.filter(({ event }) => event === 'policy.refused');
    assert.equal((await run.ask(1, 'test.echo', { text: 'a' })).status, 'completed');
    assert.deepEqual(refusals(), [], 'control');
    writeFileSync(join(world.dir, 'state/policy/bundle.json'), '{"version": 9');
    world.clock.advance(1_000);
    await allSent(world);
    assert.equal((await run.ask(2, 'test.echo', { text: 'b' })).status, 'completed');
    await allSent(world);
    const [event, ...more] = refusals();
    assert.deepEqual([event?.principal, event?.data?.version_in_force], ['service:toold', 1]);
    assert.equal(more.length, 0);
  });
});

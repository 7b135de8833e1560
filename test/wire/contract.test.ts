// Rules that hold on many routes: a key acts once, pages return every row once, a stream resumes
// where it stopped, and every response names its request.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { DAEMONS, type DaemonName } from '../../src/wire/daemons.ts';
import type { AuditEvent } from '../../src/wire/events.ts';
import type { Route } from '../../src/wire/route.ts';
import {
  type CallerOutcome,
  callerOf,
  callLocal,
  callSocket,
  type IdleWorld,
  runSocketOf,
  startIdleWorld,
  TABLES,
  type TestRequest,
} from '../support/callers.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually } from '../support/runtime.ts';
import { ROWS as APPROVALD_ROWS } from './approvald-rows.ts';
import { ROWS as AUDIT_ROWS } from './auditd-ai-rows.ts';

let world: IdleWorld;
before(async () => {
  world = await startIdleWorld({ 'auditd-ai': { segment_bytes_max: 65_536 } });
});
after(() => world.stop());

const headers = () => ({ authorization: `Bearer ${world.operatorKey}`, 'agentd-person': 'tester' });
const operatorSocket = (daemon: DaemonName) => socketPathFor(world.runtimeDir, daemon, 'operator');
const everyRoute = DAEMONS.flatMap((daemon) =>
  Object.entries(TABLES[daemon]).map(([name, route]) => ({ daemon, name, route })),
);

async function blockedTask(goal = 'Wait'): Promise<string> {
  const body = { goal, agent: 'worker', after: [world.someRun.taskId] };
  return (await world.agentd.createTask({ body })).task.id;
}

/** Two different requests for each route that creates something. */
const CREATING: Record<string, () => Promise<[TestRequest, TestRequest]>> = {
  createTask: async () => {
    const task = (goal: string) => ({
      body: { goal, agent: 'worker', after: [world.someRun.taskId] },
    });
    return [task('One'), task('Another')];
  },
  retryTask: async () => {
    const ended = async (): Promise<TestRequest> => {
      const id = (await blockedTask()) as never;
      await world.agentd.cancelTask({ params: { id }, body: {} });
      return { params: { id } };
    };
    return [await ended(), await ended()];
  },
  sendMessage: async () => {
    const say = (text: string) => ({
      body: {
        type: 'TaskProgress',
        to: 'agent:worker',
        task_id: world.someRun.taskId,
        parts: [{ kind: 'text', text }],
      },
    });
    return [say('One'), say('Another')];
  },
  putArtifact: async () => {
    const put = (text: string) => ({ body: { name: 'a.txt', text } });
    return [put('One'), put('Another')];
  },
  remember: async () => {
    const fact = (text: string) => ({ body: { class: 'semantic', scope: 'team', text } });
    return [fact('One'), fact('Another')];
  },
  proposeMemory: async () => {
    const fact = (text: string) => ({ body: { class: 'semantic', scope: 'team', text } });
    return [fact('One proposal'), fact('Another proposal')];
  },
  summarize: async () => {
    const fact = { class: 'semantic', scope: 'team', text: 'A fact.' } as const;
    const { memory } = await world.memoryd.remember({ body: fact });
    const summary = (text: string) => ({ body: { ids: [memory.id], text } });
    return [summary('One'), summary('Another')];
  },
  sendMail: async () => {
    const mail = (text: string) => ({ body: { to: 'operator', text } });
    return [mail('One'), mail('Another')];
  },
  mailDigest: async () => [{ body: {} }, { body: { since: '2026-01-01T00:00:00Z' } }],
  takeMemorySnapshot: async () => {
    const moment = (name: string) => ({ body: { scope: 'team', name } });
    return [moment('One'), moment('Another')];
  },
};

/**
 * An apply needs a layer, and nothing is left for a second one: layered-workspace.test.ts. Nor is
 * anything left for a second merge: changes.test.ts of memoryd.
 */
const TESTED_ELSEWHERE = ['applyChanges', 'merge'];
const creating = everyRoute.filter(
  ({ name, route }) => route.creates === true && !TESTED_ELSEWHERE.includes(name),
);
let keys = 0;

describe('Idempotency-Key', () => {
  it('is tested on every route that creates something', () => {
    assert.deepEqual(creating.map(({ name }) => name).sort(), Object.keys(CREATING).sort());
  });

  for (const { daemon, name, route } of creating) {
    const local = (request: TestRequest, key?: string) =>
      callLocal(world, daemon, route, request, callerOf('operator', world.someRun), {
        ...(key === undefined ? {} : { key }),
      });
    const socket = (request: TestRequest, key?: string) =>
      callSocket(operatorSocket(daemon), route, request, {
        headers: headers(),
        ...(key === undefined ? {} : { key }),
      });
    const idOf = (outcome: CallerOutcome): string => {
      assert.ok(outcome.ok, JSON.stringify(outcome));
      const [thing] = Object.values(outcome.value as Record<string, { id: string }>);
      return thing!.id;
    };

    it(`${name}: the same key gives the same response on both links, another request is refused`, async () => {
      const [one, another] = await CREATING[name]!();
      const key = `wire-${keys++}`;
      const first = await socket(one, key);
      const again = await local(one, key);
      assert.equal(idOf(again), idOf(first));
      if (first.ok && again.ok) assert.deepEqual(again.value, first.value);
      for (const send of [local, socket]) {
        const refused = await send(another, key);
        assert.equal(refused.ok ? 'taken' : refused.code, 'idempotency_mismatch');
      }
      assert.notEqual(idOf(await socket(another, `wire-${keys++}`)), idOf(first));
      assert.notEqual(idOf(await local(one)), idOf(first), 'without a key it happens again');
    });

    it(`${name}: twenty at once with one key create one thing`, async () => {
      const [one] = await CREATING[name]!();
      const key = `wire-${keys++}`;
      const all = await Promise.all(
        Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? local : socket)(one, key)),
      );
      assert.equal(new Set(all.map(idOf)).size, 1);
    });
  }
});

const paged = everyRoute.filter(
  ({ route }) =>
    route.dialect === undefined &&
    route.query?.safeParse({ cursor: '1', limit: '1' }).success === true,
);

describe('pages', () => {
  before(async () => {
    for (let i = 0; i < 7; i++) {
      const id = await blockedTask(`Page ${i}`);
      const parts = [{ kind: 'text' as const, text: `Hi ${i}` }];
      const message = { type: 'TaskProgress' as const, to: 'agent:worker', parts };
      await world.agentd.sendMessage({ body: { ...message, task_id: id as never } });
      await world.agentd.putArtifact({ body: { name: `p${i}`, text: `${i}` } });
      const run = await world.startRun();
      const path = runSocketOf(world, 'toold', run);
      const ask = { tool: 'person.ask', arguments: { question: `Which ${i}?` } };
      const body = { call_id: run.callId(0), ...ask };
      assert.ok((await callSocket(path, TABLES.toold.call!, { body })).ok);
      const messages = [{ role: 'user', parts: [{ type: 'text', text: `hello ${i}` }] }];
      await world.modeld.generate({ body: { model: 'default', messages: messages as never } });
      await APPROVALD_ROWS.listPermits!.good(world, 'operator');
    }
    await AUDIT_ROWS.exportSegment!.good(world, 'operator');
    await world.tidyUp();
    // Wait until runners and outboxes have sent everything before counting.
    let size = -1;
    await eventually('the log to be quiet', async () => {
      const ids = new Set((await allEvents(world)).map(({ id }) => id));
      const open = [...ids].filter(
        (id) => id.endsWith('.opened') && !ids.has(id.replace(/opened$/, 'ended')),
      );
      const was = size;
      size = ids.size;
      await new Promise((resolve) => setTimeout(resolve, 200));
      // The box of the one runner that stays.
      const boxes = open.filter((id) => id.startsWith('box_'));
      return was === size && boxes.length <= 1 ? true : undefined;
    });
  });

  const params: Record<string, () => Record<string, string>> = {
    'auditd-ai task': () => ({ task_id: world.someRun.taskId }),
    'auditd-ai agent': () => ({ agent: 'worker' }),
    'auditd-ai tool': () => ({ tool: 'person.ask' }),
  };
  type Row = { id?: string; call_id?: string; seq?: number; segment?: string };
  const rowsOf = (outcome: CallerOutcome): { rows: Row[]; cursor: string | null } => {
    assert.ok(outcome.ok, JSON.stringify(outcome));
    const { cursor, ...rest } = outcome.value as Record<string, unknown>;
    return { rows: Object.values(rest)[0] as Row[], cursor: cursor as string | null };
  };
  const nameOf = (row: Row): string => String(row.seq ?? row.id ?? row.call_id ?? row.segment);

  it('are tested on every list that has them', () => {
    assert.ok(paged.length >= 10, paged.map(({ name }) => name).join(' '));
  });

  for (const { daemon, name, route } of paged) {
    it(`${daemon} ${name}: pages of any size give every row once and in one order`, async () => {
      const ask = (query: Record<string, string>): TestRequest => {
        const found = params[`${daemon} ${name}`]?.();
        return { query, ...(found === undefined ? {} : { params: found }) };
      };
      const get = (query: Record<string, string>) =>
        callSocket(operatorSocket(daemon), route, ask(query), { headers: headers() });
      const whole = rowsOf(await get({ limit: '1000' }));
      assert.equal(whole.cursor, null);
      assert.ok(whole.rows.length >= 3, `${whole.rows.length} rows`);
      for (const limit of ['1', '2', '3', String(whole.rows.length)]) {
        const seen: string[] = [];
        for (let cursor: string | null | undefined; cursor !== null; ) {
          const query: Record<string, string> = { limit, ...(cursor ? { cursor } : {}) };
          const page = rowsOf(await get(query));
          assert.ok(page.rows.length <= Number(limit));
          seen.push(...page.rows.map(nameOf));
          cursor = page.cursor;
        }
        assert.deepEqual(seen, whole.rows.map(nameOf), `pages of ${limit}`);
      }
    });
  }
});

type Follower = { events: AuditEvent[]; ids: number[]; close(): void };

/** Follows the log as any client of server-sent events would. */
function follow(query: string): Follower {
  const follower: Follower = { events: [], ids: [], close: () => request.destroy() };
  const request = http.get(
    {
      socketPath: operatorSocket('auditd-ai'),
      headers: headers(),
      agent: false,
      path: `/v1/audit/events?follow=1${query}`,
    },
    (response) => {
      assert.equal(response.headers['content-type'], 'text/event-stream');
      let text = '';
      response.setEncoding('utf8');
      response.on('error', () => undefined);
      response.on('data', (chunk: string) => {
        text += chunk;
        for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
          const [, id, data] = /^id: (\d+)\ndata: (.*)$/.exec(text.slice(0, end)) ?? [];
          text = text.slice(end + 2);
          if (data === undefined) continue;
          follower.ids.push(Number(id));
          follower.events.push(JSON.parse(data) as AuditEvent);
        }
      });
    },
  );
  request.on('error', () => undefined);
  return follower;
}

describe('[R299] server-sent events', () => {
  const reached = (follower: Follower, seq: number) =>
    eventually(`event ${seq}`, async () => (follower.ids.at(-1)! >= seq ? true : undefined));

  it('start after any sequence number and continue with new events', async () => {
    const before = await allEvents(world);
    const at = Math.floor(before.length / 2);
    const follower = follow(`&after=${at}`);
    await blockedTask('Followed');
    const now = await eventually('the new task in the log', async () => {
      const all = await allEvents(world);
      return all.length > before.length ? all : undefined;
    });
    const last = now.at(-1)!.seq;
    await reached(follower, last);
    follower.close();
    // More may have arrived since.
    assert.deepEqual(
      follower.events.filter(({ seq }) => seq <= last),
      now.filter(({ seq }) => seq > at),
    );
    assert.deepEqual(
      follower.ids,
      follower.events.map(({ seq }) => seq),
    );
  });

  it('resumed from the last id after each disconnect deliver every event once', async () => {
    const seen: number[] = [];
    const all = await allEvents(world);
    const last = all.at(-1)!.seq;
    while (seen.length === 0 || seen.at(-1)! < last) {
      const follower = follow(`&after=${seen.at(-1) ?? -1}`);
      await eventually('some events', async () => (follower.ids.length > 0 ? true : undefined));
      // Disconnect in the middle of an event: only complete events count.
      seen.push(...follower.ids.slice(0, 1 + (seen.length % 7)));
      follower.close();
    }
    assert.deepEqual(
      seen.filter((seq) => seq <= last),
      all.map(({ seq }) => seq),
    );
  });

  it('deliver only what was filtered for', async () => {
    const follower = follow(`&after=-1&root_task_id=${world.someRun.taskId}`);
    await eventually('an event', async () => (follower.ids.length > 3 ? true : undefined));
    follower.close();
    const { taskId } = world.someRun;
    for (const event of follower.events)
      assert.ok(event.task_id === taskId || event.root_task_id === taskId);
  });
});

describe('every response names its request', () => {
  const plain = everyRoute.filter(
    ({ route }) =>
      route.method === 'GET' &&
      route.params === undefined &&
      route.query?.safeParse({}).success !== false &&
      !isRunOnly(route),
  );
  function isRunOnly(route: Route): boolean {
    return !route.callers.includes('operator');
  }

  it('with the client’s request id, on success and on failure', async () => {
    for (const { daemon, name, route } of plain) {
      const id = `req-${daemon}-${name}`;
      const more = { 'x-request-id': id, traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` };
      const good = await callSocket(
        operatorSocket(daemon),
        route,
        {},
        { headers: { ...headers(), ...more } },
      );
      assert.ok(good.ok, `${name} ${JSON.stringify(good)}`);
      if (good.ok) assert.equal(good.headers['x-request-id'], id);
    }
  });

  it('with a generated id if the client sent none', async () => {
    const good = await callSocket(
      operatorSocket('agentd'),
      TABLES.agentd.status!,
      {},
      { headers: headers() },
    );
    assert.ok(good.ok);
    if (good.ok) assert.match(String(good.headers['x-request-id']), /^[0-9a-f]{32}$/);
  });
});

// Dispatch: every step of its order, each with its fault, and what ends a handler early.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import * as z from 'zod';
import { Fault, type FaultCode } from '../wire/errors.ts';
import { route, routes } from '../wire/route.ts';
import { type HandlerContext, type Handlers, makeDispatch, RawReply } from './dispatch.ts';
import { silentLog } from './log.ts';
import { makeMetrics } from './metrics.ts';
import {
  catchCode,
  goodHandlers,
  makeRequest,
  makeTestDispatch,
  operator,
  run,
  type Table,
  table,
  toold,
} from './testing/dispatch.ts';

describe('dispatch: route known → caller allowed → input valid → handler → output valid', () => {
  it("returns the handler's result for a valid request", async () => {
    const dispatch = makeTestDispatch();
    const query = { limit: '3' };
    const answer = await dispatch.run(makeRequest('GET', '/v1/things/t1', { query }));
    assert.deepEqual(answer, { id: 't1', limit: 3 });
    const body = { name: 'a' };
    assert.deepEqual(await dispatch.run(makeRequest('POST', '/v1/things', { body })), {
      name: 'a',
    });
    assert.deepEqual(await dispatch.run(makeRequest('POST', '/v1/ping', { caller: run })), {});
  });

  const refusals: [string, FaultCode, ReturnType<typeof makeRequest>][] = [
    ['an unknown path', 'no_such_route', makeRequest('GET', '/v1/nothing')],
    ['a path below a leaf', 'no_such_route', makeRequest('GET', '/v1/things/t1/more')],
    [
      'a path with an end slash',
      'no_such_route',
      makeRequest('POST', '/v1/ping/', { caller: run }),
    ],
    ['a prefix of a path', 'no_such_route', makeRequest('GET', '/v1')],
    ['no path at all', 'no_such_route', makeRequest('GET', '')],
    ['a star', 'no_such_route', makeRequest('OPTIONS', '*')],
    ['a known path with another method', 'method_not_allowed', makeRequest('DELETE', '/v1/things')],
    ['a method in small letters', 'method_not_allowed', makeRequest('get', '/v1/things')],
    ['a broken escape', 'bad_request', makeRequest('GET', '/v1/things/%zz')],
    [
      'a peer not in the list',
      'forbidden_caller',
      makeRequest('GET', '/v1/things', { caller: toold }),
    ],
    [
      'a run at an operator route',
      'forbidden_caller',
      makeRequest('GET', '/v1/things', { caller: run }),
    ],
    ['an operator at a run route', 'forbidden_caller', makeRequest('POST', '/v1/ping')],
    ['a bad path parameter', 'bad_request', makeRequest('GET', '/v1/things/x')],
    [
      'a bad query value',
      'bad_request',
      makeRequest('GET', '/v1/things/t1', { query: { limit: '0' } }),
    ],
    [
      'an unknown query key',
      'bad_request',
      makeRequest('GET', '/v1/things/t1', { query: { x: '1' } }),
    ],
    [
      'a query where none is allowed',
      'bad_request',
      makeRequest('GET', '/v1/things', { query: { x: '1' } }),
    ],
    [
      'a body where none is allowed',
      'bad_request',
      makeRequest('GET', '/v1/things', { body: { x: 1 } }),
    ],
    ['null as a body', 'bad_request', makeRequest('GET', '/v1/things', { body: null })],
    ['no body where one is needed', 'bad_request', makeRequest('POST', '/v1/things')],
    [
      'an unknown key',
      'bad_request',
      makeRequest('POST', '/v1/things', { body: { name: 'a', x: 1 } }),
    ],
    ['a wrong type', 'bad_request', makeRequest('POST', '/v1/things', { body: { name: 1 } })],
    [
      'an object that no limit can be held against',
      'bad_request',
      makeRequest('POST', '/v1/things', { body: { name: { length: { toString: 1 } } } }),
    ],
  ];
  for (const [what, code, request] of refusals) {
    it(`refuses ${what} with ${code}`, async () => {
      assert.equal(await catchCode(makeTestDispatch().run(request)), code);
    });
  }

  it('checks each step before the next one', async () => {
    const seen: string[] = [];
    const make = async () => {
      seen.push('handler');
      return { name: 'a' };
    };
    const dispatch = makeTestDispatch({ make });
    const bad = { body: { name: 1 } };
    assert.equal(
      await catchCode(dispatch.run(makeRequest('POST', '/v1/no', { caller: run, ...bad }))),
      'no_such_route',
    );
    assert.equal(
      await catchCode(dispatch.run(makeRequest('POST', '/v1/things', { caller: run, ...bad }))),
      'forbidden_caller',
    );
    assert.equal(
      await catchCode(dispatch.run(makeRequest('POST', '/v1/things', bad))),
      'bad_request',
    );
    assert.deepEqual(seen, [], 'a refused request does not reach the handler');
    await dispatch.run(makeRequest('POST', '/v1/things', { body: { name: 'a' } }));
    assert.deepEqual(seen, ['handler']);
  });

  it('names the allowed callers to a forbidden one', async () => {
    await assert.rejects(
      makeTestDispatch().run(makeRequest('POST', '/v1/ping')),
      (error: Fault) => {
        assert.equal(error.code, 'forbidden_caller');
        assert.match(error.hint, /^Only these may: .*a run on its own socket/);
        return true;
      },
    );
  });

  it('names the field and the unknown key, and lists the methods of a path', async () => {
    const dispatch = makeTestDispatch();
    const body = { name: 'much too long', tags: [1], extra: true };
    const fields = dispatch.run(makeRequest('POST', '/v1/things', { body }));
    await assert.rejects(fields, (error: Fault) => {
      assert.match(error.message, /name: .*10/);
      assert.match(error.message, /tags\.0: /);
      assert.match(error.message, /unknown key extra$/);
      return true;
    });
    const slip = dispatch.run(makeRequest('POST', '/v1/things', { body: { nmae: 'a' } }));
    await assert.rejects(slip, (error: Fault) => {
      assert.equal(
        error.message,
        'name: is missing; must be text; body has unknown key nmae (did you mean name?)',
      );
      return true;
    });
    await assert.rejects(dispatch.run(makeRequest('DELETE', '/v1/things')), (error: Fault) => {
      assert.deepEqual(error.details, { allow: 'POST, GET' });
      return true;
    });
  });

  it('decodes path parameters, and prefers a literal to a parameter', async () => {
    const mixed = routes({
      one: route({
        method: 'GET',
        path: '/a/{id}',
        callers: ['operator'],
        output: z.unknown(),
        params: z.strictObject({ id: z.string() }),
      }),
      fixed: route({ method: 'GET', path: '/a/me', callers: ['operator'], output: z.unknown() }),
    });
    const dispatch = makeDispatch({
      routes: mixed,
      handlers: { one: async ({ params }) => params.id, fixed: async () => 'fixed' },
      log: silentLog,
      metrics: makeMetrics('test'),
    });
    assert.equal(await dispatch.run(makeRequest('GET', '/a/me')), 'fixed');
    assert.equal(await dispatch.run(makeRequest('GET', '/a/x%2Fy%20z')), 'x/y z');
  });

  it('throws on two routes with the same method and path', () => {
    const twice = routes({ a: table.list, b: table.list });
    const handlers = { a: async () => ({ n: 1 }), b: async () => ({ n: 2 }) };
    assert.throws(
      () => makeDispatch({ routes: twice, handlers, log: silentLog, metrics: makeMetrics('t') }),
      /duplicate route/,
    );
  });

  it('reports an invalid response as bad_output, and logs why', async () => {
    const lines: string[] = [];
    const dispatch = makeTestDispatch({ list: async () => ({ n: 'many' }) as never }, lines);
    assert.equal(await catchCode(dispatch.run(makeRequest('GET', '/v1/things'))), 'bad_output');
    assert.match(lines.join('\n'), /invalid response/);
  });

  it('reports a bug as internal with a reference to the log, and no details', async () => {
    const lines: string[] = [];
    const list = () => Promise.reject(new TypeError('the secret inside'));
    const trace = { requestId: 'req-1', traceparent: '' };
    const failed = makeTestDispatch({ list }, lines).run(
      makeRequest('GET', '/v1/things', { trace }),
    );
    await assert.rejects(failed, (error: Fault) => {
      assert.equal(error.code, 'internal');
      assert.match(error.message, /req-1/);
      assert.doesNotMatch(JSON.stringify(error.toBody()), /secret/);
      return true;
    });
    const line = lines.find((text) => text.includes('the secret inside'));
    assert.match(line ?? '', /"reference":"req-1"/);
  });

  it('passes a fault of the handler on unchanged', async () => {
    const thrown = new Fault('budget', 'nothing is left', { details: { left: 0 } });
    const list = () => Promise.reject(thrown);
    await assert.rejects(
      makeTestDispatch({ list }).run(makeRequest('GET', '/v1/things')),
      (error) => error === thrown,
    );
  });
});

describe('dispatch: what ends a handler early', () => {
  const hang = ({ signal }: HandlerContext) =>
    new Promise<never>((_, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason)),
    );

  it('a deadline of the caller', async () => {
    let reason: unknown;
    const list = (context: HandlerContext<Table['list']>) => {
      context.signal.addEventListener('abort', () => {
        reason = context.signal.reason;
      });
      return new Promise<never>(() => {});
    };
    const request = makeRequest('GET', '/v1/things', { deadlineMs: 5 });
    assert.equal(
      await catchCode(makeTestDispatch({ list: list as never }).run(request)),
      'deadline',
    );
    assert.equal((reason as Fault).code, 'deadline', 'the handler gets it, too');
  });

  it('a caller may shorten the deadline and not lengthen it', async () => {
    const seen: number[] = [];
    const list = async ({ deadlineMs }: { deadlineMs: number }) => {
      seen.push(deadlineMs);
      return { n: 1 };
    };
    const dispatch = makeTestDispatch({ list });
    for (const deadlineMs of [undefined, 1_000, 10_000_000])
      await dispatch.run(makeRequest('GET', '/v1/things', { deadlineMs }));
    assert.deepEqual(seen, [30_000, 1_000, 30_000]);
  });

  it('a caller that disconnects, before or during the work', async () => {
    const dispatch = makeTestDispatch({ list: hang as never });
    const disconnect = new AbortController();
    const during = catchCode(
      dispatch.run(makeRequest('GET', '/v1/things', { signal: disconnect.signal })),
    );
    disconnect.abort();
    assert.equal(await during, 'canceled');
    const before = makeTestDispatch({
      list: async ({ signal }) => {
        assert.equal(signal.aborted, true);
        throw signal.reason;
      },
    });
    const signal = AbortSignal.abort();
    assert.equal(
      await catchCode(before.run(makeRequest('GET', '/v1/things', { signal }))),
      'canceled',
    );
  });

  it('a stream still sees that its reader disconnected, until it has ended', async () => {
    const signals: AbortSignal[] = [];
    const follow = async ({ signal }: { signal: AbortSignal }) => {
      signals.push(signal);
      async function* body() {
        yield 'a';
        yield 'b';
      }
      return new RawReply({ status: 200, headers: {}, body: body() });
    };
    const dispatch = makeTestDispatch({ follow });
    const disconnect = new AbortController();
    const request = makeRequest('GET', '/v1/follow', { signal: disconnect.signal });
    await dispatch.run(request);
    disconnect.abort();
    assert.equal(signals[0]!.aborted, true);

    const again = new AbortController();
    const whole = (await dispatch.run({ ...request, signal: again.signal })) as RawReply;
    let text = '';
    for await (const piece of whole.body as AsyncIterable<string>) text += piece;
    assert.equal(text, 'ab');
    again.abort();
    assert.equal(signals[1]!.aborted, false, 'nothing is watched after its end');
  });

  it('too many requests at once are refused with overloaded, and accepted again later', async () => {
    const release: (() => void)[] = [];
    const list = () =>
      new Promise<{ n: number }>((resolve) => release.push(() => resolve({ n: 1 })));
    const dispatch = makeTestDispatch({ list });
    const all = Array.from({ length: 4_096 }, () => dispatch.run(makeRequest('GET', '/v1/things')));
    assert.equal(dispatch.inFlight(), 4_096);
    await assert.rejects(dispatch.run(makeRequest('GET', '/v1/things')), (error: Fault) => {
      assert.equal(error.code, 'overloaded');
      assert.equal(error.retry, true);
      assert.ok((error.retryAfterMs ?? 0) > 0);
      return true;
    });
    for (const one of release) one();
    await Promise.all(all);
    assert.equal(dispatch.inFlight(), 0);
    assert.equal(await catchCode(dispatch.run(makeRequest('GET', '/v1/no'))), 'no_such_route');
  });
});

describe('dispatch: properties', () => {
  const callers = fc.constantFrom(operator, toold, run);
  const bodies = fc.oneof(
    fc.constant(undefined),
    fc.jsonValue(),
    fc.record({ name: fc.string({ maxLength: 12 }) }),
    fc.record({ name: fc.string({ maxLength: 12 }), tags: fc.array(fc.string()) }),
  );
  const requests = fc.record({
    method: fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'HEAD', ''),
    path: fc.oneof(
      fc.constantFrom('/v1/things', '/v1/things/t1', '/v1/ping', '/v1/follow', '/__proto__'),
      fc.string(),
      fc.webPath(),
    ),
    query: fc.dictionary(fc.constantFrom('limit', 'x', '__proto__', 'constructor'), fc.string()),
    body: bodies,
    caller: callers,
  });

  it('every request gets a valid response or a fault of the table, never internal', async () => {
    const dispatch = makeTestDispatch();
    await fc.assert(
      fc.asyncProperty(requests, async (request) => {
        try {
          await dispatch.run(request as never);
        } catch (error) {
          assert.ok(error instanceof Fault);
          assert.notEqual(error.code, 'internal');
          assert.notEqual(error.code, 'bad_output');
        }
        assert.equal(dispatch.inFlight(), 0);
      }),
      { numRuns: 500 },
    );
  });

  it('only callers in the list of a route ever reach its handler', async () => {
    const reached: string[] = [];
    const handlers = Object.fromEntries(
      Object.entries(goodHandlers).map(([name, handler]) => [
        name,
        (context: HandlerContext) => {
          const { caller } = context;
          reached.push(`${name} ${caller.kind === 'daemon' ? caller.daemon : caller.kind}`);
          return (handler as (c: HandlerContext) => Promise<unknown>)(context);
        },
      ]),
    ) as unknown as Handlers<Table>;
    const dispatch = makeTestDispatch(handlers);
    await fc.assert(
      fc.asyncProperty(requests, async (request) => {
        await dispatch.run(request as never).catch(() => undefined);
      }),
      { numRuns: 500 },
    );
    const allowed = Object.entries(table).flatMap(([name, one]) =>
      one.callers.map((caller) => `${name} ${caller}`),
    );
    for (const one of new Set(reached)) assert.ok(allowed.includes(one), one);
  });
});

// Test helper for dispatch: a table of routes with handlers, callers, and requests.
import assert from 'node:assert/strict';
import * as z from 'zod';
import type { Caller } from '../../wire/caller.ts';
import type { Fault, FaultCode } from '../../wire/errors.ts';
import type { RunId, TaskId } from '../../wire/primitives.ts';
import { route, routes } from '../../wire/route.ts';
import { type Dispatch, type Handlers, makeDispatch, RawReply } from '../dispatch.ts';
import { makeLog } from '../log.ts';
import { makeMetrics } from '../metrics.ts';

export const table = routes({
  get: route({
    method: 'GET',
    path: '/v1/things/{id}',
    callers: ['operator', 'toold'],
    params: z.strictObject({ id: z.string().regex(/^t\d+$/) }),
    query: z.strictObject({ limit: z.coerce.number().int().min(1).optional() }),
    output: z.object({ id: z.string(), limit: z.int() }),
  }),
  make: route({
    method: 'POST',
    path: '/v1/things',
    callers: ['operator'],
    body: z.strictObject({ name: z.string().max(10), tags: z.array(z.string()).optional() }),
    output: z.object({ name: z.string() }),
  }),
  ping: route({ method: 'POST', path: '/v1/ping', callers: ['run'], output: z.object({}) }),
  list: route({
    method: 'GET',
    path: '/v1/things',
    callers: ['operator'],
    output: z.object({ n: z.int() }),
  }),
  follow: route({
    method: 'GET',
    path: '/v1/follow',
    callers: ['operator'],
    output: z.unknown(),
    streams: true,
  }),
});
export type Table = typeof table;

export const operator: Caller = { kind: 'operator', principal: 'person:ann' };
export const toold: Caller = { kind: 'daemon', principal: 'service:toold', daemon: 'toold' };
export const run: Caller = {
  kind: 'run',
  principal: 'agent:coder',
  runId: 'run_1' as RunId,
  fence: 1,
  mode: 'live',
  agent: 'coder',
  taskId: 'task_1' as TaskId,
};

export const goodHandlers: Handlers<Table> = {
  get: async ({ params, query }) => ({ id: params.id, limit: query.limit ?? 7 }),
  make: async ({ body }) => ({ name: body.name }),
  ping: async () => ({}),
  list: async () => ({ n: 1 }),
  follow: async () => new RawReply({ status: 200, headers: {}, body: 'x' }),
};

export function makeTestDispatch(
  over: Partial<Handlers<Table>> = {},
  lines: string[] = [],
): Dispatch {
  return makeDispatch({
    routes: table,
    handlers: { ...goodHandlers, ...over },
    log: makeLog((line) => lines.push(line)),
    metrics: makeMetrics('test'),
  });
}

export const makeRequest = (method: string, path: string, more: object = {}) => ({
  method,
  path,
  query: {},
  body: undefined,
  caller: operator,
  ...more,
});

export function catchCode(promise: Promise<unknown>): Promise<FaultCode> {
  return promise.then(
    (value) => assert.fail(`answered ${JSON.stringify(value)}`),
    (error: unknown) => (error as Fault).code,
  );
}

// One route's row in the table, and the invalid requests that follow from its schemas alone.
import assert from 'node:assert/strict';
import type { FaultCode } from '../../src/wire/errors.ts';
import type { CallerKind, Route } from '../../src/wire/route.ts';
import type { IdleWorld, LiveRun, TestRequest } from '../support/callers.ts';

/** A request that must succeed, with the run that sends it and what must happen meanwhile. */
export type Good = TestRequest & { run?: LiveRun; meanwhile?: () => Promise<void> };
export type Bad = readonly [what: string, change: (good: Good) => TestRequest, code: FaultCode];

export type RouteRow = {
  /** The requirements it covers. */
  cites?: string;
  /** Creates what the route needs. Called once per link, so the request may consume it. */
  good(world: IdleWorld, as: CallerKind): Promise<Good>;
  check?(response: never, good: Good): void;
  /** The fault for the valid request, where its success needs what this world cannot have. */
  refused?: FaultCode;
  bad?: readonly Bad[];
  /** The fault for an unknown id; `fine` if the route creates it or searches for it. */
  unknownId?: FaultCode | 'fine';
  /** `fine` if the route succeeds without doing anything. */
  unknownFence?: 'fine';
  /** The route accepts any run: only daemons that know the runs call it. */
  unknownRun?: 'fine';
  /** The body is the vendor's: only its adapter can validate it. */
  vendor?: boolean;
};
export type Rows = Record<string, RouteRow>;

/** Keeps the response types and lets rows be written as plain values. */
export const rows = (table: Rows): Rows => table;

export const withBody = (good: Good, change: Record<string, unknown>): TestRequest => ({
  ...good,
  body: { ...(good.body as object), ...change },
});

const WRONG = [{}, [], 'x', -1, 1.5, true, null, [1], { a: 1 }, 'x'.repeat(70_000)];

/** A schema must reject one of these, or it accepts everything. */
function wrongFor(fits: (value: unknown) => boolean): unknown {
  return WRONG.find((value) => !fits(value));
}

function badBodies(route: Route, good: Good): Bad[] {
  const schema = route.body;
  if (schema === undefined)
    return [['a body where none is taken', () => ({ ...good, body: { x: 1 } }), 'bad_request']];
  const fits = (body: unknown): boolean => schema.safeParse(body).success;
  assert.ok(fits(good.body), 'the valid body matches its own schema');
  const body = good.body as Record<string, unknown>;
  const bad: Bad[] = [
    ['no body', () => ({ ...good, body: undefined }), 'bad_request'],
    ['a list as body', () => ({ ...good, body: [body] }), 'bad_request'],
    ['a word as body', () => ({ ...good, body: 'x' }), 'bad_request'],
    ['null as body', () => ({ ...good, body: null }), 'bad_request'],
  ];
  if (!fits({ ...body, no_such_key: 1 }))
    bad.push(['an unknown key', () => withBody(good, { no_such_key: 1 }), 'bad_request']);
  for (const key of Object.keys(body)) {
    const { [key]: _, ...without } = body;
    if (!fits(without)) bad.push([`no ${key}`, () => ({ ...good, body: without }), 'bad_request']);
    const wrong = wrongFor((value) => fits({ ...body, [key]: value }));
    assert.notEqual(wrong, undefined, `${key} takes everything`);
    bad.push([`a wrong ${key}`, () => withBody(good, { [key]: wrong }), 'bad_request']);
  }
  return bad;
}

function badQueries(route: Route, good: Good): Bad[] {
  const query = (more: object) => () => ({ ...good, query: { ...good.query, ...more } });
  const fits = (value: unknown): boolean => route.query?.safeParse(value).success ?? false;
  const bad: Bad[] = [];
  if (!fits({ ...good.query, no_such_key: '1' }))
    bad.push(['an unknown query key', query({ no_such_key: '1' }), 'bad_request']);
  for (const key of ['limit', 'cursor', 'status', 'after', 'order', 'fence']) {
    const [value] = ['x'.repeat(300), '-7', 'x'].filter((v) => !fits({ ...good.query, [key]: v }));
    if (value !== undefined && fits({ ...good.query, [key]: '1' }))
      bad.push([`a wrong ${key}`, query({ [key]: value }), 'bad_request']);
  }
  return bad;
}

/** An unknown id of the same kind. */
const unknownId = (id: string): string =>
  /^[a-z]+_[0-9a-z]{26}$/.test(id) ? id.replace(/_.*/, `_${'0'.repeat(26)}`) : 'nobody';

function badParams(route: Route, good: Good, row: RouteRow): Bad[] {
  if (route.params === undefined) return [];
  const bad: Bad[] = [];
  for (const [name, value] of Object.entries(good.params ?? {})) {
    const put = (other: string) => ({ ...good, params: { ...good.params, [name]: other } });
    const fits = (other: string) => route.params!.safeParse(put(other).params).success;
    const wrong = ['!!', 'x'.repeat(300)].find((other) => !fits(other));
    assert.notEqual(wrong, undefined, `${name} takes everything`);
    bad.push([`a wrong ${name} in the path`, () => put(wrong!), 'bad_request']);
    if (row.unknownId !== 'fine' && fits(unknownId(String(value))))
      bad.push([
        `an unknown ${name}`,
        () => put(unknownId(String(value))),
        row.unknownId ?? 'not_found',
      ]);
  }
  return bad;
}

/** A call of toold for a run: accepted only for the current activation of that run. */
function badRuns(good: Good, row: RouteRow): Bad[] {
  const { run_id, fence } = (good.body ?? {}) as { run_id?: string; fence?: number };
  if (run_id === undefined || fence === undefined || row.unknownRun === 'fine') return [];
  return [
    ['an unknown run', () => withBody(good, { run_id: unknownId(run_id) }), 'not_found'],
    ...(row.unknownFence === 'fine'
      ? []
      : [['a fence to come', () => withBody(good, { fence: fence + 1 }), 'stale_fence'] as const]),
  ];
}

export function badInputs(route: Route, good: Good, row: RouteRow): Bad[] {
  return [
    ...badParams(route, good, row),
    ...badQueries(route, good),
    ...(row.vendor === true ? [] : badBodies(route, good)),
    ...badRuns(good, row),
    ...(row.bad ?? []),
  ];
}

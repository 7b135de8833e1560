// Every route of every daemon on both links: a valid request succeeds, invalid ones and callers
// without access are refused with the right fault. A route without a row fails.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { DAEMONS, type DaemonName } from '../../src/wire/daemons.ts';
import { FAULTS } from '../../src/wire/errors.ts';
import type { CallerKind, Route } from '../../src/wire/route.ts';
import {
  CALLER_KINDS,
  type CallerOutcome,
  callerOf,
  callLocal,
  callSocket,
  type IdleWorld,
  type LiveRun,
  socketOf,
  startIdleWorld,
  TABLES,
} from '../support/callers.ts';
import { errorCode, exchange, requestText } from '../support/raw-http.ts';
import { commonRows } from './common-rows.ts';
import { PAGE } from './egressd-rows.ts';
import { badInputs, type Good, type RouteRow, type Rows } from './row.ts';

/** Every daemon has its rows in a file named after it. */
const ROWS = new Map<DaemonName, Rows>();
for (const daemon of DAEMONS) {
  const own = (await import(`./${daemon}-rows.ts`)) as { ROWS: Rows };
  ROWS.set(daemon, { ...own.ROWS, ...commonRows(daemon) });
}

/** Nothing listens there. */
const NO_SMARTHOST = { host: '127.0.0.1', port: 9, tls: 'none', from: 'agents@example.com' };

let world: IdleWorld;
before(async () => {
  const embeds =
    'permit (principal is Agent, action == Action::"model.use", resource == Model::"embed");';
  world = await startIdleWorld({
    'auditd-ai': { segment_bytes_max: 65_536 },
    egressd: { allow_private: [PAGE] },
    maild: { smarthost: NO_SMARTHOST },
    policies: { embeds },
  });
});
afterEach(() => world.tidyUp());
after(() => world.stop());

type RouteCall = { daemon: DaemonName; route: Route; as: CallerKind };
const operatorHeaders = () => ({
  authorization: `Bearer ${world.operatorKey}`,
  'agentd-person': 'tester',
});
const headersFor = (as: CallerKind): Record<string, string> => {
  if (as === 'key:models') return { authorization: `Bearer ${world.apiKey.secret}` };
  return as === 'operator' ? operatorHeaders() : {};
};
const callerFor = (as: CallerKind, run: LiveRun) =>
  as === 'key:models' ? world.apiKey.caller : callerOf(as, run);

const links: Record<string, (call: RouteCall, good: Good) => Promise<CallerOutcome>> = {
  local: ({ daemon, route, as }, good) =>
    callLocal(world, daemon, route, good, callerFor(as, good.run ?? world.someRun)),
  socket({ daemon, route, as }, good) {
    const path = socketOf(world, daemon, as, good.run ?? world.someRun);
    assert.ok(path !== undefined, `${daemon} has a socket for ${as}`);
    return callSocket(path, route, good, { headers: headersFor(as) });
  },
};

function assertRefused(
  outcome: CallerOutcome,
  code: keyof typeof FAULTS,
  route: Route,
  what: string,
) {
  assert.equal(outcome.ok, false, `${what} was taken: ${JSON.stringify(outcome).slice(0, 300)}`);
  if (outcome.ok) return;
  if (route.dialect === undefined) {
    assert.equal(outcome.code, code, what);
    assert.equal(outcome.status, FAULTS[code].http, what);
  } else {
    // A vendor's error format has the vendor's codes, and a provider's 400 is passed on as 400.
    const statuses = [FAULTS[code].http, ...(code === 'provider_refused' ? [400] : [])];
    assert.ok(statuses.includes(outcome.status), `${what}: ${outcome.status}`);
  }
  assert.ok(typeof (outcome.body as { message?: unknown }).message === 'string', what);
}

/** The shape of a response: its members without their values. */
const shapeOf = (value: unknown): unknown =>
  typeof value === 'object' && value !== null ? Object.keys(value).sort() : typeof value;

function testGood(call: Omit<RouteCall, 'as'>, name: string, row: RouteRow): void {
  const { daemon, route } = call;
  for (const as of route.callers) {
    // auditd-ai accepts no calls from itself and has no socket for that.
    if (as === 'auditd-ai' || (as !== 'operator' && as !== 'run' && as === daemon)) continue;
    it(`${row.cites ?? ''} accepts a valid request of ${as} on both links`.trim(), async () => {
      const shapes: unknown[] = [];
      for (const [link, send] of Object.entries(links)) {
        const good = await row.good(world, as);
        if (
          link === 'socket' &&
          socketOf(world, daemon, as, good.run ?? world.someRun) === undefined
        )
          continue;
        const [outcome]: [CallerOutcome, unknown] = await Promise.all([
          send({ ...call, as }, good),
          good.meanwhile?.() ?? Promise.resolve(),
        ]);
        if (row.refused !== undefined) {
          assertRefused(outcome, row.refused, route, link);
          continue;
        }
        assert.ok(outcome.ok, `${link}: ${JSON.stringify(outcome)}`);
        if (!outcome.ok) return;
        assert.equal(outcome.status, 200);
        if (name !== 'metrics') assert.ok(route.output.safeParse(outcome.value).success);
        row.check?.(outcome.value as never, good);
        shapes.push(shapeOf(outcome.value));
        if (name === 'halt') await world.agentd.unhalt({});
        await world.tidyUp();
      }
      for (const shape of shapes) assert.deepEqual(shape, shapes[0]);
    });
  }
}

function testBad(call: Omit<RouteCall, 'as'>, row: RouteRow): void {
  const { daemon, route } = call;
  const as = route.callers.find((kind) => kind !== daemon)!;
  it('refuses invalid requests alike on both links', async () => {
    const good = await row.good(world, as);
    for (const [what, change, code] of badInputs(route, good, row)) {
      for (const [link, send] of Object.entries(links))
        assertRefused(
          await send({ ...call, as }, { ...change(good), ...(good.run && { run: good.run }) }),
          code,
          route,
          `${link}: ${what}`,
        );
    }
  });

  it('refuses bodies that are too large, too deep, not JSON or not UTF-8', async () => {
    const good = await row.good(world, as);
    const path = socketOf(world, daemon, as, good.run ?? world.someRun)!;
    const headers = headersFor(as);
    const large = (route.bodySizeBytesMax ?? 1_000_000) + 1;
    const head = requestText(route.method, route.path, {
      ...headers,
      'content-length': String(large),
    });
    const { responses } = await exchange({ path }, head);
    assert.equal(responses[0]!.status, 413);
    if (route.dialect === undefined) assert.equal(errorCode(responses[0]!), 'too_large');
    if (route.body === undefined) return;
    const texts: [string | Buffer, keyof typeof FAULTS][] = [
      [`{"a":${'['.repeat(100)}${']'.repeat(100)}}`, 'too_deep'],
      ['{"goal": ', 'bad_json'],
      [Buffer.from('{"a":"\xff"}', 'latin1'), 'bad_json'],
    ];
    for (const [text, code] of texts)
      assertRefused(
        await callSocket(path, route, { ...good, text }, { headers }),
        code,
        route,
        code,
      );
    const form = { headers: { ...headers, 'content-type': 'text/plain' } };
    assertRefused(
      await callSocket(path, route, { ...good, text: 'a=b' }, form),
      'unsupported_media',
      route,
      'a form',
    );
  });
}

function testCallers(call: Omit<RouteCall, 'as'>, row: RouteRow): void {
  const { daemon, route } = call;
  const refused = CALLER_KINDS.filter((kind) => !route.callers.includes(kind));
  it(`refuses ${refused.join(', ') || 'no known caller'} on both links`, async () => {
    const good = await row.good(world, route.callers.find((kind) => kind !== daemon)!);
    for (const as of refused) {
      const run = good.run ?? world.someRun;
      const local = await callLocal(world, daemon, route, good, callerFor(as, run));
      assertRefused(local, 'forbidden_caller', route, `local: ${as}`);
      const path = socketOf(world, daemon, as, run);
      if (path === undefined) continue;
      const over = await callSocket(path, route, good, { headers: headersFor(as) });
      assertRefused(over, 'forbidden_caller', route, `socket: ${as}`);
    }
  });

  it('refuses an operator without the key, and a run or peer that shows one', async () => {
    const good = await row.good(world, route.callers.find((kind) => kind !== daemon)!);
    const path = socketOf(world, daemon, 'operator', world.someRun)!;
    for (const headers of [{}, { authorization: 'Bearer wrong' }, { 'x-api-key': '' }])
      assertRefused(
        await callSocket(path, route, good, { headers: headers as Record<string, string> }),
        'unauthenticated',
        route,
        JSON.stringify(headers),
      );
    const own = socketOf(world, daemon, 'run', world.someRun);
    if (own === undefined || route.callers.includes('run')) return;
    const dressed = await callSocket(own, route, good, { headers: operatorHeaders() });
    assertRefused(dressed, 'forbidden_caller', route, 'a run with the operator’s key');
  });
}

describe('[R273-R302] every route', () => {
  for (const [daemon, rows] of ROWS) {
    describe(daemon, () => {
      it('has a row for every route, and no row for a missing one', () => {
        assert.deepEqual(Object.keys(rows).sort(), Object.keys(TABLES[daemon]).sort());
      });
      for (const [name, row] of Object.entries(rows)) {
        const route = TABLES[daemon][name];
        if (route === undefined) continue;
        describe(`${name}: ${route.method} ${route.path}`, () => {
          testGood({ daemon, route }, name, row);
          testBad({ daemon, route }, row);
          testCallers({ daemon, route }, row);
        });
      }
    });
  }
});

// An API key on every route of every daemon, over the port and the sockets: it passes on the
// vendors' routes, and on no other.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { silentLog } from '../../src/platform/log.ts';
import { openTcpGateway, type TcpGateway } from '../../src/platform/tcp-gateway.ts';
import { DAEMONS } from '../../src/wire/daemons.ts';
import type { Route } from '../../src/wire/route.ts';
import {
  callSocket,
  type IdleWorld,
  socketOf,
  startIdleWorld,
  TABLES,
} from '../support/callers.ts';

const everyRoute = DAEMONS.flatMap((daemon) =>
  Object.entries(TABLES[daemon]).map(([name, route]) => ({ daemon, name, route })),
);
const isVendors = ({ path }: Route): boolean => /^\/(openai|anthropic)\//.test(path);
const fill = (path: string): string => path.replaceAll(/\{\w+\}/g, 'x');

describe('an API key', () => {
  let world: IdleWorld;
  /** With the daemons in this process, and over their sockets as in split mode. */
  let gateways: { here: TcpGateway; away: TcpGateway };
  before(async () => {
    world = await startIdleWorld();
    const { runtimeDir, operatorKey } = world;
    const options = { port: 0, runtimeDir, operatorKey, log: silentLog };
    gateways = {
      here: await openTcpGateway({ ...options, here: world.hosted }),
      away: await openTcpGateway(options),
    };
  });
  after(async () => {
    await gateways.here.close();
    await gateways.away.close();
    await world.stop();
  });

  const send = async (gateway: TcpGateway, route: Route, headers: Record<string, string>) => {
    const init = { method: route.method, headers, signal: AbortSignal.timeout(20_000) };
    const response = await fetch(`http://127.0.0.1:${gateway.port}${fill(route.path)}`, {
      ...init,
      ...(route.method === 'GET' ? {} : { body: '{}' }),
    });
    const { status } = response;
    if (status >= 400) return { status, text: await response.text() };
    await response.body?.cancel();
    return { status, text: '' };
  };

  it('is listed by the vendors’ routes, and by no other', () => {
    for (const { daemon, name, route } of everyRoute)
      assert.equal(
        route.callers.some((kind) => kind.startsWith('key:')),
        isVendors(route),
        `${daemon} ${name}`,
      );
    assert.ok(everyRoute.filter(({ route }) => isVendors(route)).length >= 4);
  });

  for (const way of ['here', 'away'] as const) {
    for (const header of ['authorization', 'x-api-key']) {
      it(`passes only there over the port, as ${header} (daemons ${way})`, async () => {
        const { secret } = world.apiKey;
        const headers = { [header]: header === 'x-api-key' ? secret : `Bearer ${secret}` };
        for (const { name, route } of everyRoute) {
          // Every daemon has these on its own socket; on the port agentd's.
          if (/^\/(healthz|metrics|v1\/snapshots)/.test(route.path)) continue;
          const { status, text } = await send(gateways[way], route, headers);
          if (isVendors(route))
            assert.ok(![401, 403].includes(status), `${name}: ${status} ${text}`);
          else {
            assert.equal(status, 403, `${name}: ${status} ${text}`);
            assert.match(text, /forbidden_caller/, name);
          }
        }
      });
    }
  }

  it('passes only there over the sockets, and says why elsewhere', async () => {
    const headers = { authorization: `Bearer ${world.apiKey.secret}` };
    for (const { daemon, name, route } of everyRoute) {
      const path = socketOf(world, daemon, 'operator', world.someRun)!;
      const ask = { params: { ...Object.fromEntries(params(route)) }, text: '{}' };
      const outcome = await callSocket(path, route, ask, { headers });
      if (isVendors(route)) assert.ok(![401, 403].includes(outcome.status), name);
      else
        assert.deepEqual([outcome.status, !outcome.ok && outcome.code], [403, 'forbidden_caller']);
    }
  });

  it('control: with the operator key every read on the port passes', async () => {
    const headers = { authorization: `Bearer ${world.operatorKey}` };
    for (const { name, route } of everyRoute) {
      if (route.method !== 'GET' || !route.callers.includes('operator')) continue;
      const { status, text } = await send(gateways.here, route, headers);
      assert.ok(![401, 403].includes(status), `${name}: ${status} ${text}`);
    }
  });

  it('a wrong, mistyped or unknown key is refused in the form of each vendor', async () => {
    const { secret } = world.apiKey;
    const other = await world.modeld.createKey({ body: { name: 'mixed' } });
    const swapped = secret.slice(0, 19) + other.key.secret.slice(19);
    const wrong: [string, RegExp][] = [
      [`${secret.slice(0, -1)}${secret.endsWith('0') ? '1' : '0'}`, /checksum/],
      [swapped, /checksum/],
      ['agentd_', /checksum/],
      [`agentd${secret.slice(6).replace('_', '-')}`, /operator key is wrong/],
      ['sk-something', /operator key is wrong/],
    ];
    const routes = everyRoute.filter(({ route }) => isVendors(route));
    for (const [key, message] of wrong)
      for (const { name, route } of routes) {
        const { status, text } = await send(gateways.here, route, { 'x-api-key': key });
        assert.equal(status, 401, name);
        const { error, type } = JSON.parse(text) as {
          type?: string;
          error: { message: string; type: string };
        };
        assert.match(error.message, message, key);
        assert.equal(type, route.dialect === 'anthropic' ? 'error' : undefined);
        if (route.dialect === 'anthropic') assert.equal(error.type, 'authentication_error');
      }
  });
});

const params = ({ path }: Route): [string, string][] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name!, 'x']);

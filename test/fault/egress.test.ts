// SIGKILL of egressd at each point of a connection and of a request, in a real runtime. After each:
// the run's socket exists again, nothing was sent twice, and every connection logged as opened is
// logged as closed.
import assert from 'node:assert/strict';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { CERT, KEY } from '../../src/daemons/egressd/testing/cert.ts';
import {
  connectThrough,
  exchange,
  startHttp,
  startTcp,
  type WirePosition,
} from '../../src/daemons/egressd/testing/wires.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { type Client, makeClient, socketLink } from '../../src/platform/link.ts';
import { egressdRoutes } from '../../src/wire/egressd.ts';
import { Fault } from '../../src/wire/errors.ts';
import type { CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const NAME = 'good.test';

describe('egressd killed, in split mode', () => {
  let runtime: TestRuntime;
  let web: WirePosition;
  let echo: WirePosition;
  const dir = freshDir();
  const secure = https.createServer({ cert: CERT, key: KEY }, (_, answer) => answer.end('secret'));
  let egressd: Client<typeof egressdRoutes>;
  let seen: string[] = [];
  const id = deriveId<RunId>('run', 'fault', 'egress');
  let socket: string;

  before(async () => {
    web = await startHttp((request, response) => {
      seen.push(`${request.method} ${request.url}`);
      response.end('done');
    });
    echo = await startTcp((client) => client.pipe(client));
    await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve));
    const ports = [web.port, echo.port, (secure.address() as AddressInfo).port];
    writeFileSync(join(dir, 'ca.pem'), CERT);
    const config = {
      egressd: {
        hosts: { [NAME]: '127.0.0.1' },
        allow_private: ports.map((port) => `${NAME}:${port}`),
        tls_ca_file: join(dir, 'ca.pem'),
      },
    };
    runtime = await startRuntime({ mode: 'split', faults: true, config: JSON.stringify(config) });
    const socketPath = socketPathFor(runtime.runtimeDir, 'egressd', 'peer-toold');
    egressd = makeClient(egressdRoutes, socketLink({ socketPath }));
    const task_id = deriveId<TaskId>('task', 'fault', 'egress');
    const allow = ports.map((port) => ({ host: NAME, port, plain: true }));
    const body = { fence: 1, agent: 'coder', task_id, root_task_id: task_id, labels: [], allow };
    ({ socket } = await egressd.putEgress({
      params: { id },
      body: { ...body, bytes_max: 1_000_000 },
    }));
  });
  after(async () => {
    await runtime.remove();
    await web.close();
    await echo.close();
    secure.close();
    rmSync(dir, { recursive: true });
  });

  const crashAt = (failpoint: string): void =>
    writeFileSync(join(runtime.stateDir, 'crash-at'), `${failpoint} 0\n`);
  const hasCrashed = (): boolean => !existsSync(join(runtime.stateDir, 'crash-at'));
  const get = () => {
    const at = `${NAME}:${web.port}`;
    return exchange(
      socket,
      `GET http://${at}/ HTTP/1.1\r\nHost: ${at}\r\nConnection: close\r\n\r\n`,
    );
  };
  const worksAgain = () =>
    eventually('egress to work again', async () =>
      (await get()).status === 200 ? true : undefined,
    );

  const post = (name: string) =>
    egressd.fetch({
      params: { id },
      body: {
        fence: 1,
        call_id: deriveId<CallId>('call', 'fault', name),
        method: 'POST',
        url: `http://${NAME}:${web.port}/${name}`,
      },
    });

  it('control: a request over TLS works', async () => {
    const { port } = secure.address() as AddressInfo;
    const call_id = deriveId<CallId>('call', 'fault', 'tls');
    const order = { fence: 1, call_id, method: 'GET', url: `https://${NAME}:${port}/` };
    const { body_base64 } = await egressd.fetch({ params: { id }, body: order });
    assert.equal(Buffer.from(body_base64, 'base64').toString(), 'secret');
  });

  it('with a tunnel open: the tunnel ends, the next one works', async () => {
    const { wire, answer } = await connectThrough(socket, `${NAME}:${echo.port}`);
    assert.equal(answer.status, 200);
    crashAt('egressd.after-allowed');
    assert.notEqual((await get()).status, 200, 'the connection ends without a response');
    await wire.closed();
    assert.ok(hasCrashed());
    await worksAgain();
    assert.deepEqual(
      seen.filter((line) => line !== 'GET /'),
      [],
    );
  });

  for (const failpoint of [
    'egressd.after-allowed',
    'egressd.after-fetch-intent',
    'egressd.after-fetch',
  ])
    it(`at ${failpoint}: a request that may change something is sent at most once`, async () => {
      seen = [];
      const name = failpoint.replace('.', '-');
      crashAt(failpoint);
      await assert.rejects(post(name), (error) => error instanceof Fault && error.retry);
      assert.ok(hasCrashed());
      await worksAgain();
      const unknown = (error: unknown) =>
        error instanceof Fault && error.code === 'conflict' && error.details?.outcome === 'unknown';
      await assert.rejects(post(name), unknown, 'the outcome is unknown, and it is not sent again');
      const times = seen.filter((line) => line === `POST /${name}`).length;
      assert.equal(times, failpoint === 'egressd.after-fetch' ? 1 : 0);
      assert.equal((await post(`${name}-other`)).status, 200);
    });

  it('the log has the start and the end of every connection', async () => {
    await egressd.dropEgress({ params: { id }, query: { fence: 1 } });
    assert.equal(existsSync(socket), false);
    await eventually('every end', async () => {
      const ids = (await allEvents(runtime)).map((event) => event.id);
      const opened = ids.filter((eventId) => eventId.endsWith('.network.allowed'));
      const known = new Set(ids);
      assert.ok(opened.length >= 8, `${opened.length} were opened`);
      const open = opened.filter((eventId) => !known.has(eventId.replace(/allowed$/, 'closed')));
      return open.length === 0 ? true : undefined;
    });
    const lost = (await allEvents(runtime)).filter(({ status }) => status === 'lost');
    assert.ok(lost.length >= 4, `${lost.length} were lost`);
  });
});

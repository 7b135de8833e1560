// A declared tool in its own sandbox with network access: through the run's egress session it
// reaches the hosts that policy allows the agent, and nothing else. Sandbox, egressd and server are
// real.
import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { callTool, type IdleWorld, type LiveRun, startIdleWorld } from '../support/callers.ts';
import { freshDir } from '../support/runtime.ts';
import { manifestOf } from '../support/scripted-world.ts';

const HOSTS = ['good.test', 'evil.test'];

describe('a declared tool with a network', () => {
  let world: IdleWorld;
  let site: http.Server;
  let port: number;
  let base: string;
  before(async () => {
    site = http.createServer((_, response) => response.end('hello'));
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
    ({ port } = site.address() as AddressInfo);
    base = freshDir();
    const dir = join(base, 'tools');
    mkdirSync(dir, { mode: 0o700 });
    const tool = (name: string, network: string) => `name: site.${name}
description: For tests.
argv: [/usr/bin/curl, -sS, --max-time, '30', 'http://{host}:${port}/']
input: { host: { type: string, enum: [good.test, evil.test] } }
place: host
read: [/usr, /bin, /lib, /lib64]
network: ${network}
risk: low
reversibility: read-only
idempotent: true
`;
    for (const [name, network] of [
      ['get', `['good.test:${port}']`],
      ['evil', `['evil.test:${port}']`],
      ['none', 'none'],
    ] as const)
      writeFileSync(join(dir, `${name}.yaml`), tool(name, network), { mode: 0o600 });
    const spec = `{ replicas: 9, tools: { allow: [site.get, site.evil, site.none] },
      network: { mode: restricted, allow: ['good.test:${port}'] } }`;
    world = await startIdleWorld({
      agents: { worker: manifestOf('worker', spec) },
      toold: { tools_dir: dir },
      egressd: {
        hosts: Object.fromEntries(HOSTS.map((host) => [host, '127.0.0.1'])),
        allow_private: HOSTS.map((host) => `${host}:${port}`),
      },
    });
  });
  after(async () => {
    await world.stop();
    site.close();
    rmSync(base, { recursive: true, force: true });
  });

  let step = 0;
  const useTool = async (run: LiveRun, tool: string, host = 'good.test') => {
    const body = { call_id: run.callId(step++), tool, arguments: { host } };
    return callTool(world, run, body);
  };

  it('reaches a host that both it and the agent’s policy list, and marks the run', async () => {
    const run = await world.startRun();
    const got = await useTool(run, 'site.get');
    assert.equal(got.result?.stdout, 'hello', JSON.stringify(got));
    const { task } = await world.agentd.getTask({ params: { id: run.taskId } });
    assert.ok(task.labels.includes('outside'));
  });

  it('reaches no host that the agent may not, and none without a list', async () => {
    const run = await world.startRun();
    const other = await useTool(run, 'site.get', 'evil.test');
    assert.equal(other.status === 'completed' && other.result?.stdout === 'hello', false);
    assert.match(JSON.stringify(other), /evil\.test/);
    assert.equal((await useTool(run, 'site.evil', 'evil.test')).status, 'denied');
    const none = await useTool(run, 'site.none');
    assert.deepEqual([none.status, none.error?.code], ['failed', 'command_failed']);
  });
});

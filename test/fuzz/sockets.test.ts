// Malformed requests at every socket of a runtime: 10,000 each, with FUZZ=long a million. Every
// response is a valid success or a fault of the table, and afterwards everything still works.
// FUZZ_SEED=… repeats a run, FUZZ_ONLY=socket:number one case; FUZZ_COUNT=… sets the count.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { commonRoutes } from '../../src/platform/common-routes.ts';
import { runDirName, socketPathFor } from '../../src/platform/daemon.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import { DAEMONS, type DaemonName, RUN_DAEMONS } from '../../src/wire/daemons.ts';
import { runSocketOf, TABLES } from '../support/callers.ts';
import type { RawTarget } from '../support/raw-http.ts';
import {
  eventually,
  freshDir,
  ROOT,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';
import { type Aim, caseOf, type FuzzCase } from './cases.ts';
import { sendAll, smallest } from './send.ts';

const seed = process.env.FUZZ_SEED ?? String(Date.now());
const [onlyName, onlyIndex] = (process.env.FUZZ_ONLY ?? '').split(':');
const count = Number(process.env.FUZZ_COUNT ?? (process.env.FUZZ === 'long' ? 1_000_000 : 10_000));
const CONNECTIONS = 24;
const BATCH = 24;
const RSS_GROWTH_BYTES_MAX = 250_000_000;

const worker = `apiVersion: agentd/v1
kind: Agent
metadata: { name: worker, description: Holds still or finishes. }
spec: { replicas: 8, tools: { allow: [test.tools] } }
`;

describe(`malformed requests (FUZZ_SEED=${seed})`, () => {
  const base = freshDir();
  const runner = join(base, 'runner.mjs');
  let runtime: TestRuntime;
  let run: string;
  let before_: { pids: number[]; rss: number };

  const startRun = async (): Promise<string> => {
    const body = { goal: 'Hold still', agent: 'worker' };
    const { task } = await runtime.agentd.createTask({ body });
    return eventually('a live run', async () => {
      const { runs } = await runtime.agentd.listRuns({ query: { task_id: task.id } });
      const live = runs.find(({ status }) => status === 'live');
      const isOpen = (name: DaemonName) => existsSync(runSocketOf(runtime, name, live!));
      return live !== undefined && RUN_DAEMONS.every(isOpen)
        ? runDirName({ runId: live.id, fence: live.fence })
        : undefined;
    });
  };

  /** Every process of the runtime: the supervisor, and one per daemon. */
  const inspect = async (): Promise<{ pids: number[]; rss: number }> => {
    const headers = { authorization: `Bearer ${runtime.operatorKey}` };
    const pids = [runtime.process.pid!];
    for (const name of DAEMONS) {
      const socketPath = socketPathFor(runtime.runtimeDir, name, 'operator');
      const link = socketLink({ socketPath, headers });
      pids.push((await makeClient(commonRoutes, link).health({})).pid);
      link.close();
    }
    const rssOf = (pid: number): number =>
      Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1_000;
    return { pids, rss: Math.max(...pids.map(rssOf)) };
  };

  before(async () => {
    // A runner that only keeps its run alive, until the real one replaces it.
    writeFileSync(runner, "process.stdin.on('end', () => process.exit()).resume();\n");
    runtime = await startRuntime({
      base,
      mode: 'split',
      port: 0,
      agents: { worker },
      config: `agentd: { lease_s: 3600 }\nsandboxd: { runner: ${runner} }\ntoold: { test_tools: true }\n`,
    });
    run = await startRun();
    before_ = await inspect();
  });
  after(() => runtime.remove());

  const operator = () => ({ authorization: `Bearer ${runtime.operatorKey}` });
  const aims = (): { aim: Aim; where: () => RawTarget }[] => {
    const routesOf = (name: DaemonName) => Object.values(TABLES[name]);
    const unix = (name: DaemonName, who: () => string) => () => ({
      path: socketPathFor(runtime.runtimeDir, name, who()),
    });
    const all = DAEMONS.flatMap(routesOf);
    const port = { host: '127.0.0.1', port: runtime.info.port! };
    return [
      ...DAEMONS.map((name) => ({
        aim: { name: `operator-${name}`, routes: routesOf(name), headers: operator() },
        where: unix(name, () => 'operator'),
      })),
      ...RUN_DAEMONS.map((name) => ({
        aim: { name: `run-${name}`, routes: routesOf(name), headers: {} },
        where: unix(name, () => run),
      })),
      {
        aim: {
          name: 'port',
          routes: all,
          headers: { ...operator(), host: `127.0.0.1:${port.port}` },
        },
        where: () => port,
      },
    ];
  };

  const report = async (
    aim: Aim,
    where: RawTarget,
    index: number,
    wrong: string,
  ): Promise<never> => {
    const one = caseOf(seed, aim, index);
    const least = await smallest(where, one).catch(() => one);
    const show = ({ bytes }: FuzzCase) => JSON.stringify(bytes.toString('latin1').slice(0, 2_000));
    return assert.fail(
      `${aim.name}, request ${index} (${one.kind}): ${wrong}\nit was    ${show(one)}\n` +
        `smallest  ${show(least)}\nagain     FUZZ_SEED=${seed} FUZZ_ONLY=${aim.name}:${index}`,
    );
  };

  /** Sends cases from the shared counter until it is exhausted. */
  const send = async (aim: Aim, where: () => RawTarget, next: () => number | undefined) => {
    let refused = 0;
    for (let from = next(); from !== undefined; from = next()) {
      const size = Math.min(BATCH, count - from);
      const made = Array.from({ length: size }, (_, i) => {
        const index = from! + i;
        return { index, one: caseOf(seed, aim, index) };
      });
      const framed = made.filter(({ one }) => one.framed);
      const alone = made.filter(({ one }) => !one.framed).map((entry) => [entry]);
      for (const group of [framed, ...alone]) {
        if (group.length === 0) continue;
        const results = await sendAll(
          where(),
          group.map(({ one }) => one),
        );
        for (const [i, { wrong, refused: isRefused }] of results.entries()) {
          if (wrong !== undefined) await report(aim, where(), group[i]!.index, wrong);
          if (isRefused) refused++;
        }
      }
    }
    return refused;
  };

  for (const name of [
    ...DAEMONS.map((daemon) => `operator-${daemon}`),
    ...RUN_DAEMONS.map((daemon) => `run-${daemon}`),
    'port',
  ]) {
    const isLeftOut = onlyName !== undefined && onlyName !== '' && onlyName !== name;
    it(`${name}: each response is valid`, {
      skip: isLeftOut ? 'FUZZ_ONLY' : false,
    }, async () => {
      const { aim, where } = aims().find((one) => one.aim.name === name)!;
      if (onlyIndex !== undefined) {
        const [result] = await sendAll(where(), [caseOf(seed, aim, Number(onlyIndex))]);
        if (result?.wrong !== undefined)
          await report(aim, where(), Number(onlyIndex), result.wrong);
        return;
      }
      let at = 0;
      const next = (): number | undefined => {
        const from = at;
        at += BATCH;
        return from < count ? from : undefined;
      };
      const refused = await Promise.all(
        Array.from({ length: CONNECTIONS }, () => send(aim, where, next)),
      );
      const sum = refused.reduce((a, b) => a + b);
      assert.ok(sum > count * 0.9, `${sum} of ${count} were refused`);
    });
  }

  it('the processes are the same, and their memory has not grown', async () => {
    const now = await inspect();
    assert.deepEqual(now.pids, before_.pids);
    const grown = now.rss - before_.rss;
    assert.ok(grown < RSS_GROWTH_BYTES_MAX, `the largest grew by ${grown} bytes`);
  });

  it('the logs report no bug', () => {
    const dir = join(runtime.stateDir, 'logs');
    for (const name of readdirSync(dir)) {
      const bugs = readFileSync(join(dir, name), 'utf8')
        .split('\n')
        .filter((line) => /a handler failed|sending a response failed|invalid response/.test(line));
      assert.deepEqual(bugs.slice(0, 3), [], name);
    }
  });

  it('a task still completes', async () => {
    copyFileSync(join(ROOT, 'build', 'runner.mjs'), runner);
    const body = { goal: 'Finish as usual', agent: 'worker' };
    const { task } = await runtime.agentd.createTask({ body });
    const ended = await taskEnded(runtime, task.id);
    assert.equal(ended.status, 'completed', JSON.stringify(ended));
    await eventually('its end in the log', async () => {
      const { events } = await runtime.audit.task({ params: { task_id: task.id }, query: {} });
      return events.find(({ event }) => event === 'task.ended');
    });
  });
});

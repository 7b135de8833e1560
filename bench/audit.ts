// Measures auditd-ai alone: batches of events over its socket, each acknowledged once durable.
import http from 'node:http';
import { deriveId } from '../src/platform/ids.ts';
import type { NewEvent } from '../src/wire/events.ts';
import { startDaemons } from './daemons.ts';
import { type Benchmark, type Figure, seeRounds } from './figure.ts';
import { cpuMsOf } from './machine.ts';

const BATCH = 500;
const SENDERS = 4;
const WARM_UP_MS = 1_500;
const ROUND_MS = 1_500;
const ROUNDS = 8;

/** One source, like an outbox: its own store, growing numbers, one batch at a time. */
function makeBatches(sender: number): () => string {
  let seq = 0;
  return () => {
    const events: NewEvent[] = [];
    const call = deriveId<string>('call', 'bench', sender, seq);
    for (let i = 0; i < BATCH; i++) {
      seq++;
      events.push({
        id: `${call}.attempted.${seq}`,
        ts: new Date().toISOString(),
        event: 'tool.call.attempted',
        source: 'toold',
        source_store: `bench-${sender}`,
        source_seq: seq,
        principal: 'agent:coder',
        agent: 'coder',
        task_id: derivedTask(sender, seq),
        root_task_id: derivedTask(sender, seq),
        run_id: `run_${String(seq >> 4).padStart(26, '0')}`,
        call_id: call,
        tool: 'test.echo',
        allowed: true,
        policy: 'grant',
        data: { attempt: 1, fence: 1, arguments_hash: HASH },
      });
    }
    return JSON.stringify({ events });
  };
}

const HASH = '5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8';
const derivedTask = (sender: number, seq: number): string =>
  `task_${sender}${String(seq >> 5).padStart(25, '0')}`;

function post(agent: http.Agent, socketPath: string, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = http.request({
      agent,
      socketPath,
      method: 'POST',
      path: '/v1/audit/append',
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) },
    });
    request.on('error', reject);
    request.on('response', (response) => {
      response.resume();
      response.on('end', () =>
        response.statusCode === 200
          ? resolve()
          : reject(new Error(`auditd-ai answered ${response.statusCode}`)),
      );
    });
    request.end(text);
  });
}

async function run(): Promise<Figure[]> {
  const daemons = await startDaemons(['auditd-ai']);
  const agent = new http.Agent({ keepAlive: true, maxSockets: SENDERS });
  const socketPath = daemons.socketOf('auditd-ai', 'peer-toold');
  const senders = Array.from({ length: SENDERS }, (_, sender) => makeBatches(sender));
  try {
    const usedMs = (): number => daemons.pids.reduce((sum, pid) => sum + cpuMsOf(pid), 0);
    const drive = async (ms: number): Promise<{ perSecond: number; cpuUs: number }> => {
      const began = performance.now();
      const before = usedMs();
      let events = 0;
      await Promise.all(
        senders.map(async (next) => {
          while (performance.now() - began < ms) {
            await post(agent, socketPath, next());
            events += BATCH;
          }
        }),
      );
      return {
        perSecond: events / ((performance.now() - began) / 1000),
        cpuUs: ((usedMs() - before) * 1000) / events,
      };
    };
    await drive(WARM_UP_MS);
    const rounds: { perSecond: number; cpuUs: number }[] = [];
    for (let round = 0; round < ROUNDS; round++) rounds.push(await drive(ROUND_MS));
    return [
      {
        name: 'audit events durable, batches of 500',
        unit: 'events/s',
        own: seeRounds(rounds.map(({ perSecond }) => perSecond)),
        bar: { of: 'value', min: 50_000 },
      },
      {
        name: '… processor time of one event, auditd-ai',
        unit: 'µs',
        own: seeRounds(rounds.map(({ cpuUs }) => cpuUs)),
      },
    ];
  } finally {
    agent.destroy();
    await daemons.remove();
  }
}

export const audit: Benchmark = {
  name: 'audit',
  about: 'audit events alone, in batches, each durable',
  run,
};

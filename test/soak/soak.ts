// Runs a soak: load, people, kills and measurements beside each other, then the checks.
import { setTimeout as sleep } from 'node:timers/promises';
import { describeMachine } from '../../bench/machine.ts';
import { seeded } from '../support/seeded.ts';
import { type Criterion, checkMemory, checkRate, type MemoryPoint } from './criteria.ts';
import { type SoakPeople, startPeople } from './people.ts';
import { latencies, type Minute, renderHeader, renderMinute, type SoakReport } from './report.ts';
import { type MemorySample, sampleMemory, sampleSizes } from './samples.ts';
import type { SoakSite } from './site.ts';
import { checkEffects, checkRecord, checkTasks } from './verify.ts';
import { type Kill, makeKiller } from './victims.ts';
import { startWorkload, type Workload } from './workload.ts';

const MINUTE_MS = 60_000;
const MEMORY_INTERVAL_MS = 2_000;
/** Garbage collection makes memory jump; the lowest of some samples is what is really used. */
const SAMPLES_PER_POINT = 10;
const END_MS_MAX = 5 * MINUTE_MS;

export type SoakOptions = {
  minutes: number;
  mode: 'embedded' | 'split';
  inFlight: number;
  seed: number;
};

type SoakRun = {
  site: SoakSite;
  options: SoakOptions;
  startMs: number;
  uptime: Uptime;
  workload: Workload;
  people: SoakPeople;
  /** Aborted when everything has ended, or broke off. */
  end: AbortController;
  kills: Kill[];
  samples: MemorySample[];
  rows: Minute[];
};

export async function soak(site: SoakSite, options: SoakOptions): Promise<SoakReport> {
  await site.up();
  const run = startRun(site, options);
  const watching = watchMemory(run);
  const failure = await runToEnd(run);
  run.end.abort();
  run.workload.stop();
  run.people.stop();
  await Promise.allSettled([watching, run.workload.finished, run.people.finished]);
  const { done, open } = run.workload;
  const criteria = [
    ...failure,
    checkTasks(done, open()),
    checkEffects(done, site.effects()),
    ...(await checkRecord(site)),
    checkRate(run.rows),
    checkMemory(toPoints(run.samples), options.minutes),
  ];
  const { minutes, mode, inFlight, seed } = options;
  const tasks = done.flatMap(({ ended }) => ended).length;
  const effects = site.effects().size;
  return {
    machine: describeMachine(),
    options: { minutes, mode, in_flight: inFlight, seed },
    minutes: run.rows,
    counts: { tasks, kills: run.kills.length, effects, ...run.people.counts },
    criteria,
    passed: criteria.every(({ status }) => status !== 'failed'),
  };
}

function startRun(site: SoakSite, options: SoakOptions): SoakRun {
  const clients = site.clients();
  const uptime = makeUptime();
  const end = new AbortController();
  const workload = startWorkload({
    clients,
    inFlight: options.inFlight,
    random: seeded(options.seed, 'workload'),
    onRequest: uptime.record,
    signal: end.signal,
  });
  const people = startPeople(clients, site.effects);
  const startMs = performance.now();
  const measured = { kills: [], samples: [], rows: [] };
  return { site, options, startMs, uptime, workload, people, end, ...measured };
}

/** Resolves to the fault that ended it early, if any. */
async function runToEnd(run: SoakRun): Promise<Criterion[]> {
  const { workload, people } = run;
  try {
    // Both only end by a fault, until they are stopped.
    const broken = Promise.race([workload.finished, people.finished]);
    await Promise.race([Promise.all([killEachMinute(run), reportMinutes(run)]), broken]);
    workload.stop();
    await Promise.race([workload.finished, people.finished, sleep(END_MS_MAX)]);
    return [];
  } catch (error) {
    return [{ name: 'no unexpected fault', status: 'failed', detail: String(error) }];
  }
}

const sleepUntil = (startMs: number, ms: number) =>
  sleep(Math.max(0, startMs + ms - performance.now()));

async function killEachMinute({ site, options, startMs, kills, end }: SoakRun): Promise<void> {
  const random = seeded(options.seed, 'kills');
  const kill = makeKiller(site, random, options.mode);
  for (let minute = 0; minute < options.minutes; minute++) {
    // Early enough to be back within the minute.
    await sleepUntil(startMs, (minute + 1 / 6 + random.int(500) / 1_000) * MINUTE_MS);
    if (end.signal.aborted) return;
    kills.push(await kill(startMs));
  }
}

async function watchMemory({ site, startMs, samples, end }: SoakRun): Promise<void> {
  while (!end.signal.aborted) {
    const sample = sampleMemory(site, startMs);
    if (sample !== undefined) samples.push(sample);
    await sleep(MEMORY_INTERVAL_MS);
  }
}

async function reportMinutes(run: SoakRun): Promise<void> {
  const { options, startMs, uptime, workload, rows, kills, samples, site, end } = run;
  console.log(renderHeader());
  const before = { tasks: 0, kills: 0, downMs: 0 };
  for (let minute = 1; minute <= options.minutes; minute++) {
    await sleepUntil(startMs, minute * MINUTE_MS);
    if (end.signal.aborted) return;
    const tasks = workload.done.slice(before.tasks);
    const downMs = uptime.downMs();
    const upMs = MINUTE_MS - (downMs - before.downMs);
    rows.push({
      minute,
      tasks: tasks.length,
      upMs: Math.round(upMs),
      tasksPerSecond: (tasks.length * 1_000) / Math.max(1, upMs),
      latencyMs: latencies(tasks),
      kills: kills.slice(before.kills),
      memory: samples.at(-1) ?? null,
      sizes: sampleSizes(site.stateDir),
    });
    console.log(renderMinute(rows.at(-1)!));
    Object.assign(before, { tasks: workload.done.length, kills: kills.length, downMs });
  }
}

type Uptime = { record(isUp: boolean): void; downMs(): number };

/** Measures the time in which requests were not answered. */
function makeUptime(): Uptime {
  let downSince: number | undefined;
  let downMs = 0;
  return {
    record(isUp) {
      if (!isUp) downSince ??= performance.now();
      else if (downSince !== undefined) {
        downMs += performance.now() - downSince;
        downSince = undefined;
      }
    },
    downMs: () => downMs + (downSince === undefined ? 0 : performance.now() - downSince),
  };
}

/** Reduces samples to the lowest of each group, in order. */
function toPoints(samples: readonly MemorySample[]): MemoryPoint[] {
  const points: MemoryPoint[] = [];
  for (let i = 0; i + SAMPLES_PER_POINT <= samples.length; i += SAMPLES_PER_POINT) {
    const group = samples.slice(i, i + SAMPLES_PER_POINT);
    points.push(group.reduce((low, one) => (one.totalBytes < low.totalBytes ? one : low)));
  }
  return points;
}

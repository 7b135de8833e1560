// Runs the benchmarks one after another and prints every figure with its peer and its bar.
//   bench/main.ts [name…]
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { apply } from './apply.ts';
import { audit } from './audit.ts';
import { auditVerify } from './audit-verify.ts';
import { board } from './board.ts';
import { boxRun } from './box-run.ts';
import { egress } from './egress.ts';
import { endedTasks } from './ended-tasks.ts';
import { type Benchmark, type Figure, isOk, lineOf } from './figure.ts';
import { fileRead } from './file-read.ts';
import { idleAgents } from './idle-agents.ts';
import { idleMemory } from './idle-memory.ts';
import { journaledCall } from './journaled-call.ts';
import { layer } from './layer.ts';
import { describeMachine } from './machine.ts';
import { mail } from './mail.ts';
import { mailStart } from './mail-start.ts';
import { memoryQuality } from './memory-quality.ts';
import { memorySpeed } from './memory-speed.ts';
import { memoryVectors } from './memory-vectors.ts';
import { memoryWrite } from './memory-write.ts';
import { migrate } from './migrate.ts';
import { million } from './million.ts';
import { modeld } from './modeld.ts';
import { policy } from './policy.ts';
import { prune } from './prune.ts';
import { sandbox } from './sandbox.ts';
import { status } from './status.ts';
import { taskRate } from './task-rate.ts';
import { taskStart } from './task-start.ts';
import { translation } from './translation.ts';

const BENCHMARKS: readonly Benchmark[] = [
  modeld,
  translation,
  taskStart,
  taskRate,
  mailStart,
  board,
  journaledCall,
  audit,
  auditVerify,
  fileRead,
  egress,
  policy,
  status,
  idleAgents,
  idleMemory,
  endedTasks,
  million,
  migrate,
  prune,
  memoryQuality,
  memorySpeed,
  memoryVectors,
  memoryWrite,
  mail,
  sandbox,
  boxRun,
  layer,
  apply,
];

type Outcome = { benchmark: string; tookS: number; figures: Figure[]; failed?: string };

function choose(names: readonly string[]): Benchmark[] {
  const unknown = names.filter((name) => !BENCHMARKS.some((one) => one.name === name));
  if (unknown.length > 0) {
    const known = BENCHMARKS.map(({ name }) => name).join(', ');
    console.error(`bench: there is no benchmark ${unknown.join(', ')}; there are ${known}`);
    process.exit(2);
  }
  return BENCHMARKS.filter(({ name, isByNameOnly }) =>
    names.length === 0 ? isByNameOnly !== true : names.includes(name),
  );
}

async function runOne(benchmark: Benchmark): Promise<Outcome> {
  const began = performance.now();
  const tookS = () => Math.round((performance.now() - began) / 100) / 10;
  process.stdout.write(`bench: ${benchmark.name}: ${benchmark.about} … `);
  try {
    const figures = await benchmark.run();
    console.log(`${tookS()} s`);
    return { benchmark: benchmark.name, tookS: tookS(), figures };
  } catch (error) {
    console.log('failed');
    console.error(error);
    const failed = error instanceof Error ? error.message : String(error);
    return { benchmark: benchmark.name, tookS: tookS(), figures: [], failed };
  }
}

const machine = describeMachine();
if (machine.load > machine.cores / 2)
  console.log(`bench: the machine is busy (load ${machine.load} on ${machine.cores} cores)`);
const outcomes: Outcome[] = [];
for (const benchmark of choose(process.argv.slice(2))) outcomes.push(await runOne(benchmark));

console.log('\nname | value unit | peer value | ratio | bar | ok');
for (const { benchmark, figures, failed } of outcomes) {
  for (const figure of figures) console.log(lineOf(figure));
  if (failed !== undefined) console.log(`${benchmark} | failed | – | – | – | short`);
}
const isGood = outcomes.every(({ figures, failed }) => failed === undefined && figures.every(isOk));
const benchmarks = outcomes.map(({ figures, ...rest }) => ({
  ...rest,
  figures: figures.map((figure) => ({ ...figure, ok: isOk(figure) })),
}));
const report = { at: new Date().toISOString(), machine, isGood, benchmarks };
writeFileSync(join(import.meta.dirname, 'results.json'), `${JSON.stringify(report, null, 2)}\n`);
process.exit(isGood ? 0 : 1);

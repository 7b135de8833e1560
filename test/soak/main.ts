// The soak: tasks of every kind for a long time, kill -9 of a random process each minute, and a
// report of rates, latencies, sizes and memory. Exits with 1 if anything was lost, doubled, slowed
// down or grew.
//   test/soak/main.ts [--minutes N] [--split] [--in-flight N] [--seed N] [--json FILE]
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { renderCriteria } from './report.ts';
import { makeSoakSite } from './site.ts';
import { type SoakOptions, soak } from './soak.ts';

function readCount(name: string, text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  console.error(`soak: --${name} ${text} is not a whole number above 0`);
  process.exit(2);
}

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    split: { type: 'boolean', default: false },
    'in-flight': { type: 'string', default: '8' },
    seed: { type: 'string', default: String(1 + (Date.now() % 1_000_000)) },
    json: { type: 'string' },
  },
});
const options: SoakOptions = {
  minutes: readCount('minutes', values.minutes),
  mode: values.split ? 'split' : 'embedded',
  inFlight: readCount('in-flight', values['in-flight']),
  seed: readCount('seed', values.seed),
};
const site = makeSoakSite(options.mode);
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void site.remove().finally(() => process.exit(130)));
console.log(
  `soak: ${options.minutes} minutes, ${options.mode}, ${options.inFlight} tasks in progress, ` +
    `seed ${options.seed}, state ${site.stateDir}`,
);
const report = await soak(site, options);
console.log(renderCriteria(report));
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(report, null, 1)}\n`);
if (report.passed) await site.remove();
else console.log(`soak: the state is kept in ${site.stateDir}; remove it when it was read`);
process.exit(report.passed ? 0 : 1);

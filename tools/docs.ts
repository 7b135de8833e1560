// Writes the reference pages and the tables of daemons, which are made from the code, or checks
// that they are up to date. Also checks the picture of the demo, which tools/record-demo.ts makes.
//   tools/docs.ts --check|--write [--root DIR]
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { writeApiPage } from './docs/api-page.ts';
import { readContract } from './docs/contract.ts';
import { type DaemonTable, renewDaemonTables } from './docs/daemons.ts';
import { findPictureProblem } from './docs/demo-picture.ts';
import { type FaultTable, writeErrorsPage } from './docs/errors-page.ts';
import { writeOpenapi } from './docs/openapi.ts';
import { type Finding, report } from './source.ts';

async function makePages(root: string): Promise<Record<string, string>> {
  const wire = (file: string) => import(pathToFileURL(join(root, 'src/wire', file)).href);
  const read = (path: string) => readFileSync(join(root, path), 'utf8');
  const { FAULTS } = (await wire('errors.ts')) as { FAULTS: FaultTable };
  const { DAEMON_TABLE } = (await wire('daemons.ts')) as { DAEMON_TABLE: DaemonTable };
  const contract = await readContract(root);
  const { version } = JSON.parse(read('package.json'));
  const architecture = read('docs/architecture.md');
  return {
    'docs/errors.md': writeErrorsPage(FAULTS),
    'docs/api.md': writeApiPage(contract),
    'docs/openapi.json': writeOpenapi({ contract, version, faultCodes: Object.keys(FAULTS) }),
    'docs/architecture.md': renewDaemonTables(architecture, DAEMON_TABLE, contract.routes),
  };
}

/** A new run of the demo would look different, so the picture is checked and not compared. */
async function checkDemoPicture(root: string): Promise<Finding[]> {
  const steps = join(root, 'demo/steps.ts');
  if (!existsSync(steps)) return [];
  const path = 'docs/demo.svg';
  const full = join(root, path);
  const { STEPS } = (await import(pathToFileURL(steps).href)) as { STEPS: Record<string, string> };
  const problem = existsSync(full)
    ? findPictureProblem(readFileSync(full, 'utf8'), Object.values(STEPS))
    : 'is missing';
  return problem === undefined ? [] : [{ path, text: `${problem}; run: make docs` }];
}

const { values: options } = parseArgs({
  options: {
    root: { type: 'string' },
    check: { type: 'boolean' },
    write: { type: 'boolean' },
  },
});
if (options.check === options.write) {
  console.error('usage: tools/docs.ts --check|--write [--root DIR]');
  process.exit(2);
}
const root = resolve(options.root ?? join(import.meta.dirname, '..'));
const findings: Finding[] = [];
for (const [path, text] of Object.entries(await makePages(root))) {
  const full = join(root, path);
  const now = existsSync(full) ? readFileSync(full, 'utf8') : undefined;
  if (now === text) continue;
  if (options.write) {
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, text);
    console.log(`wrote ${path}`);
  } else {
    const what = now === undefined ? 'is missing' : 'differs from the code';
    findings.push({ path, text: `${what}; run: make docs` });
  }
}
if (options.check) findings.push(...(await checkDemoPicture(root)));
report('docs', findings);

// The reference pages that are made from the code, so that the two cannot differ. --check says
// which pages are out of date, --write writes them. All other pages are written by people.
//   tools/docs.ts --check|--write [--root DIR]
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { writeApiPage } from './docs/api-page.ts';
import { readContract } from './docs/contract.ts';
import { type FaultTable, writeErrorsPage } from './docs/errors-page.ts';
import { writeOpenapi } from './docs/openapi.ts';
import { type Finding, report } from './source.ts';

async function makePages(root: string): Promise<Record<string, string>> {
  const errors = pathToFileURL(join(root, 'src/wire/errors.ts')).href;
  const { FAULTS } = (await import(errors)) as { FAULTS: FaultTable };
  const pages: Record<string, string> = { 'docs/errors.md': writeErrorsPage(FAULTS) };
  const contract = await readContract(root);
  if (contract.routes.length === 0) return pages;
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  pages['docs/api.md'] = writeApiPage(contract);
  pages['docs/openapi.json'] = writeOpenapi({ contract, version, faultCodes: Object.keys(FAULTS) });
  return pages;
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
report('docs', findings);

// Makes package-lock.json self-contained: removes the names of optional packages without an entry
// (other systems' binaries that were not available when it was written). With them `npm ci` refuses
// the whole file. Run it after npm has changed the lock file.
//   tools/trim-lock.ts [--check] [--root DIR]
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type Finding, report } from './source.ts';

type Entry = { optionalDependencies?: Record<string, string> };
type Lock = { packages: Record<string, Entry> };

/** Resolves as Node does: next to the package, then next to each package around it. */
function isInLock(packages: Lock['packages'], from: string, name: string): boolean {
  for (let around = from; ; around = around.slice(0, around.lastIndexOf('/node_modules/'))) {
    if (`${around === '' ? '' : `${around}/`}node_modules/${name}` in packages) return true;
    if (around === '') return false;
    if (!around.includes('/node_modules/')) return `node_modules/${name}` in packages;
  }
}

const { values: options } = parseArgs({
  options: { root: { type: 'string' }, check: { type: 'boolean' } },
});
const root = resolve(options.root ?? join(import.meta.dirname, '..'));
const path = join(root, 'package-lock.json');
const lock = JSON.parse(readFileSync(path, 'utf8')) as Lock;
const findings: Finding[] = [];

for (const [from, entry] of Object.entries(lock.packages)) {
  const names = Object.keys(entry.optionalDependencies ?? {});
  for (const name of names.filter((name) => !isInLock(lock.packages, from, name))) {
    const text = `${from} names ${name}, which it has no entry for; run: node tools/trim-lock.ts`;
    findings.push({ path: 'package-lock.json', text });
    delete entry.optionalDependencies?.[name];
  }
  if (names.length > 0 && Object.keys(entry.optionalDependencies ?? {}).length === 0) {
    delete entry.optionalDependencies;
  }
}
if (options.check) report('lock', findings);
else if (findings.length > 0) writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`);
